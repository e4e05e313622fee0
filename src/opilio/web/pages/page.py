"""One page: its text, the reasons for its verdict and its rank, where it was found, and its label."""

import re
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np

from opilio.core.errors import CollectionError, ParseError, TopicError, UsageError
from opilio.core.records import Reason, url_key
from opilio.engine.labels import LABEL_REASON
from opilio.manage.label import LABEL_VALUES, LabelRequest, label_pages
from opilio.manage.pages import page_history
from opilio.manage.results import LabelReport
from opilio.manage.topic_editor import current_table
from opilio.manage.why import why
from opilio.parse.html import HtmlParser
from opilio.rank.link_scores import unpack
from opilio.store.collection import Collection
from opilio.store.labels import label_name
from opilio.store.pages import JudgedPage, copies_of, judged_page, page_description, page_details, record_position
from opilio.store.versions import links_of
from opilio.store.warc import RecordPosition, read_record
from opilio.text.vocabulary import Vocabulary, term_id
from opilio.web.collections import UnknownCollectionError
from opilio.web.context import (
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
)
from opilio.web.pages.annotations import page_annotations
from opilio.web.pages.search import similar_pages
from opilio.web.sentences import score_parts, verdict_sentence
from opilio.web.templating import url_with_query

LABELS = {**LABEL_VALUES, "undo": None}
_WORD = re.compile(r"\w[\w'’-]*")


def topic_stems(collection: Collection) -> dict[str, float]:
    """The topic's stems with their current weights."""
    return {word: k.weight for k in reversed(current_table(collection).keywords) for word in k.stem.split()}


def highlight_terms(text: str, stems: dict[str, float]) -> list[dict[str, Any]]:
    """The text in segments; topic words have a `weight` above 0.

    >>> [p["text"] for p in highlight_terms("Two wrens sang", {"wren": 1.0}) if p["weight"]]
    ['wrens']
    """
    if not stems:
        return [{"text": text, "weight": 0.0}] if text else []
    wanted = {term_id(stem): weight for stem, weight in stems.items()}
    vocabulary, known = Vocabulary(), dict[str, float]()
    pieces: list[dict[str, Any]] = []
    start = 0
    for found in _WORD.finditer(text):
        word = found[0]
        weight = known.get(word)
        if weight is None:
            weight = known[word] = max((wanted.get(term, 0.0) for term in vocabulary.terms(word)), default=0.0)
        if weight:
            if found.start() > start:
                pieces.append({"text": text[start : found.start()], "weight": 0.0})
            pieces.append({"text": word, "weight": round(weight, 4)})
            start = found.end()
    if start < len(text):
        pieces.append({"text": text[start:], "weight": 0.0})
    return pieces


MAX_TEXT_CHARS = 20_000  # characters shown
MAX_LINKS = 60
MAX_COPIES = 50


def show_page(context: AppContext, request: PageRequest) -> PageView:
    folder = context.collections.folder(request.name)
    found = why(folder, request.values["url"])
    if not found.found:
        raise UnknownCollectionError(f"{found.url[:300]}: unknown URL: not a seed, and no fetched page links to it")
    with context.open(request.name) as collection:
        key = url_key(found.url)
        data = {
            "why": msgspec.to_builtins(found),
            "label": label_name(collection.connection, key),
            **_stored(collection, key),
        }
        data |= page_annotations(collection, key)
    data["versions"], data["similar"], title = [], [], found.url
    if found.page is not None:
        page = found.page
        data["_sentence"] = verdict_sentence(page.relevant, page.reasons, bool(page.duplicate_of))
        data["_parts"] = score_parts(page.score, page.reasons)
        data["versions"] = msgspec.to_builtins(page_history(folder, found.url).versions)
        data["similar"] = similar_pages(context, request.name, found.url)
        title = found.page.title or found.url
    return PageView(template="page.html", data=data, title=title, table_key="links")


def _stored(collection: Collection, key: int) -> dict[str, Any]:
    db = collection.connection
    details = page_details(db, key)
    if details is None:
        return {"http": {}, "text": [], "cut": False, "links": [], "copies": [], "description": ""}
    text = _text(collection, record_position(db, key))
    return {
        "http": msgspec.structs.asdict(details),
        "description": page_description(db, key),
        "text": highlight_terms(text[:MAX_TEXT_CHARS], topic_stems(collection)),
        "cut": len(text) > MAX_TEXT_CHARS,
        "links": _links(collection, key),
        "copies": [{"url": url, "near": near} for url, near in copies_of(db, key, MAX_COPIES)],
    }


