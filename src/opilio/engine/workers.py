"""Where analysis happens: inline, or in worker processes that bytes cross into once.

The engine does not know which. Frames are length-prefixed msgpack over a socket pair, a page's body behind its frame as
it is, so that nobody copies it; the engine's side never blocks, so a large page and a large answer can't wait for each
other.
"""

import asyncio
import gc
import multiprocessing
import os
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Protocol, cast

import msgspec
from msgspec.structs import replace

from opilio.core.errors import OpilioError
from opilio.core.records import Analysis, FetchResult, Lead
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.worker_process import die_with_parent, start_with_signals_blocked

_REPLY_HEADER = struct.Struct("!I")  # of an answer: its length
_MESSAGE_HEADER = struct.Struct("!II")  # of a message: its length, and that of the body behind it
MAX_STARTUP_FAILURES = 4
MAX_WAITING_PER_WORKER = 16  # pages that wait for a worker: it has enough to do while the engine commits


class AnalysisJob(msgspec.Struct, tag=True, array_like=True):
    lead: Lead
    fetched: FetchResult


class StateUpdate(msgspec.Struct, tag=True, array_like=True):
    name: str
    state: bytes


class AnalysisReply(msgspec.Struct, array_like=True):
    """An analysis, or the error that came instead."""

    analysis: Analysis | None = None
    error: str = ""


class AnalysisError(OpilioError):
    """Thinking about a page went wrong in a worker process: a bug of ours, or a page too much for it."""


class WorkerStartError(OpilioError):
    """Worker processes die as soon as they start: the crawl can't go on."""


_encode = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.msgpack.Decoder(AnalysisJob | StateUpdate).decode
_decode_reply = msgspec.msgpack.Decoder(AnalysisReply).decode


class AnalysisPool(Protocol):
    """Takes answers, gives analyses."""

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis: ...

    @property
    def is_saturated(self) -> bool:
        """Does so much wait here that more had better wait elsewhere?"""

    def update_state(self, name: str, state: bytes) -> None: ...

    async def close(self) -> None: ...


