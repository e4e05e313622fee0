"""How well search answers questions with a known answer, over every page of an offline web.

    python benchmarks/search/questions.py run --web WEB --into FOLDER --out NAME.json
    python benchmarks/search/questions.py report NAME.json ...

`run` crawls and indexes the whole web into FOLDER (WEB may be a collection, too), asks all questions and writes the
keys found; it uses only the API of `Searcher`, so that it also runs with an earlier version. `report` compares such
files, the first of which is the baseline of the tests; plain BM25 comes from the first file. Questions are made from
titles, first sentences and headings; those written by hand (hand_questions.toml) are reported apart: choose no weight
by them.
"""

import argparse
import random
import re
import sqlite3
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import log2
from pathlib import Path

import msgspec
import numpy as np
from collected import collect_web
from quality import plain_bm25, slip

from opilio.core.records import url_key
from opilio.lab.evaluation.statistics import bootstrap_mean, paired_test
from opilio.lab.webs.web import WarcWeb
from opilio.parse.html import HtmlParser
from opilio.search.documents import DocumentReader, complete_document
from opilio.search.indexer import update_index
from opilio.search.results import IndexDocument
from opilio.search.searcher import Searcher
from opilio.store.collection import collection_exists, open_readonly
from opilio.text.languages import stop_words

