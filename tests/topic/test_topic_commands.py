"""`opilio topic build`, `show` and `suggest`, and what they refuse."""

import asyncio
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from checks.small_webs import BIRDS, TRAINS, SmallWeb, crawl, events, one_line, opilio, page, rows, served, settings_for
from checks.wordnet_files import WordNetWriter
from opilio.manage.backlink_crawl import crawl_example_texts
from opilio.manage.topic_builder import build_table_from_pages
from opilio.topic.setup import resolve_settings
from opilio.topic.topic import make_topic

WRENS = [f"{BIRDS} Wrens feed on {food} in the hedge." for food in ("spiders", "insects", "larvae", "seeds")]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for number, text in enumerate(WRENS):
        (tmp_path / f"wren{number}.html").write_text(f"<html><body><p>{text}</p></body></html>")
        (tmp_path / f"train{number}.html").write_text(f"<html><body><p>{TRAINS} {number * 'signal '}</p></body></html>")
    (tmp_path / "log.txt").write_text("wren nest\nwren song\nstork\n")
    return tmp_path


def built(place: Path, *arguments: object) -> tuple[dict[str, float], list[str]]:
    """The keywords of the file that was written, and the warnings."""
    done = opilio("topic", "build", *arguments, cwd=place)
    assert done.returncode == 0, done.stderr
    keywords = tomllib.loads((place / "topic.toml").read_text())["topic"]["keywords"]
    return keywords, done.stderr.splitlines()


def test_sentence_and_weighted_keywords_make_a_topic(place: Path) -> None:
    keywords, warnings = built(place, "wrens of Europe", "--keyword", "robin", "--keyword", "nest box=0.25")
    assert keywords["robin"] == 1.0 and 0.2 < keywords["nest"] < 0.3
    assert {"wrens", "europe"} <= keywords.keys()
    assert any("no example page" in line for line in warnings)


def test_pages_are_distinguished_each_judged_by_the_others_s1_e7(place: Path) -> None:
    options = [o for n in range(4) for o in ("--positive", f"wren{n}.html", "--negative", f"train{n}.html")]
    done = opilio("topic", "build", "wrens", *options, "--json", cwd=place)
    report = json.loads(done.stdout)["report"]
    assert report == {
        "examples": 4, "counterexamples": 4, "found": 4, "mistaken": 0, "area": 1.0, "warnings": [],
    }  # fmt: skip
    topic = tomllib.loads((place / "topic.toml").read_text())["topic"]
    assert topic["examples"] == [str(place / f"wren{n}.html") for n in range(4)]


def test_one_example_is_not_judged_by_others(place: Path) -> None:
    done = opilio("topic", "build", "--file", "wren0.html", cwd=place)
    assert (done.returncode, "by the words of the others" in done.stdout) == (0, False)


def test_examples_that_are_alike_to_counterexamples_are_warned_of(place: Path) -> None:
    mixed = ("wrens", "--positive", "wren0.html", "--positive", "train1.html", "--negative", "wren1.html")
    _, warnings = built(place, *mixed, "--negative", "train2.html")
    assert any("hardly separates examples from counter-examples" in line for line in warnings)


def test_one_word_and_ambiguous_word_are_warned_of(place: Path) -> None:
    small = WordNetWriter()
    for number in range(3):
        small.add(f"s{number}", "mercury", f"meaning {number}")
    _, warnings = built(place, "mercury", "--wordnet", small.write(place))
    assert any("a topic of one word" in line for line in warnings)
    assert any('"mercury" has 3 senses (meaning 0; meaning 1; meaning 2)' in line for line in warnings)


def test_pages_in_another_language_are_warned_of(place: Path) -> None:
    german = "Der Zaunkönig ist ein kleiner Vogel, der in dichten Hecken und Gebüschen brütet und laut singt."
    (place / "de.html").write_text(f"<html><meta charset=utf-8><body><p>{german}</p></body></html>")
    _, warnings = built(place, "birds of the hedge", "--file", "de.html")
    assert any("example pages in german" in line for line in warnings)