class InlinePool:
    """Analysis in this process: for debugging, tests and the lab. It shares the learners, so nothing to refresh."""

    def __init__(self, analyst: PageAnalyzer) -> None:
        self._analyzer = analyst

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        return self._analyzer.analyze(lead, fetched)

    @property
    def is_saturated(self) -> bool:
        return True  # nothing is read while something else is done

    def update_state(self, name: str, state: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class _WorkerConnection(asyncio.Protocol):
    """The engine's end of one worker: jobs go out, answers come back in the same order."""

    def __init__(
        self, process: BaseProcess, channel: socket.socket, lost: Callable[["_WorkerConnection"], None]
    ) -> None:
        self.process = process
        self._channel = channel  # a second handle on the socket, for what is left in it when the transport gives up
        self.waiting: deque[tuple[AnalysisJob, asyncio.Future[Analysis]]] = deque()
        self.answered = 0
        self._on_lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def submit(self, job: AnalysisJob, future: "asyncio.Future[Analysis]") -> None:
        self.waiting.append((job, future))
        self.send(AnalysisJob(job.lead, replace(job.fetched, body=b"")), job.fetched.body)

    def send(self, message: AnalysisJob | StateUpdate, body: bytes = b"") -> None:
        data = _encode(message)
        if self._transport is not None:
            self._transport.writelines((_MESSAGE_HEADER.pack(len(data), len(body)), data, body))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _REPLY_HEADER.size:
            (length,) = _REPLY_HEADER.unpack_from(self._buffer)
            end = _REPLY_HEADER.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[_REPLY_HEADER.size : end])
            del self._buffer[:end]
            self._handle_reply(_decode_reply(frame))

    def _handle_reply(self, answer: AnalysisReply) -> None:
        _, future = self.waiting.popleft()
        self.answered += 1
        if future.done():  # the visit was cut short
            return
        if answer.analysis is not None:
            future.set_result(answer.analysis)
        else:
            future.set_exception(AnalysisError(answer.error))

    def connection_lost(self, _: Exception | None) -> None:
        """A write to a dead worker fails before its last answers are read; they count, or the wrong page is blamed."""
        with self._channel as channel, suppress(OSError):
            channel.setblocking(False)
            while data := channel.recv(1 << 16):
                self.data_received(data)
        self._on_lost(self)

    def kill(self) -> None:
        """End the process at once, in whatever state it is."""
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()
        self._channel.close()

    def close(self) -> None:
        """End the process now: a transport closes only when its loop runs again, and the pool joins before that."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if self._transport is not None:
            self._transport.close()


class WorkerPool:
    """Analysis in `count` processes, each built by `make` (a picklable function) after it has started.

    A worker that dies (out of memory, killed) takes one page with it, the one it was reading. The others it had are
    given to the worker that replaces it.
    """

    def __init__(self, make: Callable[[], PageAnalyzer], count: int) -> None:
        self._build_analyzer = make
        self._count = count
        self._workers: list[_WorkerConnection] = []
        self._latest_updates: dict[str, StateUpdate] = {}  # what a replacement has to be told
        self._replacing: set[asyncio.Task[None]] = set()
        self._startup_failures = 0  # workers in a row that died before their first answer
        self._closing = False

    async def start(self) -> None:
        for _ in range(self._count):
            self._workers.append(await self._spawn_worker())

    @property
    def processes(self) -> list[BaseProcess]:
        """The worker processes."""
        return [worker.process for worker in self._workers]

    async def _spawn_worker(self) -> _WorkerConnection:
        # Spawned, not forked: the parent has threads (name resolution) and sockets that a child must not share.
        context = multiprocessing.get_context("spawn")
        ours, theirs = socket.socketpair()
        arguments = (self._build_analyzer, theirs, os.getpid())
        process = context.Process(target=_run_worker, args=arguments, daemon=True)
        worker = _WorkerConnection(process, ours.dup(), self._on_worker_lost)
        try:
            with theirs:
                start_with_signals_blocked(process)
            await asyncio.get_running_loop().create_connection(partial(_existing_protocol, worker), sock=ours)
        except BaseException:
            # Interrupted: no other part knows this process yet.
            worker.kill()
            ours.close()
            raise
        return worker

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        future: asyncio.Future[Analysis] = asyncio.get_running_loop().create_future()
        self._submit(AnalysisJob(lead, fetched), future)
        return await future

    @property
    def is_saturated(self) -> bool:
        return all(len(worker.waiting) >= MAX_WAITING_PER_WORKER for worker in self._workers)

    def _submit(self, job: AnalysisJob, future: "asyncio.Future[Analysis]") -> None:
        if self._workers:
            min(self._workers, key=lambda w: len(w.waiting)).submit(job, future)
        else:
            future.set_exception(WorkerStartError("worker processes die at their start; --workers 0 may tell why"))

    def update_state(self, name: str, state: bytes) -> None:
        self._latest_updates[name] = StateUpdate(name, state)
        for worker in self._workers:
            worker.send(self._latest_updates[name])

    def _on_worker_lost(self, worker: _WorkerConnection) -> None:
        if self._closing or worker not in self._workers:
            return
        task = asyncio.get_running_loop().create_task(self._replace(worker))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _replace(self, lost: _WorkerConnection) -> None:
        lost.process.join(timeout=1)
        if lost.waiting:
            _, future = lost.waiting.popleft()
            if not future.done():
                code = lost.process.exitcode
                future.set_exception(AnalysisError(f"its worker process ended while it read this page ({code})"))
        self._workers.remove(lost)
        self._startup_failures = 0 if lost.answered else self._startup_failures + 1
        if self._startup_failures <= MAX_STARTUP_FAILURES:
            worker = await self._spawn_worker()
            for news in self._latest_updates.values():
                worker.send(news)
            self._workers.append(worker)
        while lost.waiting:
            job, future = lost.waiting.popleft()
            if not future.done():
                self._submit(job, future)

    async def close(self) -> None:
        self._closing = True
        for task in list(self._replacing):
            task.cancel()
        for worker in self._workers:
            worker.close()
            # A worker that has not answered yet may still be importing: it does not read its channel.
            if not worker.answered:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
        self._workers.clear()


def _existing_protocol(worker: _WorkerConnection) -> _WorkerConnection:
    return worker


def _run_worker(make: Callable[[], PageAnalyzer], channel: socket.socket, parent: int) -> None:
    """Read a message, analyse the page, reply; end when the engine is gone."""
    die_with_parent(parent)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    analyst = make()
    # What an analyst holds stays to the end, and a page makes thousands of objects but hardly a cycle: with Python's
    # own thresholds the collector takes a tenth of the time (measured).
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    stream = channel.makefile("rb", buffering=1 << 20)
    with suppress(ConnectionError):
        while len(heads := stream.read(_MESSAGE_HEADER.size)) == _MESSAGE_HEADER.size:
            sizes = _MESSAGE_HEADER.unpack(heads)
            frame, body = map(stream.read, sizes)
            if (len(frame), len(body)) != sizes:
                return
            message = _decode_message(frame)
            if isinstance(message, StateUpdate):
                analyst.restore(message.name, message.state)
                continue
            data = _encode(_reply_to_job(analyst, message.lead, replace(message.fetched, body=body)))
            channel.sendall(_REPLY_HEADER.pack(len(data)) + data)


def _reply_to_job(analyst: PageAnalyzer, lead: Lead, fetched: FetchResult) -> AnalysisReply:
    try:
        return AnalysisReply(analysis=analyst.analyze(lead, fetched))
    except Exception as error:  # noqa: BLE001 - sent home, where the engine's per-URL guard records it
        return AnalysisReply(error=f"{type(error).__name__}: {error}"[:300])


def available_cpus() -> int:
    """How many processes this machine runs at once for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