PAGES = 100  # pages asked for, per kind of question
MIN_WORDS = 60  # of a page that is asked for
DEPTH = 10
OPENINGS = ("what is {}", "tell me about {}", "where can i find information about {}", "who or what was {}")
ASIDES = ("eat", "cost", "invented", "famous", "dangerous", "biggest", "happened", "lived", "taught", "explained")
LOOSE = ("what did {} {}", "how was {} {}", "why {} {}", "when {} {}")
ABOUT_PART = ("what about the {1} of {0}", "{0} and its {1}", "explain {1} in {0}")
_DEFINITION = re.compile(r"\b(?:is|was|are|were) (?:an?|the|one of the) ([^.;:()]{20,160})")
_PART = re.compile(r"[A-Za-z][A-Za-z ]{3,40}")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    kind: str
    query: str
    wanted: list[int]  # keys of correct pages


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What one version found: for each question the keys of the first pages."""

    web: str
    questions: list[Question]
    found: list[list[int]]
    plain: list[list[int]]


def made_questions(folder: Path) -> Iterator[Question]:
    """Questions about pages with a title that no other page has."""
    rng = random.Random("questions 1")
    pages = list(_pages(folder))
    titles = Counter(page.title.lower() for page in pages)
    known = [p for p in pages if titles[p.title.lower()] == 1 and len(p.body.split()) >= MIN_WORDS and _plain(p.title)]
    makers = {"about": _about, "loose": _loose, "first": _first, "part": _part, "slip": _slip, "joined": _joined}
    for kind, make in makers.items():
        made = 0
        for page in rng.sample(known, len(known)):
            query = make(page, rng)
            if query:
                made += 1
                yield Question(kind=kind, query=query.lower(), wanted=[page.key])
            if made == PAGES:
                break


def _pages(folder: Path) -> Iterator[IndexDocument]:
    with open_readonly(folder) as collection:
        reader, parser = DocumentReader(collection), HtmlParser(paths=False)
        rows = collection.connection.execute(
            "SELECT key FROM page WHERE duplicate_of = 0 AND noindex = 0 ORDER BY url"
        ).fetchall()
        for (key,) in rows:
            for stored in reader.pages([key]):
                yield complete_document(folder, stored, parser)


def _plain(title: str) -> str:
    return " ".join(re.findall(r"[^\W_]+", title.split("(", maxsplit=1)[0]))


def _other_number(page: IndexDocument) -> str:
    """The title, with its last word in the plural or singular if the page contains that form."""
    title = _plain(page.title)
    *others, last = title.split()
    form = last[:-1] if last.endswith("s") else f"{last}s"
    return " ".join([*others, form]) if form.lower() in re.findall(r"\w+", page.body.lower()) else title


def _about(page: IndexDocument, rng: random.Random) -> str:
    return rng.choice(OPENINGS).format(_other_number(page))


def _loose(page: IndexDocument, rng: random.Random) -> str:
    """The title with a word that the page does not contain."""
    there = set(re.findall(r"\w+", page.body.lower()))
    missing = [word for word in ASIDES if word not in there]
    return rng.choice(LOOSE).format(_other_number(page), rng.choice(missing)) if missing else ""


def _first(page: IndexDocument, _: random.Random) -> str:
    """What the first sentences call the page, without the words of its title."""
    found = _DEFINITION.search(" ".join(page.body[:3_000].split()))
    if found is None:
        return ""
    title, stop = set(_plain(page.title).lower().split()), stop_words("en")
    words = [w for w in re.findall(r"[^\W_]+", found[1])[:12] if w.lower() not in title]
    return f"which {' '.join(words)}" if sum(w.lower() not in stop for w in words) >= 3 else ""


def _part(page: IndexDocument, rng: random.Random) -> str:
    """A heading of the page and its title."""
    headings = [h for h in page.headings.split("\n") if _PART.fullmatch(h) and h.lower() not in page.title.lower()]
    return rng.choice(ABOUT_PART).format(_plain(page.title), rng.choice(headings)) if headings else ""


def _slip(page: IndexDocument, rng: random.Random) -> str:
    """A question for the title with two letters swapped."""
    slipped = slip(_plain(page.title), rng)
    return rng.choice(OPENINGS).format(slipped) if slipped else ""


def _joined(page: IndexDocument, rng: random.Random) -> str:
    """A title of two words, written as one."""
    words = _plain(page.title).split()
    return rng.choice(OPENINGS).format("".join(words)) if len(words) == 2 and min(map(len, words)) > 2 else ""


def hand_questions(folder: Path, web: str) -> Iterator[Question]:
    path = Path(__file__).with_name("hand_questions.toml")
    known = tomllib.loads(path.read_text(encoding="utf-8")).get(web, {})
    with sqlite3.connect(folder / "crawl.db") as db:
        urls = db.execute("SELECT url, title FROM page WHERE duplicate_of = 0").fetchall()
    for kind, rows in known.items():
        for query, *names in rows:
            wanted = [
                url_key(url) for url, title in urls if title in names or url in names or url.endswith(tuple(names))
            ]
            if not wanted:
                raise SystemExit(f"{web}: no page for the question {query!r}")
            yield Question(kind=f"by hand, {kind}", query=query, wanted=wanted)


def run(web: Path, into: Path, out: Path) -> None:
    folder = web if collection_exists(web) else collect_web(into / web.name, WarcWeb.open(web))
    update_index(folder)
    searcher = Searcher([folder])
    questions = [*made_questions(folder), *hand_questions(folder, web.name)]
    found = [[hit.key for hit in searcher.search(q.query, size=DEPTH)] for q in questions]
    plain = [plain_bm25(searcher, q)[:DEPTH] for q in questions]  # type: ignore[arg-type]
    out.write_bytes(msgspec.json.encode(Answers(web=web.name, questions=questions, found=found, plain=plain)))


def scores(question: Question, found: Sequence[int]) -> dict[str, float]:
    """One correct page is enough: nDCG is that of the first one."""
    rank = next((place for place, key in enumerate(found, start=1) if key in question.wanted), 0)
    return {"first": float(rank == 1), "recall@10": float(rank > 0), "nDCG@10": 1 / log2(rank + 1) if rank else 0.0}


def report(files: Sequence[Path]) -> None:
    answers = {file.stem: msgspec.json.decode(file.read_bytes(), type=Answers) for file in files}
    first = next(iter(answers.values()))
    systems = {"plain BM25": first.plain, **{name: one.found for name, one in answers.items()}}
    by_kind: dict[str, list[int]] = defaultdict(list)
    for place, question in enumerate(first.questions):
        by_kind[question.kind].append(place)
        by_kind["all made" if not question.kind.startswith("by hand") else "all by hand"].append(place)
    print(f"| {first.web} | measure | n | " + " | ".join(systems) + " | p, last and second |")
    print("|---" * (len(systems) + 4) + "|")
    for kind, places in sorted(by_kind.items()):
        for measure in ("first", "recall@10", "nDCG@10"):
            columns = [[scores(first.questions[p], found[p])[measure] for p in places] for found in systems.values()]
            cells = []
            for column in columns:
                i = bootstrap_mean(column, np.random.default_rng(1))
                cells.append(f"{i.mean:.3f} [{i.low:.3f}, {i.high:.3f}]")
            p = paired_test(columns[-1], columns[1]).p_value
            print(f"| {kind} | {measure} | {len(places)} | {' | '.join(cells)} | {p:.4f} |")


def main() -> None:
    parser = argparse.ArgumentParser()
    actions = parser.add_subparsers(dest="action", required=True)
    asked = actions.add_parser("run")
    asked.add_argument("--web", type=Path, required=True)
    asked.add_argument("--into", type=Path, required=True)
    asked.add_argument("--out", type=Path, required=True)
    compared = actions.add_parser("report")
    compared.add_argument("files", type=Path, nargs="+")
    args = parser.parse_args()
    if args.action == "run":
        run(args.web, args.into, args.out)
    else:
        report(args.files)


if __name__ == "__main__":
    main()
