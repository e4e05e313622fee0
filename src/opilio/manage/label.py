"""`opilio label`: the user's labels of pages, checked, stored, and applied at once.

A stopped collection learns here; a running crawl finds the labels in its next transaction.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from opilio.core.errors import CollectionError, ParseError, UsageError
from opilio.core.files import read_text
from opilio.core.protocols import COVERAGE, Database, Frontier
from opilio.core.records import Reason, url_key
from opilio.core.settings import Settings
from opilio.core.urls import canonicalize_url, host_of
from opilio.engine.labels import LABEL_REASON, LabelInbox, has_pending_label
from opilio.engine.wiring.assembly import AnalysisParts, WriterContext, build_analysis_parts, crawl_assembly
from opilio.engine.wiring.build import build_frontier
from opilio.engine.wiring.settings import collection_settings
from opilio.engine.wiring.start import latest_snapshots, stored_topic
from opilio.frontier.postgres.frontier import open_frontier
from opilio.judge.learned import LabelCalibration
from opilio.manage.results import LabelReport, PriorityChange
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import COMMAND_LOCK_TIMEOUT_S, current_writer, is_crawl_running
from opilio.store.labels import NewLabel, append_labels, current_label, labeled_originals
from opilio.store.pages import judged_page, page_url
from opilio.store.run_tables import append_command
from opilio.store.warc import RecordPosition, read_record
from opilio.store.writer import CollectionWriter, judge_verdict
from opilio.topic.topic import Topic

LABEL_VALUES = {"relevant": True, "irrelevant": False}
MAX_REPORTED_MOVES = 5  # moved links that are reported
MAX_CALIBRATION_LABELS = 500


class LabelRequest(NamedTuple):
    """One label by the user, None to remove the last one; `source` is its origin, for error messages."""

    url: str
    relevant: bool | None
    source: str


class _LabelTarget(NamedTuple):
    key: int
    relevant: bool
    warc_position: RecordPosition
    # The verdict of the judge alone; None: a label replaced it, and the verdict is unknown.
    judge_relevant: bool | None


def read_label_file(path: Path) -> tuple[list[LabelRequest], list[str]]:
    """The labels in a file (url TAB relevant|irrelevant), and what is wrong with its other lines."""
    text = read_text(path, "--file", UsageError)
    given, problems = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        url, tab, word = line.strip().partition("\t")
        if not line.strip() or line.startswith("#"):
            continue
        if not tab or word.strip() not in LABEL_VALUES:
            problems.append(f"{path} line {number}: must be a URL, a tab, and 'relevant' or 'irrelevant'")
        else:
            given.append(LabelRequest(url.strip(), LABEL_VALUES[word.strip()], f"{path} line {number}"))
    return given, problems


def label_pages(
    folder: Path, given: Sequence[LabelRequest], now: float, problems: Sequence[str] = ()
) -> tuple[LabelReport, list[str]]:
    """Store labels and let everything learn from them. With problems, these or new ones, nothing is changed."""
    with open_readonly(folder) as collection:
        pages, more = _find_pages(collection, given)
        if problems or more or not given:
            return LabelReport(), [*problems, *more]
        settings, topic = collection_settings(collection), stored_topic(collection)
        parts = build_analysis_parts(settings, topic, latest_snapshots(collection))
        # The last label of a page counts.
        last = {page.key: (page, one) for page, one in zip(pages, given, strict=True)}
        labeled = [(page, one, _sample(parts, collection, page, one)) for page, one in last.values()]
    notes = Collection.open_for_append(folder)
    try:
        with notes.unit_of_work():
            labels = [NewLabel(page.key, one.relevant, sample) for page, one, sample in labeled]
            append_labels(notes.connection, labels, now)
            append_command(notes.connection, now, "label")
    finally:
        notes.close()
    changed = sum(p.relevant != (p.judge_relevant if g.relevant is None else g.relevant) for p, g in last.values())
    report = LabelReport(labels=len(last), verdicts_changed=changed)
    _apply_labels(folder, settings, topic, now, report)
    return report, []


def _find_pages(collection: Collection, given: Iterable[LabelRequest]) -> tuple[list[_LabelTarget], list[str]]:
    pages, problems = [], []
    for one in given:
        found = _page(collection, one.url)
        if one.relevant is None and not isinstance(found, str):
            found = _check_removable(collection, one.url, found)
        if isinstance(found, str):
            problems.append(f"{one.source}: {found}")
        else:
            pages.append(found)
    return pages, problems


def _check_removable(collection: Collection, url: str, page: _LabelTarget) -> _LabelTarget | str:
    """The page, if it has a label that can be removed; or why not."""
    if current_label(collection.connection, page.key) is None and not has_pending_label(collection, page.key):
        return f"{url}: has no label to remove"
    if page.judge_relevant is None:
        return f"{url}: was labelled before the judge's verdict was kept; label it --relevant or --irrelevant"
    return page


def _page(collection: Collection, given: str) -> _LabelTarget | str:
    """The page of a URL, or why there is none."""
    url = canonicalize_url(given) if "://" in given else None
    if url is None:
        return f"'{given}': not a valid http(s) URL; include the scheme, for example https://example.org/"
    key = url_key(url)
    page = judged_page(collection.connection, key)
    if page is None:
        entry = open_frontier(collection.connection).entry(host_of(url), key)
        known = "is not in the collection" if entry is None else f"was not fetched ({entry.state.value})"
        return f"{url}: {known}; only pages that were fetched can be labelled"
    if page.duplicate_of:
        original = page_url(collection.connection, page.duplicate_of) or "another page"
        return f"{url}: is a copy of {original}; label that one"
    reasons = page.decoded_reasons
    judged = judge_verdict(reasons, LABEL_REASON)
    unlabelled = page.relevant if not reasons or reasons[0].name != LABEL_REASON else None
    return _LabelTarget(key, page.relevant, page.position, judged[0] if judged is not None else unlabelled)


def _sample(parts: AnalysisParts, collection: Collection, page: _LabelTarget, given: LabelRequest) -> bytes:
    """The words the judge knows the page by, read again from its record; none where it no longer reads as a page.

    A word is taken back with the words it was given with: the page may have changed since.
    """
    labeled = current_label(collection.connection, page.key) if given.relevant is None else None
    if labeled is not None:
        return labeled[1]
    if page.warc_position[2]:
        with suppress(ParseError):
            return parts.analyzer.sample(read_record(collection.folder, *page.warc_position))
    return b""


def _apply_labels(folder: Path, settings: Settings, topic: Topic, now: float, report: LabelReport) -> None:
    """Learn here, unless a crawl holds the collection and will learn, or another process blocks it for long."""
    report.running = is_crawl_running(folder)
    if report.running:
        return
    try:
        collection = Collection.open_for_writing(folder, "label", COMMAND_LOCK_TIMEOUT_S)
    except CollectionError:
        report.running, report.waits_for = is_crawl_running(folder), current_writer(folder)
        if report.waits_for:
            return
        raise
    try:
        _learn_labels(collection, settings, topic, now, report)
    finally:
        collection.close()


def _learn_labels(collection: Collection, settings: Settings, topic: Topic, now: float, report: LabelReport) -> None:
    parts = build_analysis_parts(settings, topic, latest_snapshots(collection))
    writer = CollectionWriter(collection, None)
    writer.resume()
    context = WriterContext(settings, collection, writer, build_frontier(settings, collection), now)
    frontier, learning, link_scorer = crawl_assembly(settings).build_writers(context, parts)
    learning.resume()
    labels = LabelInbox(collection, writer, frontier, learning, link_scorer)
    report.learns = learning.learns_from_labels or link_scorer.learns_from_labels
    with collection.unit_of_work():
        # Links from disk are rescored first: that is not an effect of the labels.
        read_back = list(link_scorer.rescored())
        before = {mover.url: mover.before for mover in _priority_changes(frontier, read_back)}
        frontier.rescore(read_back)
        events = labels.apply_new(now)
        moves = list(link_scorer.rescored())
        movers = [
            msgspec.structs.replace(m, before=before.get(m.url, m.before)) for m in _priority_changes(frontier, moves)
        ]
        report.moved = frontier.rescore(moves)
        # With a new estimate for the queue.
        link_scorer.save(now, at_end=True)
        if link_scorer.expected_relevant is not None:
            collection.set_meta(expected_relevant=round(link_scorer.expected_relevant, 2))
        learning.save_changed(now)
        writer.write_events(events)
    report.top_moves = sorted(movers, key=lambda m: -abs(m.after - m.before))[:MAX_REPORTED_MOVES]


def _priority_changes(frontier: Frontier, moves: Iterable[tuple[str, int, float]]) -> Iterator[PriorityChange]:
    for host, key, score in moves:
        entry = frontier.entry(host, key)
        if entry is not None:
            yield PriorityChange(entry.lead.url, entry.lead.score, score)


def has_probability(reasons: Sequence[Reason]) -> bool:
    """Is the score of a verdict with these reasons a probability?"""
    return bool(reasons) and reasons[0].name == COVERAGE


def label_calibration(db: Database) -> LabelCalibration | None:
    """How the labels of a collection correct the scores of its other pages; None with too few labels.

    Judges whose scores are not probabilities have none.
    """
    judged = []
    for key in labeled_originals(db)[-MAX_CALIBRATION_LABELS:]:
        page = judged_page(db, key)
        verdict = None if page is None else judge_verdict(page.decoded_reasons, LABEL_REASON)
        # The label and the judge's verdict come before the judge's reasons.
        if page is not None and verdict is not None and has_probability(page.decoded_reasons[2:]):
            judged.append((verdict[1], page.relevant))
    return LabelCalibration.fit(judged)