def test_query_log_makes_a_topic_s4_03(place: Path) -> None:
    keywords, _ = built(place, "--query-log", "log.txt")
    assert keywords == {"wren": 1.0}


def test_phrase_is_one_keyword_of_the_topic_file_s4_e1(place: Path) -> None:
    keywords, _ = built(place, "--query-log", "log.txt", "--threshold", "0.5", "--phrase", "wren nest")
    assert keywords == {"wren nest": 1.0, "wren": 1.0, "song": 1.0, "stork": 1.0}
    assert tomllib.loads((place / "topic.toml").read_text())["topic"]["phrases"] == ["wren nest"]


def test_built_topic_is_crawled_fetched_pages_and_all(place: Path) -> None:
    web = {"http://a.example/": page(f"{BIRDS} {WRENS[0]}", ["/1"]), "http://a.example/1": page(WRENS[1])}
    with served(SmallWeb(web)) as server:
        keywords, _ = built(place, "--url", "http://a.example/", "--proxy", server.proxy)
        assert "wren" in keywords or "wrens" in keywords
        done = opilio(
            "crawl", "--config", "topic.toml", "--seed", "http://a.example/", "--into", "c", "--proxy", server.proxy,
            "--workers", "0", "--quiet", "--json", cwd=place,
        )  # fmt: skip
    assert json.loads(done.stdout)["relevant"] == 2


def test_pages_for_the_table_are_crawled_within_the_host_s0_13_s0_e11(place: Path) -> None:
    """Sixty pages of an encyclopaedia give a table of 300 words; words of single pages stay out when asked."""

    def entry(number: int) -> str:
        return (
            " ".join(f"term{spell(number + step)}" for step in range(12)) + f" {BIRDS}" + 5 * f" single{spell(number)}"
        )

    def spell(number: int) -> str:
        return "".join("abcdefghij"[int(digit)] for digit in f"{number:03}")

    web = {
        f"http://a.example/{n}": page(entry(5 * n), [f"/{2 * n + 1}", f"/{2 * n + 2}", "http://b.example/"])
        for n in range(70)
    }
    web["http://b.example/"] = page(TRAINS)
    with served(SmallWeb(web)) as server:
        more = settings_for(server, [])
        quick = {name: more[name] for name in ("fetch", "politeness")}
        texts = asyncio.run(crawl_example_texts(["http://a.example/0"], 60, quick))
        done = opilio("topic", "build", "--crawl", "http://b.example/", "--proxy", server.proxy, cwd=place)
    assert "1 page fetched of 60" in done.stderr
    assert len(texts) == 60
    assert all(BIRDS in text for text in texts)  # without the page of the other host
    topic = make_topic("terms", {}, positive=texts)
    common, every = (build_table_from_pages(topic, 300, None, least)[0].weights for least in (2, 1))
    assert len(every) == 300
    assert {word.startswith("single") for word in common} == {False}
    assert any(word.startswith("single") for word in every)


def test_every_version_of_the_table_is_shown_with_what_it_added(place: Path) -> None:
    web = {f"http://a.example/{n}": page(f"{text} {text}", [f"/{n + 1}"]) for n, text in enumerate(WRENS)}
    with served(SmallWeb(web)) as server:
        expansion = {"kind": "periodic", "period": 1, "added": 1}
        crawl(place / "c", settings_for(server, ["http://a.example/0"], expansion=expansion))
    shown = json.loads(opilio("topic", "show", place / "c", "--history", "--json").stdout)
    assert [version["version"] for version in shown["history"]] == list(range(shown["version"] + 1))
    assert shown["version"] >= 3 and shown["history"][-1]["keywords"] == shown["keywords"]
    assert [len(v["added"]) for v in shown["history"][1:]] == [1] * shown["version"]
    assert len(events(place / "c", "TopicChanged")) == shown["version"]
    text = opilio("topic", "show", place / "c", "--history").stdout
    assert "version   1  " in text and "; new: " in text


