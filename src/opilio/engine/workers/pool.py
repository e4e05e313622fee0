"""Where analysis happens: in the engine's process, or in worker processes.

The engine does not know which. The engine's side never blocks, so a large page and a large reply cannot wait for each
other. `process` is the other side.
"""

import asyncio
import multiprocessing
import os
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Protocol, cast

from msgspec.structs import replace

from opilio.core.errors import OpilioError
from opilio.core.records import Analysis, Failure, FetchResult, Lead
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.workers.process import (
    LARGE_BLOCK_BYTES,
    REPLY_HEADER,
    AnalysisJob,
    AnalysisLimits,
    AnalysisReply,
    StateUpdate,
    analyze_response,
    decode_reply,
    describe_exit,
    encode_builder,
    encode_message,
    is_timeout,
    return_large_blocks,
    run_worker,
    start_with_signals_blocked,
)

MAX_STARTUP_FAILURES = 4
# Pages that wait for a worker: it has enough to do while the engine commits.
MAX_WAITING_PER_WORKER = 16
MAX_WAITING_BYTES = 8 << 20  # bodies that wait for all workers
# Worker processes that may end while they analyze the same page.
MAX_ATTEMPTS = 2
# The kinds of the failure of a page that is too expensive to analyze, and of one that ends worker processes.
LIMIT_EXCEEDED = "analysis-limit"
CRASHED = "analysis-crash"


class AnalysisError(OpilioError):
    """The analysis of a page failed in a worker process because of a bug."""


class WorkerStartError(OpilioError):
    """Worker processes end as soon as they start, so the crawl cannot continue."""


class PendingJob:
    """A page that waits for its analysis; `attempts` counts the worker processes that ended with it."""

    __slots__ = ("attempts", "future", "job")

    def __init__(self, job: AnalysisJob, future: "asyncio.Future[Analysis]") -> None:
        self.job = job
        self.future = future
        self.attempts = 0


class AnalysisPool(Protocol):
    """Analyzes responses, in this process or in others."""

    async def start(self) -> None: ...

    async def wait_for_room(self) -> None:
        """Return when the bodies that wait for analysis leave room for another one; called before each request."""

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis: ...

    @property
    def is_saturated(self) -> bool:
        """True if the queue is so long that the caller should wait for its own page."""

    def update_state(self, name: str, state: bytes) -> None: ...

    async def close(self) -> None: ...


