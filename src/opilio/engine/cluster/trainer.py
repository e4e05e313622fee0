"""The trainer: one worker at a time turns the results of all workers into pages, links, lessons and a sorted queue.

It takes results in order and applies each in the transaction that removes it, so that none is lost or applied twice
whatever dies. The role is a lease; a worker that takes it over loads everything from the database. New states of models
are published as versions that never change, at most once a second.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from opilio import __version__
from opilio.core.clock import Clock
from opilio.core.events import BatchCommitted, CrawlStopped, ObjectStorageChanged
from opilio.core.protocols import Fetcher, SeedSource
from opilio.core.records import HostLease, UrlResult
from opilio.core.settings import Settings
from opilio.engine.commands import COMMAND_POLL_S
from opilio.engine.loop import StopRules, describe_wait
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.visit import LeaseResult
from opilio.engine.wiring.assembly import build_analysis_parts
from opilio.engine.wiring.build import Environment, WritingParts, build_frontier_policy, build_writing_parts
from opilio.engine.wiring.fetcher import archived_urls, unreadable_extensions
from opilio.engine.wiring.start import latest_snapshots, stored_topic
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.store.collection import stored_stop_settings
from opilio.store.connection import CRAWL_COMMAND
from opilio.store.postgres.chunks import ChunkMover, ChunkWriter, ObjectArchive, storage_address
from opilio.store.postgres.cluster import (
    ROLE_TTL_S,
    TRAINER,
    Role,
    RoleLostError,
    crawl_progress,
    next_outcomes,
    publish_models,
    take_outcomes,
)
from opilio.store.postgres.collection import PostgresCollection
from opilio.store.postgres.connection import ConnectionLostError, PostgresConnection, RetryTransactionError
from opilio.store.writer import CollectionWriter

BATCH = 32
PUBLISH_EVERY_S = 1.0
REVISITS_EVERY_S = 1.0
IDLE_S = 0.02
# How long a stopped crawl waits for results of requests in flight.
DRAIN_S = 15.0
STOPPING = "stopping"
_decode = msgspec.msgpack.Decoder(LeaseResult).decode


class TrainerFrontier(PostgresFrontier):
    """The frontier as the trainer uses it: leases were ended by the workers, and are not the trainer's to recover."""

    def __init__(self, db: PostgresConnection, settings: Settings, collection: PostgresCollection, now: float) -> None:
        year = datetime.fromtimestamp(now, UTC).year
        self.url_filter = build_url_filter(settings, collection, True, year, unreadable_extensions(settings))
        super().__init__(db, build_frontier_policy(settings, collection, self.url_filter))
        self._db = db
        self._next: set[int] = set()
        self._taken: set[int] = set()

    def complete(self, lease: HostLease, results: Sequence[UrlResult], wake_at: float) -> bool:
        """Take a result, whose number stands in the place of the token; False: it was applied already."""
        del results, wake_at
        if lease.token in self._next:
            # All of the batch, in the transaction that applies them.
            self._taken, self._next = take_outcomes(self._db, sorted(self._next)), set()
        return lease.token in self._taken

    def announce(self, numbers: Iterable[int]) -> None:
        """These results are applied next, in one commit."""
        self._next, self._taken = set(numbers), set()

    def recover(self, now: float) -> int:
        """Nothing: leases of workers expire by themselves."""
        del now
        return 0