def _text(collection: Collection, position: RecordPosition | None) -> str:
    if position is not None:
        with suppress(ParseError, CollectionError):
            return HtmlParser(paths=False).parse(read_record(collection.folder, *position)).main_text
    return ""


def _links(collection: Collection, key: int) -> list[dict[str, Any]]:
    """Outgoing links, best score first."""
    blob = links_of(collection.connection, key)
    if not blob:
        return []
    columns = unpack(blob)
    scores = np.frombuffer(columns.scores, dtype=np.float32)
    best = np.argsort(-scores, kind="stable")[:MAX_LINKS]
    return [
        {
            "url": columns.urls[at],
            "anchor": columns.anchors[at],
            "score": round(float(scores[at]), 4),
            "not_followed": columns.dropped.get(int(at), ""),
        }
        for at in best
    ]


def label_pages_action(context: AppContext, request: PageRequest) -> ActionResult:
    """Label pages; verdicts, models and queue follow."""
    folder, urls = context.collections.folder(request.name), request.values["url"]
    relevant = LABELS[request.values["is"]]
    if not urls:
        raise UsageError("url: missing (one page or several)")
    given = [LabelRequest(url, relevant, request.name) for url in urls]
    report, problems = label_pages(folder, given, context.clock.now())
    if problems:
        raise TopicError("; ".join(problems))
    data = {"is": request.values["is"], **msgspec.to_builtins(report)}
    data["verdicts"] = _verdicts(context, request)
    return ActionResult(
        message=describe_label_report(report, request.values["is"]),
        redirect_to=request.redirect_target(url_with_query(f"/c/{request.name}/page", url=urls[0])),
        data=data,
    )


def _verdicts(context: AppContext, request: PageRequest) -> list[dict[str, Any]]:
    """The labelled pages with their verdicts. A running crawl applies the label later; it counts at once."""
    label = LABELS[request.values["is"]]
    with context.open(request.name) as collection:
        pages = [judged_page(collection.connection, url_key(url)) for url in request.values["url"]]
    return [_verdict(page, label) for page in pages if page is not None]


def _verdict(page: JudgedPage, label: bool | None) -> dict[str, Any]:
    relevant = page.relevant if label is None else label
    score = round(page.score, 4) if label is None else float(relevant)
    reasons = page.decoded_reasons if label is None else (Reason(LABEL_REASON, float(relevant)),)
    return {"url": page.url, "relevant": relevant, "score": score, "reason": verdict_sentence(relevant, reasons)}


def describe_label_report(report: LabelReport, word: str) -> str:
    """What a label changed, in one sentence."""
    pages = "1 page" if report.labels == 1 else f"{report.labels} pages"
    verdicts = "verdict updated" if report.verdicts_changed == 1 else f"{report.verdicts_changed} verdicts updated"
    done = f"Label removed from {pages}" if word == "undo" else f"Labelled {pages} {word}"
    first = f"{done}; " + (verdicts if report.verdicts_changed else "verdict unchanged")
    if report.running:
        return f"{first}. The running crawl learns from it with its next commit."
    if report.waits_for:
        return f"{first}. 'opilio {report.waits_for}' is writing to the collection; the next crawl learns from it."
    if not report.learns:
        return f"{first}. This strategy does not learn from labels; the queue is unchanged."
    moved = "no queued URL" if not report.moved else f"{report.moved} queued URL{'' if report.moved == 1 else 's'}"
    return f"{first}. Model updated; {moved} rescored."


PAGES = (
    PageRoute(
        path="/c/{name}/page",
        show=show_page,
        about="One page or URL: its text, why it was fetched and judged so, links in and out, versions, copies.",
        params=(Param(name="url", about="The address of the page.", required=True),),
    ),
)
ACTIONS = (
    ActionRoute(
        path="/c/{name}/label",
        run=label_pages_action,
        about="Say whether pages are on the topic; judge and ranker learn it, and the queue is scored again.",
        params=(
            Param(name="url", about="The page, or several.", kind="list", required=True),
            Param(name="is", about="What it is.", kind="choice", choices=tuple(LABELS), required=True),
            Param(name="back", about="The page a browser goes to next."),
        ),
    ),
)
