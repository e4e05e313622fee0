"""Topics given by one ambiguous word of the school encyclopaedia, for experiment s3-35-real (S3-09, S3-35).

python benchmarks/topics/ambiguous_words.py WEB DIR

DIR becomes a web of its own: links to the files of WEB, and a topics.toml in which a user says "star", means the ones
in the sky, and names words of the other senses. Nothing of the web's text is copied.
"""

import random
import re
import sys
from pathlib import Path
from typing import NamedTuple

import tomli_w

from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.topics import LabTopic, TopicBrief
from opilio.lab.webs.web import WarcWeb

SETS, SEEDS, TIMES = 3, 3, 3  # seed sets a topic, pages a set, how often a seed says the word
MUSIC = ("guitar", "album", "song", "singer", "concert")


class Word(NamedTuple):
    """An ambiguous word, the labels of the sense that is meant, words of the others. `name` where two share a word."""

    word: str
    relevant: tuple[str, ...]
    contexts: tuple[str, ...]
    name: str = ""


WORDS = (
    Word(
        "star",
        ("Science.Physics.Space_Astronomy", "Science.Physics.The_Planets"),
        ("film", "actor", "actress", "television", "celebrity", "football", "movie", "album"),
    ),
    Word("rock", ("Geography.Geology_and_geophysics", "Geography.Mineralogy"), (*MUSIC, "band", "drummer", "pop")),
    Word("rock", ("Music",), ("granite", "sediment", "erosion", "volcano", "limestone", "lava", "cliff"), "rocks"),
    Word("metal", ("Science.Chemistry.Chemical_elements", "Science.Chemistry.Materials_science"), (*MUSIC, "coin")),
    Word(
        "train",
        ("Design_and_Technology.Railway_transport",),
        ("army", "soldier", "athlete", "school", "student", "pilot", "apprentice", "coach"),
    ),
    Word(
        "cell",
        (
            "Science.Biology.Health_and_medicine",
            "Science.Biology.General_Biology",
            "Science.Biology.Organisms",
            "Science.Biology.Evolution_and_reproduction",
        ),
        ("prison", "phone", "battery", "terrorist", "monk", "voltage", "electrode"),
    ),
    Word(
        "season",
        ("Geography.Storms", "Geography.Natural_Disasters"),
        ("football", "league", "episode", "television", "goal", "championship", "team", "opera"),
    ),
    Word("track", ("Design_and_Technology.Railway_transport",), (*MUSIC, "athlete", "runner", "sprint", "recording")),
    Word("organ", ("Music",), ("tissue", "liver", "kidney", "disease", "embryo", "insect", "government"), "organs"),
)


def main(source: Path, folder: Path) -> None:
    """Write the folder."""
    web = WarcWeb.open(source)
    folder.mkdir(parents=True)
    for file in (*source.glob("*.warc.gz"), source / "labels.tsv"):
        (folder / file.name).symlink_to(file.resolve())
    pages, labels = ParsedPages.open(web), load_labels(web)
    rng = random.Random(35)
    topics = []
    for word in WORDS:
        topic = LabTopic(brief=TopicBrief(name=word.word), relevant=word.relevant, seed_sets=())
        spoken = re.compile(rf"\b{word.word}s?\b", re.IGNORECASE)
        on_topic = [url for number, url in enumerate(web.urls) if labels.relevant(topic)[number]]
        saying = [u for u in on_topic if (p := pages.page(web.numbers[u])) and len(spoken.findall(p.text)) >= TIMES]
        seeds = [{"name": f"on-topic-{n + 1}", "urls": rng.sample(saying, SEEDS)} for n in range(SETS)]
        topics.append(
            {
                "name": word.name or word.word,
                "keywords": [word.word],
                "contexts": list(word.contexts),
                "relevant": list(word.relevant),
                "seeds": seeds,
            }
        )
    (folder / "topics.toml").write_text(tomli_w.dumps({"topic": topics}), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
