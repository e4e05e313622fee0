"""Simulated time and simulated worker processes.

`VirtualTimeLoop` is an asyncio event loop that never waits: when nothing is ready, its time jumps to the next timer.
The engine runs on it as on a machine, with the same code, in no time and always in the same order. `SimulatedPool` is
the engine's worker pool with workers that are tasks of the same loop: they start late, answer late and in pieces, and
die by themselves or are killed at any step of the loop, also while they start and while the pool is being closed.
"""

import asyncio
import random
import signal
import struct
from collections import Counter, deque
from collections.abc import Callable
from heapq import heappop
from typing import Any, cast

import msgspec

from opilio.core.records import FetchResult
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.workers.pool import WorkerPool, _WorkerConnection
from opilio.engine.workers.process import REPLY_HEADER, AnalysisJob, AnalysisReply, StateUpdate

_MESSAGE_HEADER = struct.Struct("!II")
_decode = msgspec.msgpack.Decoder(AnalysisJob | StateUpdate).decode
_encode = msgspec.msgpack.Encoder().encode
MAX_ROUNDS = 20_000  # of the loop, between two events of the network
EXIT_CODES = (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGPROF, 70)


class NoEndError(Exception):
    """The crawl waits for nothing, or never ends."""


class VirtualTimeLoop(asyncio.BaseEventLoop):
    """An event loop on virtual time. Everything that runs on it is a sequence of steps: a step is one callback, that is
    the code of one task from one `await` at which it waited to the next. `on_step` is called before every step.
    """

    # Of asyncio's loop: what is to be run now, and a heap of what is to be run later.
    _ready: "deque[asyncio.Handle]"
    _scheduled: list[asyncio.TimerHandle]

    def __init__(self) -> None:
        super().__init__()
        self.elapsed_s = 0.0
        self.rounds = 0
        self.on_step: Callable[[], None] | None = None

    def time(self) -> float:
        return self.elapsed_s

    def _run_once(self) -> None:
        """One round, as asyncio's, except that it moves the time instead of waiting."""
        ready, scheduled = self._ready, self._scheduled
        self.rounds += 1
        if self.rounds > MAX_ROUNDS:
            raise NoEndError(f"nothing was requested or analyzed in {MAX_ROUNDS} rounds of the loop")
        while scheduled and scheduled[0].cancelled():
            heappop(scheduled)
        if not ready:
            if not scheduled:
                raise NoEndError("every task waits for another one")
            self.elapsed_s = max(self.elapsed_s, scheduled[0].when())
        while scheduled and scheduled[0].when() <= self.elapsed_s:
            ready.append(heappop(scheduled))
        for _ in range(len(ready)):
            handle = ready.popleft()
            # A step may cancel those that follow it.
            if self.on_step is not None and not handle.cancelled():
                self.on_step()
            if not handle.cancelled():
                handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are left out when their time comes."""


class LoopClock:
    """See `Clock`: the time of a virtual loop, from a start on."""

    def __init__(self, loop: VirtualTimeLoop, start: float) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> float:
        return self._start + self._loop.elapsed_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))

    @property
    def suspended_s(self) -> float:
        return 0.0


class SimulatedProcess:
    """A worker process: a task that reads messages and replies, until it is killed or dies by itself."""

    def __init__(self, pool: "SimulatedPool") -> None:
        self.pid = pool.next_pid()
        self.exitcode: int | None = None
        self.received: dict[str, bytes] = {}  # states, by name
        self.connection: _WorkerConnection | None = None
        self._pool = pool
        self._inbox: deque[AnalysisJob | StateUpdate] = deque()
        self._arrived = asyncio.Event()
        self._unread = b""  # sent by the process, but not yet read by the engine
        self._task = asyncio.get_running_loop().create_task(self._run())

    def deliver(self, parts: list[bytes]) -> None:
        data = b"".join(parts)
        length, size = _MESSAGE_HEADER.unpack_from(data)
        message = _decode(data[_MESSAGE_HEADER.size : _MESSAGE_HEADER.size + length])
        if isinstance(message, AnalysisJob):
            body = data[_MESSAGE_HEADER.size + length :]
            assert len(body) == size
            message = AnalysisJob(message.lead, msgspec.structs.replace(message.fetched, body=body))
        self._inbox.append(message)
        self._arrived.set()

    async def _run(self) -> None:
        rng, pool = self._pool.rng, self._pool
        await asyncio.sleep(rng.choice((0.0, 0.3)))
        pool.step("workers")
        if rng.random() < pool.death_rate / 4:
            return self.die(1)
        self._send(REPLY_HEADER.pack(0))
        while True:
            while not self._inbox:
                self._arrived.clear()
                await self._arrived.wait()
            message = self._inbox.popleft()
            if isinstance(message, StateUpdate):
                self.received[message.name] = message.state
                continue
            await asyncio.sleep(rng.choice((0.0, 0.001, 0.05, 1.0)))
            pool.step("analyze")
            if rng.random() < pool.death_rate or pool.is_poison(message.fetched):
                pool.deaths[message.lead.url] += 1
                code = rng.choice(EXIT_CODES)
                pool.timeouts[message.lead.url] += code == -signal.SIGPROF
                return self.die(code)
            data = _encode(AnalysisReply(analysis=pool.analyzer.analyze(message.lead, message.fetched)))
            await self._reply(REPLY_HEADER.pack(len(data)) + data)

    async def _reply(self, frame: bytes) -> None:
        """In pieces, as a socket delivers it."""
        cut = self._pool.rng.randrange(len(frame) + 1)
        self._send(frame[:cut])
        if self._pool.rng.random() < 0.3:
            await asyncio.sleep(0.01)
        self._send(frame[cut:])

    def _send(self, data: bytes) -> None:
        self._unread += data
        asyncio.get_running_loop().call_soon(self._read)

    def _read(self) -> None:
        if self._unread and self.connection is not None and self.exitcode is None:
            data, self._unread = self._unread, b""
            self.connection.data_received(data)

    def die(self, code: int) -> None:
        """End now; the engine notices a little later, and finds what was sent before."""
        if self.exitcode is None:
            self.exitcode = code
            asyncio.get_running_loop().call_later(self._pool.rng.choice((0.0, 0.02)), self._lost)

    def _lost(self) -> None:
        # Reported once. Without a connection, `connect` reports it.
        if self.connection is not None:
            connection, self.connection = self.connection, None
            connection.connection_lost(None)

    def connect(self, connection: _WorkerConnection) -> None:
        """The engine reads the socket from now on; what the process sent and its end may be there already."""
        self.connection = connection
        connection.connection_made(cast(asyncio.Transport, self))
        loop = asyncio.get_running_loop()
        loop.call_soon(self._read)
        if self.exitcode is not None:
            loop.call_soon(self._lost)

    def kill(self) -> None:
        if self.exitcode is None:
            self.exitcode = -signal.SIGKILL
        self._task.cancel()

    def kill_from_outside(self) -> None:
        """End wherever it is; the page that it analyzed, or was to analyze next, counts as one on which it died."""
        if self.connection is not None and self.connection.waiting:
            self._pool.deaths[self.connection.waiting[0].job.lead.url] += 1
        self._task.cancel()
        self.die(-signal.SIGKILL)

    def join(self, timeout: float | None = None) -> None:
        """Takes no time."""

    def is_alive(self) -> bool:
        return self.exitcode is None

    # The engine's ends of the socket: its transport, and the second handle from which the last replies are read.

    def writelines(self, parts: list[bytes]) -> None:
        if self.exitcode is None:
            self.deliver(parts)

    def is_closing(self) -> bool:
        return self.exitcode is not None

    def recv(self, size: int) -> bytes:
        data, self._unread = self._unread[:size], self._unread[size:]
        return data

    def setblocking(self, flag: bool) -> None:
        """Never blocks."""

    def shutdown(self, how: int) -> None:
        del how
        self.kill()

    def close(self) -> None:
        """Nothing is open."""

    def __enter__(self) -> "SimulatedProcess":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""


def _not_called() -> PageAnalyzer:
    """What a real worker calls. A simulated one uses the engine's analyzer; only a function of a module is sent."""
    raise NotImplementedError


