"""Where analysis happens: inline, or in worker processes that bytes cross into once.

The engine does not know which. Frames are length-prefixed msgpack over a socket pair, a page's body behind its frame as
it is, so that nobody copies it; the engine's side never blocks, so a large page and a large answer can't wait for each
other.
"""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from typing import Protocol, cast

import msgspec
from msgspec.structs import replace

from opilio.crawl.analyst import Analyst
from opilio.model.errors import OpilioError
from opilio.model.records import Analysis, Fetched, Lead

_HEAD = struct.Struct("!I")  # of an answer: its length
_HEADS = struct.Struct("!II")  # of a message: its length, and that of the body behind it
MAX_STILLBORN = 4
PLENTY = 16  # pages that wait for a worker: it has enough to do while the engine commits


class Job(msgspec.Struct, tag=True, array_like=True):
    lead: Lead
    fetched: Fetched


class Refresh(msgspec.Struct, tag=True, array_like=True):
    name: str
    state: bytes


class Answer(msgspec.Struct, array_like=True):
    """An analysis, or the error that came instead."""

    analysis: Analysis | None = None
    error: str = ""


class AnalysisError(OpilioError):
    """Thinking about a page went wrong in a worker process: a bug of ours, or a page too much for it."""


class NoWorkersError(OpilioError):
    """Worker processes die as soon as they start: the crawl can't go on."""


_encode = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.msgpack.Decoder(Job | Refresh).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


class Desk(Protocol):
    """Takes answers, gives analyses."""

    async def analyse(self, lead: Lead, fetched: Fetched) -> Analysis: ...

    @property
    def full(self) -> bool:
        """Does so much wait here that more had better wait elsewhere?"""

    def refresh(self, name: str, state: bytes) -> None: ...

    async def close(self) -> None: ...


class InlineDesk:
    """Analysis in this process: for debugging, tests and the lab. It shares the learners, so nothing to refresh."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst

    async def analyse(self, lead: Lead, fetched: Fetched) -> Analysis:
        return self._analyst.analyse(lead, fetched)

    @property
    def full(self) -> bool:
        return True  # nothing is read while something else is done

    def refresh(self, name: str, state: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class _Worker(asyncio.Protocol):
    """The engine's end of one worker: jobs go out, answers come back in the same order."""

    def __init__(self, process: BaseProcess, channel: socket.socket, lost: Callable[["_Worker"], None]) -> None:
        self.process = process
        self._channel = channel  # a second handle on the socket, for what is left in it when the transport gives up
        self.waiting: deque[tuple[Job, asyncio.Future[Analysis]]] = deque()
        self.answered = 0
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so

    def ask(self, job: Job, future: "asyncio.Future[Analysis]") -> None:
        self.waiting.append((job, future))
        self.send(Job(job.lead, replace(job.fetched, body=b"")), job.fetched.body)

    def send(self, message: Job | Refresh, body: bytes = b"") -> None:
        data = _encode(message)
        if self._transport is not None:
            self._transport.writelines((_HEADS.pack(len(data), len(body)), data, body))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[_HEAD.size : end])
            del self._buffer[:end]
            self._take(_decode_answer(frame))

    def _take(self, answer: Answer) -> None:
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
        self._lost(self)

    def close(self) -> None:
        """Tell the process to end at once: a transport closes only when its loop runs again, and the desk joins now."""
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        if self._transport is not None:
            self._transport.close()


