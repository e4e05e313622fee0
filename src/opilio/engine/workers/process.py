"""A worker process: how it starts and ends, its messages, and its limits of time and memory.

Messages are length-prefixed msgpack over a socket pair, with the body of a page behind its message so that it is not
copied. The first one is the function that makes the analyzer. A reply of length 0 means that the worker is ready.
"""

import ctypes
import gc
import io
import os
import pickle
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import ModuleType

import msgspec
from msgspec.structs import replace

from opilio.core.errors import OfflineWebError
from opilio.core.records import Analysis, Failure, FetchResult, Lead
from opilio.engine.analysis import PageAnalyzer
from opilio.engine.workers.sandbox import enter_sandbox
from opilio.fetch.archive import unpack_response
from opilio.text.word_vectors import set_blas_threads

OUT_OF_MEMORY = 70  # exit code
# Memory for larger bodies is given back to the system as soon as they are freed.
LARGE_BLOCK_BYTES = 1 << 20
# Free memory that the allocator keeps for the next pages.
_KEPT_FREE_BYTES = 8 << 20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)
_ENGINE_THRESHOLDS = (10_000, 20, 20)  # of gc.set_threshold


class AnalysisLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the analysis of one page may take. The kernel enforces it, also inside native code."""

    cpu_s: float = 20.0
    # Times `cpu_s` on the wall clock: the machine may be busy.
    wall_factor: float = 10.0
    # Beyond what a worker needs without a page.
    memory_mb: int = 1024
    sandbox: bool = False  # no new files, connections and programs

    @property
    def wall_s(self) -> float:
        """Seconds that a page may take on the wall clock."""
        return self.cpu_s * self.wall_factor

    def limit_memory(self) -> None:
        """Limit the address space of this process, where the system reports its size."""
        with suppress(OSError, ValueError):
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            size = pages * resource.getpagesize() + (self.memory_mb << 20)
            resource.setrlimit(resource.RLIMIT_AS, (size, resource.getrlimit(resource.RLIMIT_AS)[1]))

    @contextmanager
    def limit_time(self) -> Iterator[None]:
        """While this is entered, the kernel ends the process after `cpu_s` of CPU time or `wall_s` by the clock.

        A Python signal handler would not run inside native code; the default action needs none.
        """
        signal.setitimer(signal.ITIMER_PROF, self.cpu_s)
        signal.setitimer(signal.ITIMER_REAL, self.wall_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def exceeded(self, exit_code: int | None) -> str:
        """The limit that ended a worker; empty if it ended for another reason."""
        if exit_code == -signal.SIGPROF:
            return f"more than {self.cpu_s:g} s of CPU time"
        if exit_code == -signal.SIGALRM:
            return f"more than {self.wall_s:g} s"
        return f"more than {self.memory_mb} MB of memory" if exit_code == OUT_OF_MEMORY else ""


def is_timeout(exit_code: int | None) -> bool:
    """True if a worker ended because of a time limit: another attempt would take as long."""
    return exit_code in (-signal.SIGPROF, -signal.SIGALRM)


def describe_exit(exit_code: int | None) -> str:
    """The signal or the status with which a process ended."""
    if exit_code is not None and -exit_code in set(signal.Signals):
        return signal.Signals(-exit_code).name
    return f"exit status {exit_code}"


def return_large_blocks() -> None:
    """Have the C library give large blocks back. By itself it raises its limits with every large body that it frees,
    up to 32 MB, and then keeps the memory of a few large pages for ever."""
    # Another C library.
    with suppress(AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)


def return_free_memory() -> None:
    """Give everything back that is free: the tree of a page of 4 MB takes 50 MB, in small blocks."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """While this is entered, Python's cyclic garbage collector runs rarely; for the process of the engine.

    It took 7 % of this process's CPU time in a crawl of an archive. A page leaves 70 objects that stay, so the
    collector runs every 140 pages instead of every 10: a cycle that holds a page's body is freed soon enough.
    """
    before = gc.get_threshold()
    gc.set_threshold(*_ENGINE_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)


_PR_SET_PDEATHSIG = 1  # of prctl(2)
REPLY_HEADER = struct.Struct("!I")  # the length of a reply
# The length of a message and of the body behind it.
_MESSAGE_HEADER = struct.Struct("!II")


class AnalysisJob(msgspec.Struct, tag=True, array_like=True):
    """A page to analyze. `packed`: the bytes behind the message are a record of an archive, not a body."""

    lead: Lead
    fetched: FetchResult
    packed: bool = False


class StateUpdate(msgspec.Struct, tag=True, array_like=True):
    name: str
    state: bytes


class AnalysisReply(msgspec.Struct, array_like=True):
    """An analysis, or the error that was raised instead."""

    analysis: Analysis | None = None
    error: str = ""


_encode = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.msgpack.Decoder(AnalysisJob | StateUpdate).decode
decode_reply = msgspec.msgpack.Decoder(AnalysisReply).decode


def encode_message(message: AnalysisJob | StateUpdate, body: bytes) -> tuple[bytes, bytes, bytes]:
    """The parts of a message, to be sent one after the other."""
    data = _encode(message)
    return _MESSAGE_HEADER.pack(len(data), len(body)), data, body


def encode_builder(build: Callable[[], PageAnalyzer]) -> bytes:
    """The first message to a worker: the function that makes its analyzer, with the topic and all that was learnt.

    Not an argument of the process: multiprocessing writes those to a pipe while it starts one. More than 64 KB would
    block the engine until the worker has imported its modules, and for ever if it ends before.
    """
    data = pickle.dumps(build)
    return REPLY_HEADER.pack(len(data)) + data


def _read_builder(stream: io.IOBase) -> Callable[[], PageAnalyzer] | None:
    """The function that the engine sent; None if the engine has ended."""
    header = stream.read(REPLY_HEADER.size)
    if len(header) < REPLY_HEADER.size:
        return None
    (length,) = REPLY_HEADER.unpack(header)
    data = stream.read(length)
    if len(data) < length:
        return None
    build: Callable[[], PageAnalyzer] = pickle.loads(data)  # noqa: S301 - of the engine, which started this process
    return build


def run_worker(channel: socket.socket, parent: int, limits: AnalysisLimits) -> None:
    """Read a message, analyze the page, reply; end when the engine closes the channel."""
    die_with_parent(parent)
    for name in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(name, signal.SIG_DFL)
    return_large_blocks()
    set_blas_threads(1)
    stream = channel.makefile("rb", buffering=1 << 20)
    build = _read_builder(stream)
    if build is None:
        return
    analyzer = build()
    return_free_memory()
    # What the analyzer holds stays until the end, and a page creates thousands of objects but hardly a cycle: with
    # Python's own thresholds the collector takes a tenth of the time (measured).
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    limits.limit_memory()
    if limits.sandbox:
        enter_sandbox()
    with suppress(ConnectionError):
        channel.sendall(REPLY_HEADER.pack(0))
        while len(header := stream.read(_MESSAGE_HEADER.size)) == _MESSAGE_HEADER.size:
            sizes = _MESSAGE_HEADER.unpack(header)
            frame, body = map(stream.read, sizes)
            if (len(frame), len(body)) != sizes:
                return
            message = _decode_message(frame)
            if isinstance(message, StateUpdate):
                analyzer.restore(message.name, message.state)
                continue
            received = {"packed" if message.packed else "body": body}
            with limits.limit_time():
                data = _encode(_reply_to_job(analyzer, message.lead, replace(message.fetched, **received)))
            channel.sendall(REPLY_HEADER.pack(len(data)) + data)
            if max(len(body), message.fetched.size_bytes) > LARGE_BLOCK_BYTES:
                del message, body, data
                return_free_memory()


def analyze_response(analyzer: PageAnalyzer, lead: Lead, fetched: FetchResult) -> Analysis:
    """Analyze a response; one of an archive is read here, where the time and memory of one page are limited."""
    if not fetched.packed:
        return analyzer.analyze(lead, fetched)
    try:
        read = unpack_response(fetched)
    except OfflineWebError as error:
        return Analysis(failure=Failure("archive", str(error)))
    analysis = analyzer.analyze(lead, read)
    # The engine has the bytes of a record that is stored as it is.
    copies = analysis.warc_record != b"" and analysis.warc_record is read.record
    return replace(
        analysis,
        warc_record=b"" if copies else analysis.warc_record,
        copies_record=copies,
        response=replace(read, body=b"", record=b""),
    )


def _reply_to_job(analyzer: PageAnalyzer, lead: Lead, fetched: FetchResult) -> AnalysisReply:
    try:
        return AnalysisReply(analysis=analyze_response(analyzer, lead, fetched))
    except MemoryError:
        # What is left in this process is not worth keeping; the engine sees the exit code.
        os._exit(OUT_OF_MEMORY)
    except Exception as error:  # noqa: BLE001 - the engine's guard records it
        return AnalysisReply(error=f"{type(error).__name__}: {error}"[:300])


def start_with_signals_blocked(process: BaseProcess) -> None:
    """Start a process that the signals for the engine do not reach: the engine decides when its workers stop.

    A blocked signal stays blocked in the child, from its first instruction on. The resource tracker has to run before:
    with the first process it starts too, and unblocks both signals when it has.
    """
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        with without_main_module():
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def without_main_module() -> Iterator[None]:
    """While this is entered, a spawned process does not import the script that the user runs.

    multiprocessing imports it in every child, so a script that calls `opilio.crawl()` outside of
    `if __name__ == "__main__":` would start the same crawl again in each worker. Workers need nothing from it.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, also while it is busy with a page."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    # The parent may have died before.
    if os.getppid() != parent:
        os._exit(1)