class SimulatedPool(WorkerPool):
    """The engine's pool over simulated processes. The analyzer is the engine's own."""

    def __init__(
        self, analyzer: PageAnalyzer, workers: int, rng: random.Random, death_rate: float, step: Callable[[str], None]
    ) -> None:
        super().__init__(_not_called, workers)
        self.analyzer = analyzer
        self.size = workers
        self.rng = rng
        self.death_rate = death_rate
        self.step = step
        self.deaths: Counter[str] = Counter()  # by URL
        self.timeouts: Counter[str] = Counter()
        self._pids = 1000
        self._started: list[SimulatedProcess] = []  # all processes

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    def is_poison(self, fetched: FetchResult) -> bool:
        """Pages that end every worker."""
        return self.death_rate > 0 and hash_of(fetched.url) % 10 == 0

    async def _spawn_worker(self) -> _WorkerConnection:
        """As the engine's, with a pause and a step that a fault may hit between any two of its parts."""
        await self._pause()
        process: Any = SimulatedProcess(self)
        self._started.append(process)
        worker = _WorkerConnection(process, process, self._on_worker_lost)
        try:
            await self._pause()
            process.connect(worker)
            await self._pause()
        except BaseException:
            worker.kill()
            raise
        return worker

    async def _pause(self) -> None:
        await asyncio.sleep(self.rng.choice((0.0, 0.1)))
        self.step("workers")

    async def close(self) -> None:
        self.step("workers")
        await super().close()
        self.step("workers")

    @property
    def waiting_pages(self) -> int:
        """The pages that are in memory to be analyzed."""
        return len(self._backlog) + sum(len(worker.waiting) for worker in self._workers)

    def kill_worker(self) -> None:
        """Kill one of the worker processes, if there is one; it may be starting."""
        if processes := self.running:
            self.rng.choice(processes).kill_from_outside()

    @property
    def running(self) -> list[SimulatedProcess]:
        return [process for process in self._started if process.is_alive()]

    def leftovers(self) -> list[str]:
        """What is still in the pool although no page is analyzed."""
        waiting = [pending for pending in self._backlog if not pending.future.done()]
        found = [f"{len(waiting)} pages in the backlog"] if waiting else []
        return found + ([f"{self._waiting_bytes} bytes waiting"] if self._waiting_bytes else [])

    def stale_workers(self) -> list[str]:
        """Workers that do not have the newest states."""
        newest = {name: update.state for name, update in self._latest_updates.items()}
        processes = cast(list[SimulatedProcess], self.processes)
        # Messages that have not been read yet will be.
        return [f"worker {p.pid}" for p in processes if p.is_alive() and not p._inbox and p.received != newest]


def hash_of(url: str) -> int:
    """A number that is the same in every process."""
    return sum(url.encode()) * 2_654_435_761 >> 4
