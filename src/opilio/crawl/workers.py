"""Where analysis happens: inline, or in worker processes that bytes cross into once.

The engine does not know which. Frames are length-prefixed msgpack over a socket pair; the engine's side never
blocks, so a large page and a large answer can't wait for each other.
"""

import asyncio
import multiprocessing
import os
import signal
import socket
import struct
from collections import deque
from collections.abc import Callable
from functools import partial
from multiprocessing.process import BaseProcess
from typing import Protocol

import msgspec

from opilio.crawl.analyst import Analyst
from opilio.model.errors import OpilioError
from opilio.model.records import Analysis, Fetched, Lead

_HEAD = struct.Struct("!I")


class Job(msgspec.Struct, tag=True, array_like=True):
    lead: Lead
    fetched: Fetched


class Refresh(msgspec.Struct, tag=True, array_like=True):
    name: str
    state: bytes


_encode = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.msgpack.Decoder(Job | Refresh).decode
_decode_analysis = msgspec.msgpack.Decoder(Analysis).decode


class Desk(Protocol):
    """Takes answers, gives analyses."""

    async def analyse(self, lead: Lead, fetched: Fetched) -> Analysis: ...

    def refresh(self, name: str, state: bytes) -> None: ...

    async def close(self) -> None: ...


class InlineDesk:
    """Analysis in this process: for debugging, tests and the lab. It shares the learners, so nothing to refresh."""

    def __init__(self, analyst: Analyst) -> None:
        self._analyst = analyst

    async def analyse(self, lead: Lead, fetched: Fetched) -> Analysis:
        return self._analyst.analyse(lead, fetched)

    def refresh(self, name: str, state: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


class _Worker(asyncio.Protocol):
    """The engine's end of one worker: jobs go out, analyses come back in the same order."""

    def __init__(self, process: BaseProcess, lost: Callable[["_Worker"], None]) -> None:
        self.process = process
        self.waiting: deque[asyncio.Future[Analysis]] = deque()
        self._lost = lost
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def send(self, message: Job | Refresh) -> None:
        data = _encode(message)
        if self._transport is not None:
            self._transport.writelines((_HEAD.pack(len(data)), data))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._buffer)
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            frame = bytes(memoryview(self._buffer)[_HEAD.size : end])
            del self._buffer[:end]
            future = self.waiting.popleft()
            if not future.done():
                future.set_result(_decode_analysis(frame))

    def connection_lost(self, _: Exception | None) -> None:
        self._lost(self)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class WorkerDesk:
    """Analysis in `count` processes, each built by `make` (a picklable function) after it has started."""

    def __init__(self, make: Callable[[], Analyst], count: int) -> None:
        self._make = make
        self._count = count
        self._workers: list[_Worker] = []
        self._closing = False

    async def start(self) -> None:
        # Spawned, not forked: the parent has threads (name resolution) and sockets that a child must not share.
        context = multiprocessing.get_context("spawn")
        loop = asyncio.get_running_loop()
        for _ in range(self._count):
            ours, theirs = socket.socketpair()
            process = context.Process(target=_work, args=(self._make, theirs), daemon=True)
            process.start()
            theirs.close()
            worker = _Worker(process, self._lose)
            await loop.create_connection(partial(_itself, worker), sock=ours)
            self._workers.append(worker)

    async def analyse(self, lead: Lead, fetched: Fetched) -> Analysis:
        if not self._workers:
            raise OpilioError("all worker processes have died; run again with --workers 0 to see why")
        worker = min(self._workers, key=lambda w: len(w.waiting))
        future: asyncio.Future[Analysis] = asyncio.get_running_loop().create_future()
        worker.waiting.append(future)
        worker.send(Job(lead, fetched))
        return await future

    def refresh(self, name: str, state: bytes) -> None:
        for worker in self._workers:
            worker.send(Refresh(name, state))

    def _lose(self, worker: _Worker) -> None:
        """A worker died (out of memory, killed): its pages fail, the others go on."""
        if worker in self._workers:
            self._workers.remove(worker)
        error = OpilioError(f"a worker process ended while it read this page (exit code {worker.process.exitcode})")
        for future in worker.waiting:
            if not future.done() and not self._closing:
                future.set_exception(error)
        worker.waiting.clear()

    async def close(self) -> None:
        self._closing = True
        for worker in list(self._workers):
            worker.close()
        for worker in self._workers:
            worker.process.join(timeout=5)
        self._workers.clear()


def _itself(worker: _Worker) -> _Worker:
    return worker


def _work(make: Callable[[], Analyst], channel: socket.socket) -> None:
    """A worker's whole life: read a frame, think, answer; end when the engine is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the engine decides when to stop
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    analyst = make()
    stream = channel.makefile("rb", buffering=1 << 20)
    while head := stream.read(_HEAD.size):
        message = _decode_message(stream.read(_HEAD.unpack(head)[0]))
        if isinstance(message, Refresh):
            analyst.restore(message.name, message.state)
            continue
        data = _encode(analyst.analyse(message.lead, message.fetched))
        channel.sendall(_HEAD.pack(len(data)) + data)


def cores() -> int:
    """How many processes this machine runs at once for us."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
