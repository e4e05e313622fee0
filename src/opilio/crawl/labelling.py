"""`opilio label`: what a person says of pages, checked, stored, and taken up at once.

A collection that nobody crawls learns here and now; a running crawl finds the labels in its next unit of work.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from opilio.crawl.beginning import latest_snapshots
from opilio.crawl.build import Mind, complete, frontier_of, make_mind, writers_of
from opilio.crawl.config import Settings, resolve
from opilio.crawl.job import settings_of
from opilio.crawl.labels import BY_HAND, TAKEN_BACK, Labels, is_waiting, last_word
from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.errors import CollectionError, ParseError, UsageError
from opilio.model.protocols import Frontier
from opilio.model.records import Reason, key_of
from opilio.model.urls import canonical, host_of
from opilio.store.collection import Collection, reading
from opilio.store.keeper import Keeper, judged_alone
from opilio.store.locks import SOON_S, being_crawled, writer_of
from opilio.store.warc import read_record
from opilio.topic.topic import Topic

WORDS = {"relevant": True, "irrelevant": False}
TOP = 5  # movers that are told


class Given(NamedTuple):
    """One label as a person gave it, None to take the last one back; `source` says where, for a complaint."""

    url: str
    relevant: bool | None
    source: str


class Mover(msgspec.Struct, frozen=True):
    """A queued URL whose place changed."""

    url: str
    before: float
    after: float


@dataclass(slots=True)
class Report:
    """What labels changed."""

    labels: int = 0
    verdicts_changed: int = 0
    running: bool = False  # a crawl is writing: it takes the labels up itself
    waits_for: str = ""  # another command that writes: the next crawl takes them up
    learns: bool = True  # does anything of this strategy learn from labels?
    moved: int = 0
    movers: list[Mover] = field(default_factory=list)


class _Page(NamedTuple):
    key: int
    relevant: bool
    place: tuple[int, int, int]
    judged: bool | None  # by the judge alone; None: a person's word stands, and what the judge said is not known


def read_labels(path: Path) -> tuple[list[Given], list[str]]:
    """The labels in a file (url TAB relevant|irrelevant), and what is wrong with its other lines."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"--file {path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--file {path}: is not UTF-8 text (byte {error.start}); save it as UTF-8") from error
    given, problems = [], []
    for number, line in enumerate(text.splitlines(), start=1):
        url, tab, word = line.strip().partition("\t")
        if not line.strip() or line.startswith("#"):
            continue
        if not tab or word.strip() not in WORDS:
            problems.append(f"{path} line {number}: must be a URL, a tab, and 'relevant' or 'irrelevant'")
        else:
            given.append(Given(url.strip(), WORDS[word.strip()], f"{path} line {number}"))
    return given, problems


def label(folder: Path, given: Sequence[Given], now: float, problems: Sequence[str] = ()) -> tuple[Report, list[str]]:
    """Store labels and let everything learn from them. With problems, these or new ones, nothing is changed."""
    with reading(folder) as collection:
        pages, more = _looked_up(collection, given)
        if problems or more or not given:
            return Report(), [*problems, *more]
        settings, topic = _stored(collection)
        mind = make_mind(settings, topic, latest_snapshots(collection))
        last = {page.key: (page, one) for page, one in zip(pages, given, strict=True)}  # what is said last counts
        said = [(page, one, _sample(mind, collection, page, one)) for page, one in last.values()]
    notes = Collection.open_for_notes(folder)
    try:
        with notes.unit_of_work():
            notes.connection.executemany(
                "INSERT INTO label (key, relevant, at, sample) VALUES (?, ?, ?, ?)",
                [(page.key, _stored_word(one), now, sample) for page, one, sample in said],
            )
    finally:
        notes.close()
    changed = sum(p.relevant != (p.judged if g.relevant is None else g.relevant) for p, g in last.values())
    report = Report(labels=len(last), verdicts_changed=changed)
    _take_up(folder, settings, topic, now, report)
    return report, []


def _stored_word(given: Given) -> int:
    return TAKEN_BACK if given.relevant is None else int(given.relevant)


def _looked_up(collection: Collection, given: Iterable[Given]) -> tuple[list[_Page], list[str]]:
    pages, problems = [], []
    for one in given:
        found = _page(collection, one.url)
        if one.relevant is None and not isinstance(found, str):
            found = _undoable(collection, one.url, found)
        if isinstance(found, str):
            problems.append(f"{one.source}: {found}")
        else:
            pages.append(found)
    return pages, problems


def _undoable(collection: Collection, url: str, page: _Page) -> _Page | str:
    """The page, where a person's word about it can be taken back; or why not."""
    if last_word(collection, page.key) is None and not is_waiting(collection, page.key):
        return f"{url}: nobody labelled it, so there is nothing to take back"
    if page.judged is None:
        return f"{url}: was labelled before the judge's verdict was kept; label it --relevant or --irrelevant"
    return page


def _page(collection: Collection, given: str) -> _Page | str:
    """The page of a URL, or why there is none."""
    url = canonical(given) if "://" in given else None
    if url is None:
        return f"'{given}': is no http or https URL; write it whole, for example https://example.org/"
    key = key_of(url)
    row = collection.connection.execute(
        "SELECT relevant, duplicate_of, warc, offset, length, reasons FROM page WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        entry = SqliteFrontier(collection.connection).entry(host_of(url), key)
        known = "is not in the collection" if entry is None else f"was not fetched ({entry.state.value})"
        return f"{url}: {known}; only pages that were fetched can be labelled"
    if row[1]:
        same = collection.connection.execute("SELECT url FROM page WHERE key = ?", (row[1],)).fetchone()
        return f"{url}: is a copy of {same[0] if same else 'another page'}; label that one"
    relevant, reasons = bool(row[0]), msgspec.msgpack.decode(row[5], type=list[Reason])
    alone = judged_alone(reasons, BY_HAND)
    unlabelled = relevant if not reasons or reasons[0].name != BY_HAND else None
    return _Page(key, relevant, (row[2], row[3], row[4]), alone[0] if alone is not None else unlabelled)


def _stored(collection: Collection) -> tuple[Settings, Topic]:
    settings = complete(resolve(settings_of(collection), str(collection.folder / "crawl.toml")))
    return settings, msgspec.json.decode(collection.meta("topic"), type=Topic)


def _sample(mind: Mind, collection: Collection, page: _Page, given: Given) -> bytes:
    """The words the judge knows the page by, read again from its record; none where it no longer reads as a page.

    A word is taken back with the words it was given with: the page may have changed since.
    """
    said = last_word(collection, page.key) if given.relevant is None else None
    if said is not None:
        return said[1]
    if page.place[2]:
        with suppress(ParseError):
            return mind.analyst.sample(read_record(collection.folder, *page.place))
    return b""


def _take_up(folder: Path, settings: Settings, topic: Topic, now: float, report: Report) -> None:
    """Learn here, unless a crawl that holds the collection will, or somebody else keeps us from it for long."""
    report.running = being_crawled(folder)
    if report.running:
        return
    try:
        collection = Collection.open_for_writing(folder, "label", SOON_S)
    except CollectionError:
        report.running, report.waits_for = being_crawled(folder), writer_of(folder)
        if report.waits_for:
            return
        raise
    try:
        _learn(collection, settings, topic, now, report)
    finally:
        collection.close()


def _learn(collection: Collection, settings: Settings, topic: Topic, now: float, report: Report) -> None:
    mind = make_mind(settings, topic, latest_snapshots(collection))
    keeper = Keeper(collection, None)
    keeper.resume()
    store = frontier_of(settings, collection)
    frontier, learning, chooser = writers_of(settings, collection, keeper, store, mind, now)
    learning.resume()
    labels = Labels(collection, keeper, frontier, learning, chooser)
    ranks = settings.rank["kind"] == "committee" and settings.rank["learn"]
    report.learns = learning.heeds_labels or ranks
    with collection.unit_of_work():
        read_back = list(chooser.changes())  # links from disk are scored anew: not the labels' doing
        before = {mover.url: mover.before for mover in _movers(frontier, read_back)}
        frontier.rescore(read_back)
        events = labels.take(now)
        moves = list(chooser.changes())
        movers = [msgspec.structs.replace(m, before=before.get(m.url, m.before)) for m in _movers(frontier, moves)]
        report.moved = frontier.rescore(moves)
        chooser.save(now, at_end=True)  # with a new estimate of what the queue holds
        if chooser.expected is not None:
            collection.set_meta(expected_relevant=round(chooser.expected, 2))
        learning.keep(now)
        keeper.keep_events(events)
    report.movers = sorted(movers, key=lambda m: -abs(m.after - m.before))[:TOP]


def _movers(frontier: Frontier, moves: Iterable[tuple[str, int, float]]) -> Iterator[Mover]:
    for host, key, score in moves:
        entry = frontier.entry(host, key)
        if entry is not None:
            yield Mover(entry.lead.url, entry.lead.score, score)


def told(report: Report) -> dict[str, Any]:
    """A report for machines."""
    movers = [msgspec.structs.asdict(mover) for mover in report.movers]
    return {
        "labels": report.labels,
        "verdicts_changed": report.verdicts_changed,
        "running": report.running,
        "waits_for": report.waits_for,
        "learns": report.learns,
        "moved": report.moved,
        "movers": movers,
    }