def test_dynamic_table_follows_a_log_that_grows_while_crawling_s4_05_s4_26(place: Path) -> None:
    log = place / "log.txt"
    log.write_text("wren\n" * 4)

    def grown_page() -> Any:
        log.write_text("wren\n" * 4 + "locomotive freight\n" * 8)
        return page(WRENS[0], ["/1", "/2"])

    web: dict[str, Any] = {"http://a.example/0": grown_page}
    web |= {f"http://a.example/{n}": page(WRENS[n]) for n in (1, 2)}
    with served(SmallWeb(web)) as server:
        more = {"strategy": "s4-dynamic", "expansion": {"log": str(log), "interval": 1}}
        crawl(place / "c", settings_for(server, ["http://a.example/0"], **more))
    words = [
        [k["word"] for k in v["keywords"]]
        for v in json.loads(opilio("topic", "show", place / "c", "--history", "--json").stdout)["history"]
    ]
    assert words[0] == ["wrens"] and set(words[1]) == {"freight", "locomotive", "wrens"}


def test_suggestions_join_only_when_accepted_s2_f3(place: Path) -> None:
    small = WordNetWriter()
    small.add("wren", "wren jenny_wren", "a small bird", ("@", "bird"))
    small.add("bird", "bird", "an animal with feathers", ("~", "wren"))
    folder = small.write(place)
    built(place, "--keyword", "wren")
    before = (place / "topic.toml").read_text()
    done = opilio("topic", "suggest", "topic.toml", "--wordnet", folder, cwd=place)
    assert "jenny wren" in done.stdout and "broader of wren" in done.stdout
    assert (place / "topic.toml").read_text() == before
    opilio("topic", "suggest", "topic.toml", "--wordnet", folder, "--accept", "jenny wren", cwd=place)
    assert tomllib.loads((place / "topic.toml").read_text())["topic"]["keywords"] == {"wren": 1.0, "jenny wren": 0.5}
    refused = opilio("topic", "suggest", "topic.toml", "--wordnet", folder, "--accept", "train", cwd=place)
    assert refused.returncode == 2 and "was not suggested" in one_line(refused)


def test_example_whose_name_no_topic_file_can_hold_is_refused(place: Path) -> None:
    (place / "caf\udce9.html").write_text("wrens")
    done = opilio("topic", "build", "wrens", "--positive", "caf\udce9.html", "--out", "t.toml", cwd=place)
    assert (done.returncode, "its name is not UTF-8 text" in one_line(done)) == (2, True), done
    assert not (place / "t.toml").exists()


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('keywords = {wren = "x"}', "t.toml: topic.keywords[...]: expected number, got string"),
        ("keywords = 5", 't.toml: topic.keywords: expected table | list such as ["one", "two"], got whole number'),
        ('language = "de"', "topic.language = 'de': WordNet has English words only"),
    ],
)
def test_topic_file_that_can_not_be_expanded_is_reported_in_one_line(place: Path, text: str, result: str) -> None:
    (place / "t.toml").write_text(f'[topic]\nname = "wrens"\n{text}\n')
    small = WordNetWriter()
    small.add("wren", "wren", "a small bird")
    done = opilio("topic", "suggest", "t.toml", "--wordnet", small.write(place), cwd=place)
    assert (done.returncode, result in one_line(done)) == (2, True), done