class Trainer:
    """Takes the role when it is free, and trains until it is lost or the crawl ends."""

    def __init__(
        self, folder: Path, dsn: str, settings: Settings, clock: Clock, fetcher: Fetcher, sources: Sequence[SeedSource]
    ) -> None:
        self.folder = folder
        self._dsn = dsn
        self.settings = settings
        self.clock = clock
        self._fetcher = fetcher
        self._sources = sources
        self.role_ttl_s = min(ROLE_TTL_S, settings.engine.lease_s)
        # Why this process stops; the last worker ends the crawl for this reason.
        self.leaving = ""
        self.last_worker: Callable[[PostgresConnection], bool] = lambda _: True
        self.warn: Callable[[str], None] = lambda _: None

    async def run(self) -> None:
        """Until the crawl has stopped or this process leaves."""
        while True:
            try:
                # Results that a crash of the server brings back are applied again.
                with closing(PostgresConnection(self._dsn, relaxed=True)) as db:
                    if await self._take_part(db):
                        return
            except (ConnectionLostError, RetryTransactionError, RoleLostError):
                # What was not committed has not happened: the next trainer starts from the database.
                await asyncio.sleep(1.0)

    async def _take_part(self, db: PostgresConnection) -> bool:
        """Wait for the role and train; True: there is nothing more to do."""
        role = Role(self._dsn, TRAINER, CRAWL_COMMAND, self.role_ttl_s)
        while not role.acquire(db):
            if self.leaving or crawl_progress(db).state == "stopped":
                return True
            await asyncio.sleep(self.role_ttl_s / 10)
        try:
            if crawl_progress(db).state == "stopped":
                return True
            training = _Training(self, db, role)
            try:
                return await training.run()
            finally:
                training.close()
        finally:
            role.release()

    def archive(
        self, db: PostgresConnection, role: Role, report: Callable[[ObjectStorageChanged], None]
    ) -> ObjectArchive | None:
        """What moves WARC records to object storage, where the collection has one."""
        address = storage_address(db)
        return ObjectArchive(ChunkMover(self._dsn, address, role), self.clock, report) if address else None

    def build(
        self, collection: PostgresCollection, writer: CollectionWriter, publish: Callable[[str, bytes], None]
    ) -> tuple[WritingParts, TrainerFrontier]:
        """Everything that writes, from what is stored."""
        frontier = TrainerFrontier(collection.connection, self.settings, collection, self.clock.now())
        frontier.url_filter.archived = archived_urls(self._fetcher)
        environment = Environment(collection, writer, frontier, self._fetcher, self.clock, frontier.url_filter)
        states = latest_snapshots(collection)
        parts = build_analysis_parts(self.settings, stored_topic(collection), states)
        return build_writing_parts(self.settings, environment, parts, publish, self._sources), frontier


