"""Writes outcomes into a collection: page rows, answers, links, WARC records, counters. Reads nothing back."""

from collections.abc import Sequence

import msgspec

from opilio.core.events import Event
from opilio.core.protocols import Database
from opilio.core.records import Analysis, Outcome, PageChange, Reason, Seed, Verdict, url_key
from opilio.store.collection import Collection
from opilio.store.connection import upsert_sql
from opilio.store.schema import INSERT_PAGE, decode_reasons, page_values
from opilio.store.versions import ArchivedPage, VersionArchiver
from opilio.store.warc import RecordPosition, RecordWriter

_ANSWER = "INSERT INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_SAVE_LINKS = upsert_sql("links", ("parent", "columns"), ("parent",))
_SAVE_ROBOTS = upsert_sql("robots", ("origin", "expires_at", "rules"), ("origin",))
SYNC_INTERVAL_S = 5.0
ENDING_CHANGES = frozenset({PageChange.GONE, PageChange.MOVED})
_encode = msgspec.msgpack.Encoder().encode
# Stored beside the user's label.
_JUDGE_VERDICTS = {"by the judge: not relevant": False, "by the judge: relevant": True}
_JUDGE_VERDICT_NAMES = list(_JUDGE_VERDICTS)


class CrawlCounts(msgspec.Struct):
    """The counters of a crawl; stored with every commit."""

    fetched: int = 0  # fetch attempts that ended, of any kind
    pages: int = 0  # stored pages
    relevant: int = 0
    duplicates: int = 0
    failed: int = 0
    size_bytes: int = 0


def stored_counts(collection: Collection) -> CrawlCounts:
    """The counters at the last commit."""
    stored = collection.meta("counts")
    return msgspec.json.decode(stored, type=CrawlCounts) if stored else CrawlCounts()


class CollectionWriter:
    """The writing half of a collection. All methods run inside `collection.unit_of_work()`."""

    def __init__(self, collection: Collection, warc: RecordWriter | None) -> None:
        self._collection = collection
        self._warc = warc
        self._synced_at = 0.0
        self.counts = CrawlCounts()

    def resume(self) -> None:
        """Load the counters and the end of the WARC file from the last commit."""
        self.counts = stored_counts(self._collection)
        if self._warc is not None:
            self._warc.resume(
                int(self._collection.meta("warc_number", "1")), int(self._collection.meta("warc_offset", "0"))
            )

    def write_outcomes(self, outcomes: list[Outcome]) -> None:
        """Store a batch of visits."""
        pages: list[tuple[object, ...]] = []
        answers: list[tuple[object, ...]] = []
        links: list[tuple[int, bytes]] = []
        past = VersionArchiver(self._collection.connection, [outcome.lead.key for outcome in outcomes])
        for outcome in outcomes:
            self.counts.fetched += 1
            answers.append(self._answer(outcome))
            key, analysis = outcome.lead.key, outcome.analysis
            if outcome.change in ENDING_CHANGES:
                self._uncount(past.archive(key, outcome.fetched.started_at, self.counts.fetched, outcome.change.value))
            elif outcome.change is PageChange.UNCHANGED:
                past.update_validators(key, outcome.fetched)
            if (
                analysis is None
                or analysis.failure is not None
                or analysis.sitemap_entries
                or outcome.change in ENDING_CHANGES
            ):
                continue
            if analysis.links:
                links.append((key, analysis.links))
            if outcome.change is not PageChange.UNCHANGED:
                self._uncount(
                    past.archive(key, outcome.fetched.started_at, self.counts.fetched, PageChange.CHANGED.value)
                )
                pages.append(self._page(outcome, analysis))
        connection = self._collection.connection
        connection.executemany(_ANSWER, answers)
        connection.executemany(INSERT_PAGE, pages)
        connection.executemany(_SAVE_LINKS, links)
        self._finish_batch()

    def sync(self, now: float, *, at_once: bool = False) -> None:
        """Sync the WARC file every five seconds and store up to where: a power cut loses only the rest.

        Not with every commit: there are up to fifty per second, and each would wait for the disk.
        """
        if self._warc is not None and (at_once or not 0.0 <= now - self._synced_at < SYNC_INTERVAL_S):
            self._synced_at = now
            self._warc.sync()
            self._collection.set_meta(warc_synced=" ".join(map(str, self._warc.synced_position)))

    def _uncount(self, was: ArchivedPage | None) -> None:
        """Subtract a page that is no longer current from the counters."""
        if was is not None:
            self.counts.pages -= 1
            self.counts.relevant -= was.relevant
            self.counts.duplicates -= was.duplicate_of != 0

    def _finish_batch(self) -> None:
        values: dict[str, str | float] = {"counts": msgspec.json.encode(self.counts).decode()}
        if self._warc is not None:
            self._warc.flush()
            values["warc_number"], values["warc_offset"] = self._warc.position
        self._collection.set_meta(**values)

    def _answer(self, outcome: Outcome) -> tuple[object, ...]:
        fetched, analysis = outcome.fetched, outcome.analysis
        failure = fetched.failure or (analysis.failure if analysis else None)
        if failure is not None or not 200 <= fetched.status < 400:
            self.counts.failed += 1
        return (
            self.counts.fetched, outcome.lead.key, fetched.started_at, fetched.status,
            failure.kind if failure else "", failure.detail if failure else "",
            fetched.elapsed_s, fetched.size_bytes, fetched.address, fetched.location,
        )  # fmt: skip

    def _page(self, outcome: Outcome, analysis: Analysis) -> tuple[object, ...]:
        self.counts.pages += 1
        self.counts.size_bytes += outcome.fetched.size_bytes
        self.counts.duplicates += outcome.duplicate_of != 0
        self.counts.relevant += outcome.relevant
        position = RecordPosition()
        if self._warc is not None and analysis.warc_record and not outcome.duplicate_of:
            position = self._warc.append(analysis.warc_record, outcome.fetched.started_at)
        return page_values(outcome, analysis, self.counts.fetched, position)

    def write_seeds(self, seeds: Sequence[Seed]) -> None:
        write_seeds(self._collection.connection, seeds)

    def write_robots(self, read: Sequence[tuple[str, float, bytes]]) -> None:
        """Store robots.txt rules: of each origin when they expire, and the rules."""
        self._collection.connection.executemany(_SAVE_ROBOTS, read)

    def set_label(self, key: int, relevant: bool, reason: Reason) -> None:
        """Replace the verdict by the user's label; the judge's reasons are kept."""
        was, score, reasons = self._verdict(key)
        now = override_verdict(Verdict(score=score, relevant=was, reasons=reasons), relevant, reason)
        self._write_verdict(key, was, (relevant, now.score, now.reasons))

    def remove_label(self, key: int, by_hand: str) -> tuple[float, float] | None:
        """Restore the judge's verdict; returns the score until now and the judge's, or None without a label."""
        was, score, reasons = self._verdict(key)
        judged = judge_verdict(reasons, by_hand)
        if judged is not None:
            self._write_verdict(key, was, (*judged, reasons[2:]))
        return judged and (score, judged[1])

    def _verdict(self, key: int) -> tuple[bool, float, tuple[Reason, ...]]:
        was, score, reasons = self._collection.connection.execute(
            "SELECT relevant, score, reasons FROM page WHERE key = ?", (key,)
        ).fetchone()
        return bool(was), score, decode_reasons(reasons)

    def _write_verdict(self, key: int, was: bool, verdict: tuple[bool, float, tuple[Reason, ...]]) -> None:
        relevant, score, reasons = verdict
        self._collection.connection.execute(
            "UPDATE page SET relevant = ?, score = ?, reasons = ? WHERE key = ?",
            (relevant, score, _encode(reasons), key),
        )
        self.counts.relevant += relevant - was
        self._collection.set_meta(counts=msgspec.json.encode(self.counts).decode())

    def write_events(self, events: list[Event]) -> None:
        write_events(self._collection.connection, events)

    def close(self) -> None:
        if self._warc is not None:
            self._warc.close()


