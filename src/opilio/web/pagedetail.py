"""One page: what it says, why it was fetched and judged so, where it was found, and a person's word about it."""

from contextlib import suppress
from typing import Any

import numpy as np

from opilio.crawl.columns import unpack
from opilio.crawl.history import history_of
from opilio.crawl.labelling import WORDS, Given, Report, label, told
from opilio.crawl.labels import last_word
from opilio.crawl.why import why
from opilio.model.errors import CollectionError, ParseError, TopicError, UsageError
from opilio.model.records import key_of
from opilio.parse.html import HtmlParser
from opilio.store.collection import Collection
from opilio.store.warc import read_record
from opilio.web.desk import Action, Asked, Desk, Done, Page
from opilio.web.marking import marked, topic_stems
from opilio.web.params import NOTE, Param
from opilio.web.rendering import with_values
from opilio.web.searchpage import similar_to
from opilio.web.shelf import UnknownCollectionError
from opilio.web.view import View

MOST_TEXT = 20_000  # characters that are shown
MOST_LINKS = 60
_HTTP = ("status", "content_type", "encoding", "language", "words", "depth", "etag", "last_modified", "fetched_at")


def page(desk: Desk, asked: Asked) -> View:
    folder = desk.shelf.folder(asked.name)
    facts = why(folder, asked.values["url"])
    if not facts["found"]:
        raise UnknownCollectionError(
            f"{facts['url'][:300]}: was never seen: no fetched page links to it, and it is no seed"
        )
    with desk.open(asked.name) as collection:
        key = key_of(facts["url"])
        data = {"why": facts, "label": _label(collection, key), **_stored(collection, key)}
    data["versions"] = history_of(folder, facts["url"])["versions"] if "page" in facts else []
    data["similar"] = similar_to(desk, asked.name, facts["url"]) if "page" in facts else []
    title = facts.get("page", {}).get("title") or facts["url"]
    return View(template="page.html", data=data, title=title, rows="links")


def _stored(collection: Collection, key: int) -> dict[str, Any]:
    row = collection.connection.execute(
        f"SELECT {', '.join(_HTTP)}, warc, offset, length, description FROM page WHERE key = ?",
        (key,),
    ).fetchone()
    if row is None:
        return {"http": {}, "text": [], "cut": False, "links": [], "copies": [], "description": ""}
    text = _text(collection, row[len(_HTTP) : len(_HTTP) + 3])
    copies = collection.connection.execute(
        "SELECT url, near_duplicate FROM page WHERE duplicate_of = ? AND duplicate_of <> 0 LIMIT 50", (key,)
    )
    return {
        "http": dict(zip(_HTTP, row, strict=False)),
        "description": row[-1],
        "text": marked(text[:MOST_TEXT], topic_stems(collection)),
        "cut": len(text) > MOST_TEXT,
        "links": _links(collection, key),
        "copies": [{"url": url, "near": bool(near)} for url, near in copies],
    }


def _text(collection: Collection, place: tuple[int, int, int]) -> str:
    if place[2]:
        with suppress(ParseError, CollectionError):
            return HtmlParser(paths=False).parse(read_record(collection.folder, *place)).main_text
    return ""


def _links(collection: Collection, key: int) -> list[dict[str, Any]]:
    """Where it leads, the most promising first."""
    row = collection.connection.execute("SELECT columns FROM links WHERE parent = ?", (key,)).fetchone()
    if row is None:
        return []
    columns = unpack(row[0])
    scores = np.frombuffer(columns.scores, dtype=np.float32)
    best = np.argsort(-scores, kind="stable")[:MOST_LINKS]
    return [
        {
            "url": columns.urls[at],
            "anchor": columns.anchors[at],
            "score": round(float(scores[at]), 4),
            "not_followed": columns.dropped.get(int(at), ""),
        }
        for at in best
    ]


def _label(collection: Collection, key: int) -> str:
    """What a person said of it last."""
    if not collection.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'label'").fetchone():
        return ""
    said = last_word(collection, key)
    return "" if said is None else "relevant" if said[0] else "irrelevant"


def mark(desk: Desk, asked: Asked) -> Done:
    """A person's word about pages; judge, ranker and queue follow."""
    folder, urls = desk.shelf.folder(asked.name), asked.values["url"]
    relevant = {**WORDS, "undo": None}[asked.values["is"]]
    if not urls:
        raise UsageError("url: is missing (the page, or several of them)")
    given = [Given(url, relevant, asked.name) for url in urls]
    report, problems = label(folder, given, desk.clock.now())
    if problems:
        raise TopicError("; ".join(problems))
    data = {"is": asked.values["is"], **told(report)}
    return Done(
        said=said_of(report, asked.values["is"]),
        back=asked.back(with_values(f"/c/{asked.name}/page", url=urls[0])),
        data=data,
    )


def said_of(report: Report, word: str) -> str:
    """What a label changed, in one sentence."""
    pages = "1 page" if report.labels == 1 else f"{report.labels} pages"
    verdicts = "its verdict changed" if report.verdicts_changed == 1 else f"{report.verdicts_changed} verdicts changed"
    done = f"Took back what was said of {pages}" if word == "undo" else f"Marked {pages} {word}"
    first = f"{done}; " + (verdicts if report.verdicts_changed else "the verdict was the same")
    if report.running:
        return f"{first}. The crawl is running and learns from it with its next commit."
    if report.waits_for:
        return f"{first}. 'opilio {report.waits_for}' is writing to the collection: the next crawl learns from it."
    if not report.learns:
        return f"{first}. This strategy does not learn from labels, so the queue stays as it is."
    moved = "no queued URL" if not report.moved else f"{report.moved} queued URL{'' if report.moved == 1 else 's'}"
    movers = "".join(f" · {m.before:.2f} → {m.after:.2f} {m.url}" for m in report.movers[:3])
    return f"{first}. It is learnt; {moved} changed place{movers}"


PAGES = (
    Page(
        path="/c/{name}/page",
        show=page,
        about="One page or URL: its text, why it was fetched and judged so, links in and out, versions, copies.",
        params=(
            Param(name="url", about="The address of the page.", required=True),
            NOTE,
        ),
    ),
)
ACTIONS = (
    Action(
        path="/c/{name}/label",
        act=mark,
        about="Say whether pages are on the topic; judge and ranker learn it, and the queue is scored again.",
        params=(
            Param(name="url", about="The page, or several.", kind="list", required=True),
            Param(name="is", about="What it is.", kind="choice", choices=(*WORDS, "undo"), required=True),
            Param(name="back", about="The page a browser goes to next."),
        ),
    ),
)