class InlinePool:
    """Analysis in this process, without limits: for debugging, tests and the lab. Shares the engine's learners."""

    def __init__(self, analyzer: PageAnalyzer) -> None:
        self._analyzer = analyzer

    async def start(self) -> None:
        """Nothing to start."""

    async def wait_for_room(self) -> None:
        """Nothing waits."""

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        return analyze_response(self._analyzer, lead, fetched)

    @property
    def is_saturated(self) -> bool:
        return True

    def update_state(self, name: str, state: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class _WorkerConnection(asyncio.Protocol):
    """The engine's end of one worker: jobs are sent, replies come back in the same order."""

    def __init__(
        self, process: BaseProcess, channel: socket.socket, on_lost: Callable[["_WorkerConnection"], None]
    ) -> None:
        self.process = process
        self.waiting: deque[PendingJob] = deque()
        # The worker has built its analyzer.
        self.ready = False
        # The process has closed its end.
        self.lost = False
        # A second handle on the socket: the transport closes its own before all replies are read.
        self._channel = channel
        self._on_lost = on_lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one without declaring it.
        self._transport = cast(asyncio.Transport, transport)

    def submit(self, pending: PendingJob) -> None:
        self.waiting.append(pending)
        fetched = pending.job.fetched
        job = AnalysisJob(pending.job.lead, replace(fetched, body=b"", packed=b""), fetched.packed != b"")
        self.send(job, fetched.packed or fetched.body)

    def send(self, message: AnalysisJob | StateUpdate, body: bytes = b"") -> None:
        self.write(*encode_message(message, body))

    def write(self, *parts: bytes) -> None:
        # A transport that is closing would raise. Its jobs are submitted again when the loss is reported.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(parts)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= REPLY_HEADER.size:
            (length,) = REPLY_HEADER.unpack_from(self._buffer)
            end = REPLY_HEADER.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[REPLY_HEADER.size : end])
            del self._buffer[:end]
            if frame:
                self._handle_reply(decode_reply(frame))
            else:
                self.ready = True

    def _handle_reply(self, reply: AnalysisReply) -> None:
        future = self.waiting.popleft().future
        # The visit was cancelled.
        if future.done():
            return
        if reply.analysis is not None:
            future.set_result(reply.analysis)
        else:
            future.set_exception(AnalysisError(reply.error))

    def connection_lost(self, _: Exception | None) -> None:
        """Read the last replies, which a failed write leaves unread; otherwise the wrong page would be blamed."""
        with self._channel as channel, suppress(OSError):
            channel.setblocking(False)
            while data := channel.recv(1 << 16):
                self.data_received(data)
        self.lost = True
        self._on_lost(self)

    def kill(self) -> None:
        """End the process immediately."""
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()
        self._channel.close()

    def close(self) -> None:
        """End the process when it has finished its page: the transport itself closes only when its loop runs again."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if self._transport is not None:
            self._transport.close()


class WorkerPool:
    """Analysis in `count` processes, each with an analyzer that `build` (a picklable function) creates in it.

    A worker that dies is replaced and its pages are analyzed by others. The page it was analyzing gets a second
    attempt, unless it exceeded the time limit; after that it fails.
    """

    def __init__(self, build: Callable[[], PageAnalyzer], count: int, limits: AnalysisLimits | None = None) -> None:
        self._builder = encode_builder(build)
        self._count = count
        self._limits = limits or AnalysisLimits()
        self._workers: list[_WorkerConnection] = []
        # Pages without a worker.
        self._backlog: deque[PendingJob] = deque()
        self._waiting_bytes = 0
        self._has_room = asyncio.Event()
        # For replacements.
        self._latest_updates: dict[str, StateUpdate] = {}
        self._replacing: set[asyncio.Task[None]] = set()
        # Workers in a row that died before they were ready.
        self._startup_failures = 0
        self._closing = False

    async def start(self) -> None:
        return_large_blocks()
        for _ in range(self._count):
            self._add_worker(await self._spawn_worker())

    def _add_worker(self, worker: _WorkerConnection) -> None:
        self._workers.append(worker)
        # It ended while it was being connected, when the pool did not know it yet.
        if worker.lost:
            self._on_worker_lost(worker)

    @property
    def processes(self) -> list[BaseProcess]:
        """The worker processes."""
        return [worker.process for worker in self._workers]

    async def _spawn_worker(self) -> _WorkerConnection:
        # Spawned, not forked: the parent has threads (name resolution) and sockets that a child must not share.
        context = multiprocessing.get_context("spawn")
        ours, theirs = socket.socketpair()
        arguments = (theirs, os.getpid(), self._limits)
        process = context.Process(target=run_worker, args=arguments, daemon=True)
        worker = _WorkerConnection(process, ours.dup(), self._on_worker_lost)
        try:
            with theirs:
                start_with_signals_blocked(process)
            await asyncio.get_running_loop().create_connection(partial(_existing_protocol, worker), sock=ours)
            worker.write(self._builder)
        except BaseException:
            # Interrupted: no other part knows this process yet.
            worker.kill()
            ours.close()
            raise
        return worker

    async def wait_for_room(self) -> None:
        while self._waiting_bytes > MAX_WAITING_BYTES:
            self._has_room.clear()
            await self._has_room.wait()

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        future: asyncio.Future[Analysis] = asyncio.get_running_loop().create_future()
        size = len(fetched.packed or fetched.body)
        self._waiting_bytes += size
        try:
            self._submit(PendingJob(AnalysisJob(lead, fetched), future))
            return await future
        finally:
            self._waiting_bytes -= size
            self._has_room.set()

    @property
    def is_saturated(self) -> bool:
        return all(len(worker.waiting) >= MAX_WAITING_PER_WORKER for worker in self._workers)

    def _submit(self, pending: PendingJob) -> None:
        if self._workers:
            # Only one worker analyzes large pages, which take 30 times their size, so that they do not add up.
            fetched = pending.job.fetched
            large = max(len(fetched.body), fetched.size_bytes) > LARGE_BLOCK_BYTES
            workers = self._workers[:1] if large else self._workers
            min(workers, key=lambda worker: len(worker.waiting)).submit(pending)
        elif self._replacing:
            self._backlog.append(pending)
        else:
            pending.future.set_exception(
                WorkerStartError("worker processes end when they start; run with --workers 0 to see the error")
            )

    def update_state(self, name: str, state: bytes) -> None:
        self._latest_updates[name] = StateUpdate(name, state)
        for worker in self._workers:
            worker.send(self._latest_updates[name])

    def _on_worker_lost(self, worker: _WorkerConnection) -> None:
        if self._closing or worker not in self._workers:
            return
        self._workers.remove(worker)
        task = asyncio.get_running_loop().create_task(self._replace(worker))
        self._replacing.add(task)
        task.add_done_callback(self._on_replaced)

    def _on_replaced(self, task: "asyncio.Task[None]") -> None:
        self._replacing.discard(task)
        # A replacement that could not be started (no memory, no descriptors) leaves its pages to the other workers.
        if not task.cancelled() and (task.exception() is not None or not self._workers):
            self._drain_backlog()

    async def _replace(self, lost: _WorkerConnection) -> None:
        # Its socket is closed, so it is dead or about to be; a process that closed it and lives on must not.
        lost.process.join(timeout=1)
        lost.kill()
        if lost.ready and lost.waiting:
            self._blame(lost.waiting[0], lost.process.exitcode)
        self._startup_failures = 0 if lost.ready else self._startup_failures + 1
        self._backlog.extend(lost.waiting)
        lost.waiting.clear()
        if self._startup_failures <= MAX_STARTUP_FAILURES:
            worker = await self._spawn_worker()
            for update in self._latest_updates.values():
                worker.send(update)
            self._add_worker(worker)
        # Without a replacement its pages go to the other workers.
        self._drain_backlog()

    def _blame(self, pending: PendingJob, exit_code: int | None) -> None:
        """Count the death of a worker against the page it was analyzing, and fail the page if that was enough."""
        pending.attempts += 1
        reason = self._limits.exceeded(exit_code)
        final = pending.attempts >= MAX_ATTEMPTS or is_timeout(exit_code)
        if pending.future.done() or not final:
            return
        if reason:
            failure = Failure(LIMIT_EXCEEDED, reason)
        else:
            cause = describe_exit(exit_code)
            failure = Failure(CRASHED, f"{MAX_ATTEMPTS} worker processes ended while they analyzed this page ({cause})")
        pending.future.set_result(Analysis(failure=failure))

    def _drain_backlog(self) -> None:
        waiting, self._backlog = self._backlog, deque()
        for pending in waiting:
            if not pending.future.done():
                self._submit(pending)

    async def close(self) -> None:
        self._closing = True
        replacing = list(self._replacing)
        for task in replacing:
            task.cancel()
        for worker in self._workers:
            worker.close()
            # A worker that is not ready does not read its channel.
            if not worker.ready:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
        self._workers.clear()
        # A replacement that was being started ends its process.
        await asyncio.gather(*replacing, return_exceptions=True)


def _existing_protocol(worker: _WorkerConnection) -> _WorkerConnection:
    return worker


def available_cpus() -> int:
    """The number of processes that this machine can run for us at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