BAD = {
    "nothing given": ([], "no topic: give a sentence"),
    "empty topic": ([""], "no topic: give a sentence"),
    "stop words only": (["the of and"], "has no usable words beside stop words"),
    "memory out of range": (["--query-log", "log.txt", "--memory", "0.7"], "at most 0.5, not 0.7"),
    "weight that is none": (["--keyword", "wren=much"], "the weight must be a number"),
    "weight below zero": (["--keyword", "wren=-1"], "must be above 0"),
    "keyword without a word": (["wrens", "--keyword", ""], "--keyword '': the word is missing"),
    "weight without a word": (["wrens", "--keyword", " =0.5"], "--keyword ' =0.5': the word is missing"),
    "log that is not there": (["--query-log", "none.txt"], "none.txt: can't be read"),
    "log in another encoding": (["--query-log", "latin.txt"], "is not UTF-8 text (byte 3); save it as UTF-8"),
    "page that is not there": (["--file", "none.html"], "none.html': can't be read"),
    "crawl from no URL": (["wrens", "--crawl", "a.example"], "--crawl 'a.example': not a valid http(s) URL"),
    "file that is there": (["wrens", "--out", "log.txt"], "already exists"),
    "language that is none": (
        ["wrens", "--language", "germna"],
        "--language = 'germna': unknown language (did you mean 'german'?)",
    ),
    "wordnet that is not there": (["wrens", "--wordnet", "nowhere"], "does not contain index.noun"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(place: Path, case: str) -> None:
    (place / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    arguments, result = BAD[case]
    done = opilio("topic", "build", *arguments, cwd=place)
    assert done.returncode == 2 and result in one_line(done)
    assert not (place / "topic.toml").exists()


@pytest.mark.parametrize("language", ["de-AT", "Persian", ""])
def test_language_may_be_a_code_a_name_or_left_open(place: Path, language: str) -> None:
    assert opilio("topic", "build", "wrens", "--language", language, cwd=place).returncode == 0


CRAWLS = {
    "query log in another encoding": (["--strategy", "s4-dynamic", "--set", "expansion.log=latin.txt"], "not UTF-8"),
    "memory out of range": (["--strategy", "s4-dynamic", "--set", "expansion.memory=0.9"], "at most 0.5, not 0.9"),
    "genre file with duplicates": (["--set", "topic.genre_file=twice.toml"], '"press" more than once'),
    "genre twice": (["--set", "topic.genre_file=double.toml"], "each genre may occur only once"),
    "unknown genre": (["--set", 'topic.genres=["poems"]'], 'genre "poems" is unknown'),
    "contexts without words": (["--set", "senses.kind=contexts"], "needs topic.contexts"),
    "unknown language": (["--set", "topic.language=klingon"], "topic.language = 'klingon': unknown language"),
    "unknown normaliser": (["--set", "topic.normaliser=stems"], "topic.normaliser"),
}


@pytest.mark.parametrize("case", CRAWLS)
def test_topic_settings_are_refused_before_a_folder_is_made(place: Path, case: str) -> None:
    (place / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    (place / "twice.toml").write_text('[news]\nenglish = ["press", "Press"]\n')
    (place / "double.toml").write_text('[news]\nenglish = ["press"]\n[news]\nenglish = ["report"]\n')
    arguments, result = CRAWLS[case]
    done = opilio("crawl", "wrens", "--seed", "http://a.example/", "--into", "c", *arguments, cwd=place)
    assert done.returncode == 2 and result in one_line(done)
    assert not (place / "c").exists()


@pytest.mark.parametrize(
    ("keywords", "first"),
    [
        ("keywords = {wren = 2.0} # two", {"wren": 2.0}),
        ("[topic.keywords] # two\n# small ones\nwren = 2.0 # brown", {"wren": 2.0}),
        ('keywords = ["wren"] # two', {"wren": 1.0}),
        ("# two", {}),
    ],
)
def test_comments_of_topic_file_stay_when_word_is_accepted(place: Path, keywords: str, first: dict[str, float]) -> None:
    text = f'# my topic\n[topic] # one\nname = "wren" # birds\n{keywords}\n\n[stop] # five\npages = 7\n'
    (place / "t.toml").write_text(f"\ufeff{text}", encoding="utf-8")
    small = WordNetWriter()
    small.add("wren", "wren jenny_wren", "a small bird")
    done = opilio("topic", "suggest", "t.toml", "--wordnet", small.write(place), "--accept", "jenny wren", cwd=place)
    assert done.returncode == 0, done
    written = (place / "t.toml").read_text(encoding="utf-8")
    assert re.findall("#.*", written) == re.findall("#.*", text)
    weight = 0.5 * max(first.values(), default=1.0)
    assert tomllib.loads(written) == {
        "topic": {"name": "wren", "keywords": {**first, "jenny wren": weight}},
        "stop": {"pages": 7},
    }


@pytest.mark.parametrize(
    ("topic", "language"),
    [
        ({"name": "Anbau und Sorten von Tee"}, "german"),
        ({"name": "Anbau und Sorten von Tee", "language": "english"}, "english"),
        ({"name": "tea", "keywords": ["Anbau und Sorten von Tee"]}, "english"),
        ({"keywords": ["Anbau", "und", "Sorten", "von", "Tee"]}, "german"),
    ],
)
def test_topic_is_read_in_its_own_language_unless_one_is_given(topic: dict[str, Any], language: str) -> None:
    assert resolve_settings({"topic": topic}).topic.language == language


def test_topic_built_from_a_german_log_is_german(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("wie wird der Tee angebaut\nTee und seine Sorten\n", encoding="utf-8")
    assert opilio("topic", "build", "--query-log", "log", "--out", "t.toml", cwd=tmp_path).returncode == 0
    assert 'language = "german"' in (tmp_path / "t.toml").read_text(encoding="utf-8")


def test_japanese_pages_make_a_japanese_topic(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.html").write_text(
            f"<p>緑茶は日本のお茶です。抹茶と緑茶の歴史 {name}</p>", encoding="utf-8"
        )
    done = opilio("topic", "build", "--file", "a.html", "--file", "b.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = tomllib.loads((tmp_path / "topic.toml").read_text(encoding="utf-8"))["topic"]
    assert made["language"] == "japanese"
    assert {"緑茶", "抹茶", "歴史"} <= set(made["keywords"])
    assert not {"茶の", "です"} & set(made["keywords"])


ABOUT_WRENS = [
    "Der Zaunkönig ist ein kleiner Vogel und baut sein Nest in der Hecke. Das Männchen singt laut.",
    "Im Nest der Vögel liegen die Eier, und der Zaunkönig brütet sie aus. Er singt und frisst Spinnen.",
    "Ein Vogel wie der Zaunkönig baut mehrere Nester, von denen das Weibchen eines für die Eier wählt.",
]
ABOUT_TRAINS = "Der Zug ist auf der Strecke, und die Lokomotive zieht die Wagen von dem Bahnhof in die Stadt."


def test_crawl_of_german_examples_is_german_and_goes_by_what_they_tell(tmp_path: Path) -> None:
    """Read as English, `der` and `und` would be rare words, and every German page relevant."""
    for number, text in enumerate(ABOUT_WRENS):
        (tmp_path / f"{number}.html").write_text(f"<meta charset=utf-8><p>{text}</p>", encoding="utf-8")
    site = "http://h.example/"
    web = {
        site: page(ABOUT_TRAINS, ["/wren", "/train"]),
        f"{site}wren": page(f"{ABOUT_WRENS[1]} Das Nest ist rund."),
        f"{site}train": page(f"{ABOUT_TRAINS} Die Weiche ist alt, und sie knarrt."),
    }
    examples = [str(tmp_path / f"{number}.html") for number in range(3)]
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [site], topic={"name": "", "examples": examples}, strategy="opilio")
        (tmp_path / "c.toml").write_text(tomli_w.dumps(tree))
        done = opilio("crawl", "--config", tmp_path / "c.toml", "--into", tmp_path / "c")
    assert (done.returncode, "topic language: german" in done.stderr) == (0, True), done
    judged = dict(rows(tmp_path / "c", "SELECT url, relevant FROM page"))
    assert judged == {site: 0, f"{site}wren": 1, f"{site}train": 0}