class _Training:
    """One term of a trainer."""

    def __init__(self, trainer: Trainer, db: PostgresConnection, role: Role) -> None:
        self._trainer = trainer
        self._db = db
        self._role = role
        self._clock = trainer.clock
        self._collection = PostgresCollection(trainer.folder, db)
        self._collection.role = role
        self._writer = CollectionWriter(self._collection, ChunkWriter(db, f"Opilio/{__version__}"))
        self._writer.resume()
        self._new_states: dict[str, bytes] = {}
        self._published_at = 0.0
        self._writing, self._frontier = trainer.build(self._collection, self._writer, self._new_states.__setitem__)
        started_at = float(self._collection.meta("started_at", "0")) or self._clock.now()
        self._rules = StopRules(stored_stop_settings(self._collection), started_at)
        self._renew_at = 0.0
        self._revisits_at = 0.0
        self._archive = trainer.archive(db, role, self._report)

    def close(self) -> None:
        if self._archive is not None:
            self._archive.close()

    def _report(self, event: ObjectStorageChanged) -> None:
        """Show it to the user, and write it into the log of the crawl."""
        self._trainer.warn(event.detail)
        with self._collection.unit_of_work():
            self._writer.write_events([event])

    async def run(self) -> bool:
        """Apply results until the crawl stops (True), or this process leaves it to others."""
        while not (reason := await self._stop_reason()):
            self._keep_role()
            self._enqueue_revisits()
            if not self._apply_next():
                self._publish()
                await asyncio.sleep(IDLE_S)
            else:
                await asyncio.sleep(0)
            if self._trainer.leaving and not self._trainer.last_worker(self._db):
                return True
        with self._collection.unit_of_work():
            self._collection.set_meta(state=STOPPING, stop_reason=reason)
        await self._drain()
        if self._archive is not None:
            await self._archive.move_rest(self._db, self._keep_role)
        counts = self._writer.counts
        stopped = CrawlStopped(at=self._clock.now(), reason=reason, pages=counts.pages, relevant=counts.relevant)
        self._writing.committer.finish(stopped)
        return True

    def _keep_role(self) -> None:
        if self._clock.now() >= self._renew_at:
            self._role.renew(self._db)
            self._renew_at = self._clock.now() + self._trainer.role_ttl_s / 3

    def _enqueue_revisits(self) -> None:
        """Queue pages that are due, as many as workers may have in flight."""
        now = self._clock.now()
        if now >= self._revisits_at:
            self._revisits_at = now + REVISITS_EVERY_S
            self._writing.committer.enqueue_revisits(now, self._trainer.settings.engine.connections)

    def _apply_next(self) -> bool:
        """Apply the next results; False where none waits, or the object storage is behind."""
        if self._archive is not None:
            self._archive.poll(self._db)
            if self._archive.full:
                return False
        rows = next_outcomes(self._db, BATCH)
        if not rows:
            return False
        results = []
        for number, data in rows:
            result = _decode(data)
            result.lease = msgspec.structs.replace(result.lease, token=number)
            results.append(result)
        self._frontier.announce(number for number, _ in rows)
        for event in self._writing.committer.commit(results, self._clock.now()):
            if isinstance(event, BatchCommitted):
                self._rules.record_batch(event)
        self._publish()
        return True

    def _publish(self) -> None:
        """Publish models that changed; workers load them between two pages."""
        now = self._clock.now()
        if self._new_states and now - self._published_at >= PUBLISH_EVERY_S:
            with self._collection.unit_of_work():
                publish_models(self._db, self._new_states)
            self._new_states.clear()
            self._published_at = now

    async def _stop_reason(self) -> str:
        """Why the crawl ends now, or nothing."""
        now, commands = self._clock.now(), self._writing.commands
        commands.poll(now)
        idle_s = commands.paused_s(now) + self._clock.suspended_s
        requested = commands.stop_reason or (self._trainer.leaving if self._trainer.last_worker(self._db) else "")
        reason = requested or self._rules.stop_reason(now - idle_s, self._writer.counts)
        return reason or await self._idle_reason(now)

    async def _idle_reason(self, now: float) -> str:
        """Nothing waits and nothing is in flight: find more seeds, or say why there is nothing left."""
        if self._is_busy():
            return ""
        self._revisits_at = 0.0
        self._enqueue_revisits()
        finished = self._writing.committer.stop_reason(now)
        wakes_at = self._writing.committer.next_due_at(now)
        wait_s = 0.0 if wakes_at is None else wakes_at - now
        too_long = wait_s > self._rules.max_wait_s and not self._writing.committer.continuous
        # A worker may have leased the last queued URL, and even returned it, since the first look.
        if (finished or wakes_at is None or too_long) and self._is_busy():
            return ""
        if finished:
            return finished
        if wakes_at is None:
            await self._writing.reseeder.find_more_seeds(now)
            return self._writing.reseeder.stop_reason
        if too_long:
            return describe_wait(wait_s, self._writer.counts)
        await asyncio.sleep(min(COMMAND_POLL_S, max(0.0, wait_s)))
        return ""

    def _is_busy(self) -> bool:
        """Whether results wait or hosts are leased, or nothing may be leased because the crawl is paused."""
        progress = crawl_progress(self._db)
        return bool(progress.backlog or progress.leased or progress.paused)

    async def _drain(self) -> None:
        """Apply what workers still bring; requests in flight are given some time."""
        deadline = self._clock.now() + DRAIN_S
        while self._clock.now() < deadline:
            self._keep_role()
            if self._apply_next():
                continue
            if crawl_progress(self._db).leased <= 0:
                return
            await asyncio.sleep(IDLE_S)