def override_verdict(verdict: Verdict, relevant: bool, reason: Reason) -> Verdict:
    """The verdict with the user's label; the judge's verdict and reasons are kept in it."""
    score, reasons = verdict.score, verdict.reasons
    first = not reasons or reasons[0].name != reason.name
    earlier = (Reason(_JUDGE_VERDICT_NAMES[verdict.relevant], score), *reasons) if first else reasons[1:]
    return Verdict(score=float(relevant), relevant=relevant, reasons=(reason, *earlier))


def judge_verdict(reasons: Sequence[Reason], by_hand: str) -> tuple[bool, float] | None:
    """The judge's verdict before the user's label: relevant, and the score; None without a label."""
    if len(reasons) < 2 or reasons[0].name != by_hand or reasons[1].name not in _JUDGE_VERDICTS:
        return None
    return _JUDGE_VERDICTS[reasons[1].name], reasons[1].value


def write_seeds(connection: Database, seeds: Sequence[Seed]) -> None:
    """Store seeds and their sources; known ones are not changed."""
    connection.executemany(
        "INSERT INTO seed VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
        [(url_key(s.url), s.url, s.priority, ", ".join(s.sources)) for s in seeds],
    )


def write_events(connection: Database, events: Sequence[Event]) -> None:
    """Store events."""
    connection.executemany(
        "INSERT INTO event (at, kind, data) VALUES (?, ?, ?)",
        [(e.at, type(e).__name__, msgspec.json.encode(e)) for e in events],
    )


def save_robots(connection: Database, origin: str, expires_at: float, rules: bytes) -> None:
    """Store the robots.txt rules of an origin."""
    connection.execute(_SAVE_ROBOTS, (origin, expires_at, rules))


def stored_robots(connection: Database, origin: str) -> bytes | None:
    """The stored robots.txt rules of an origin."""
    row = connection.execute("SELECT rules FROM robots WHERE origin = ?", (origin,)).fetchone()
    return bytes(row[0]) if row else None
