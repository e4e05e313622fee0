"""Writes a synthetic web whose topics are given by one ambiguous word only: for experiment s3-35 (S3-09, S3-35).

python benchmarks/topics/ambiguous_web.py DIR
"""

import sys
import tomllib
from pathlib import Path

import tomli_w

from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.prose import load_word_lists
from opilio.lab.synthetic.web import write_synthetic_web

SHAPE = WebShape(
    seed=5, pages=2000, hosts=20, topics=4, topical_share=0.25, ambiguous=0.25, locality=0.5, host_focus=0.3
)


def main(folder: Path) -> None:
    """A user enters "crane" and means the bird: name and keyword are the ambiguous word, the labels stay."""
    write_synthetic_web(SHAPE, folder)
    path = folder / "topics.toml"
    topics = tomllib.loads(path.read_text("utf-8"))["topic"]
    shared = {subject.name: subject.ambiguous for subject in load_word_lists().subjects}
    for topic in topics:
        word = shared[topic["name"]]
        topic |= {"name": word, "description": "", "keywords": [word]}
    path.write_text(tomli_w.dumps({"topic": topics}), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