class WorkerDesk:
    """Analysis in `count` processes, each built by `make` (a picklable function) after it has started.

    A worker that dies (out of memory, killed) takes one page with it, the one it was reading. The others it had are
    given to the worker that replaces it.
    """

    def __init__(self, make: Callable[[], Analyst], count: int) -> None:
        self._make = make
        self._count = count
        self._workers: list[_Worker] = []
        self._news: dict[str, Refresh] = {}  # what a replacement has to be told
        self._replacing: set[asyncio.Task[None]] = set()
        self._stillborn = 0  # workers in a row that died before their first answer
        self._closing = False

    async def start(self) -> None:
        for _ in range(self._count):
            self._workers.append(await self._hired())

    async def _hired(self) -> _Worker:
        # Spawned, not forked: the parent has threads (name resolution) and sockets that a child must not share.
        context = multiprocessing.get_context("spawn")
        ours, theirs = socket.socketpair()
        with theirs:
            process = context.Process(target=_work, args=(self._make, theirs), daemon=True)
            _start_sheltered(process)
        worker = _Worker(process, ours.dup(), self._lose)
        await asyncio.get_running_loop().create_connection(partial(_itself, worker), sock=ours)
        return worker

    async def analyse(self, lead: Lead, fetched: Fetched) -> Analysis:
        future: asyncio.Future[Analysis] = asyncio.get_running_loop().create_future()
        self._give(Job(lead, fetched), future)
        return await future

    @property
    def full(self) -> bool:
        return all(len(worker.waiting) >= PLENTY for worker in self._workers)

    def _give(self, job: Job, future: "asyncio.Future[Analysis]") -> None:
        if self._workers:
            min(self._workers, key=lambda w: len(w.waiting)).ask(job, future)
        else:
            future.set_exception(NoWorkersError("worker processes die at their start; --workers 0 may tell why"))

    def refresh(self, name: str, state: bytes) -> None:
        self._news[name] = Refresh(name, state)
        for worker in self._workers:
            worker.send(self._news[name])

    def _lose(self, worker: _Worker) -> None:
        if self._closing or worker not in self._workers:
            return
        task = asyncio.get_running_loop().create_task(self._replace(worker))
        self._replacing.add(task)
        task.add_done_callback(self._replacing.discard)

    async def _replace(self, lost: _Worker) -> None:
        lost.process.join(timeout=1)
        if lost.waiting:
            _, future = lost.waiting.popleft()
            if not future.done():
                code = lost.process.exitcode
                future.set_exception(AnalysisError(f"its worker process ended while it read this page ({code})"))
        self._workers.remove(lost)
        self._stillborn = 0 if lost.answered else self._stillborn + 1
        if self._stillborn <= MAX_STILLBORN:
            worker = await self._hired()
            for news in self._news.values():
                worker.send(news)
            self._workers.append(worker)
        while lost.waiting:
            job, future = lost.waiting.popleft()
            if not future.done():
                self._give(job, future)

    async def close(self) -> None:
        self._closing = True
        for task in list(self._replacing):
            task.cancel()
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.process.join(timeout=5)
            if worker.process.is_alive():
                worker.process.kill()
        self._workers.clear()


def _itself(worker: _Worker) -> _Worker:
    return worker


def _start_sheltered(process: BaseProcess) -> None:
    """Start a process that the signals for the engine do not reach: the engine decides when its workers stop.

    A blocked signal stays blocked in the child, from its first instruction on. The resource tracker has to run before:
    with the first process it starts too, and unblocks both signals when it has.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(make: Callable[[], Analyst], channel: socket.socket) -> None:
    """A worker's whole life: read a frame, think, answer; end when the engine is gone."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    analyst = make()
    # What an analyst holds stays to the end, and a page makes thousands of objects but hardly a cycle: with Python's
    # own thresholds the collector takes a tenth of the time (measured).
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    stream = channel.makefile("rb", buffering=1 << 20)
    with suppress(ConnectionError):
        while len(heads := stream.read(_HEADS.size)) == _HEADS.size:
            sizes = _HEADS.unpack(heads)
            frame, body = map(stream.read, sizes)
            if (len(frame), len(body)) != sizes:
                return
            message = _decode_message(frame)
            if isinstance(message, Refresh):
                analyst.restore(message.name, message.state)
                continue
            data = _encode(_answered(analyst, message.lead, replace(message.fetched, body=body)))
            channel.sendall(_HEAD.pack(len(data)) + data)


def _answered(analyst: Analyst, lead: Lead, fetched: Fetched) -> Answer:
    try:
        return Answer(analysis=analyst.analyse(lead, fetched))
    except Exception as error:  # noqa: BLE001 - sent home, where the engine's per-URL guard records it
        return Answer(error=f"{type(error).__name__}: {error}"[:300])


def cores() -> int:
    """How many processes this machine runs at once for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
