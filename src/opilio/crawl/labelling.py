"""`opilio label`: what a person says of pages, checked, stored, and taken up at once.

A collection that nobody crawls learns here and now; a running crawl finds the labels in its next unit of work.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from opilio.crawl.build import Mind, complete, frontier_of, make_mind, writers_of
from opilio.crawl.config import Settings, resolve
from opilio.crawl.job import latest_snapshots, settings_of
from opilio.crawl.labels import Labels
from opilio.frontier.sqlite import SqliteFrontier
from opilio.model.errors import CollectionError, ParseError, UsageError
from opilio.model.protocols import Frontier
from opilio.model.records import key_of
from opilio.model.urls import canonical, host_of
from opilio.store.collection import Collection, being_written, reading
from opilio.store.keeper import Keeper
from opilio.store.warc import read_record
from opilio.topic.topic import Topic

WORDS = {"relevant": True, "irrelevant": False}
TOP = 5  # movers that are told


class Given(NamedTuple):
    """One label as a person gave it; `source` says where, for a complaint."""

    url: str
    relevant: bool
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
    learns: bool = True  # does anything of this strategy learn from labels?
    moved: int = 0
    movers: list[Mover] = field(default_factory=list)


class _Page(NamedTuple):
    key: int
    relevant: bool
    place: tuple[int, int, int]


def read_labels(path: Path) -> tuple[list[Given], list[str]]:
    """The labels in a file (url TAB relevant|irrelevant), and what is wrong with its other lines."""
    try:
        text = path.read_text(encoding="utf-8")
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
        samples = [_sample(mind, folder, page) for page in pages]
    notes = Collection.open_for_notes(folder)
    try:
        with notes.unit_of_work():
            notes.connection.executemany(
                "INSERT INTO label (key, relevant, at, sample) VALUES (?, ?, ?, ?)",
                [(p.key, g.relevant, now, s) for p, g, s in zip(pages, given, samples, strict=True)],
            )
    finally:
        notes.close()
    last = {page.key: (page, label) for page, label in zip(pages, given, strict=True)}
    changed = sum(page.relevant != label.relevant for page, label in last.values())
    report = Report(labels=len(given), verdicts_changed=changed)
    _take_up(folder, settings, topic, now, report)
    return report, []


def _looked_up(collection: Collection, given: Iterable[Given]) -> tuple[list[_Page], list[str]]:
    pages, problems = [], []
    for one in given:
        found = _page(collection, one.url)
        if isinstance(found, str):
            problems.append(f"{one.source}: {found}")
        else:
            pages.append(found)
    return pages, problems


def _page(collection: Collection, given: str) -> _Page | str:
    """The page of a URL, or why there is none."""
    url = canonical(given) if "://" in given else None
    if url is None:
        return f"'{given}': is no http or https URL; write it whole, for example https://example.org/"
    key = key_of(url)
    row = collection.connection.execute(
        "SELECT relevant, duplicate_of, warc, offset, length FROM page WHERE key = ?", (key,)
    ).fetchone()
    if row is None:
        entry = SqliteFrontier(collection.connection).entry(host_of(url), key)
        known = "is not in the collection" if entry is None else f"was not fetched ({entry.state.value})"
        return f"{url}: {known}; only pages that were fetched can be labelled"
    if row[1]:
        same = collection.connection.execute("SELECT url FROM page WHERE key = ?", (row[1],)).fetchone()
        return f"{url}: is a copy of {same[0] if same else 'another page'}; label that one"
    return _Page(key, bool(row[0]), (row[2], row[3], row[4]))


def _stored(collection: Collection) -> tuple[Settings, Topic]:
    settings = complete(resolve(settings_of(collection), str(collection.folder / "crawl.toml")))
    return settings, msgspec.json.decode(collection.meta("topic"), type=Topic)


def _sample(mind: Mind, folder: Path, page: _Page) -> bytes:
    """The words the judge knows the page by, read again from its record; none where it no longer reads as a page."""
    if page.place[2]:
        with suppress(ParseError):
            return mind.analyst.sample(read_record(folder, *page.place))
    return b""


def _take_up(folder: Path, settings: Settings, topic: Topic, now: float, report: Report) -> None:
    """Learn here, unless a crawl that holds the collection will."""
    report.running = being_written(folder)
    if report.running:
        return
    try:
        collection = Collection.open_for_writing(folder)
    except CollectionError:
        if being_written(folder):  # it was begun this moment
            report.running = True
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
    report.learns = learning.judge is not None or settings.rank["kind"] == "committee"
    with collection.unit_of_work():
        frontier.rescore(chooser.changes())  # links read back from disk are scored anew: not the labels' doing
        events = labels.take(now)
        moves = list(chooser.changes())
        movers = list(_movers(frontier, moves))
        report.moved = frontier.rescore(moves)
        chooser.save(now)
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
        "learns": report.learns,
        "moved": report.moved,
        "movers": movers,
    }
