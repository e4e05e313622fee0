"""A worker process: how it starts and ends, its messages, and the limits under which it analyzes a page.

Messages are length-prefixed msgpack over a socket pair, with the body of a page behind its message so that it is not
copied. A reply of length 0 means that the worker is ready.
"""

import ctypes
import gc
import os
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

_PR_SET_PDEATHSIG = 1  # of prctl(2)
REPLY_HEADER = struct.Struct("!I")  # the length of a reply
_MESSAGE_HEADER = struct.Struct("!II")  # the length of a message and of the body behind it
_OUT_OF_MEMORY = 70  # exit code
LARGE_BLOCK_BYTES = 1 << 20  # memory for larger bodies is given back to the system as soon as they are freed
_KEPT_FREE_BYTES = 8 << 20  # free memory that the allocator keeps for the next pages
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


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


class AnalysisLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What the analysis of one page may take. The kernel enforces it, also inside native code."""

    cpu_s: float = 20.0
    wall_factor: float = 10.0  # times `cpu_s` on the wall clock: the machine may be busy
    memory_mb: int = 1024  # beyond what a worker needs without a page
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
        return f"more than {self.memory_mb} MB of memory" if exit_code == _OUT_OF_MEMORY else ""


def is_timeout(exit_code: int | None) -> bool:
    """True if a worker ended because of a time limit: another attempt would take as long."""
    return exit_code in (-signal.SIGPROF, -signal.SIGALRM)


def run_worker(build: Callable[[], PageAnalyzer], channel: socket.socket, parent: int, limits: AnalysisLimits) -> None:
    """Read a message, analyze the page, reply; end when the engine closes the channel."""
    die_with_parent(parent)
    for name in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(name, signal.SIG_DFL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    return_large_blocks()
    analyzer = build()
    # What the analyzer holds stays until the end, and a page creates thousands of objects but hardly a cycle: with
    # Python's own thresholds the collector takes a tenth of the time (measured).
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
    limits.limit_memory()
    if limits.sandbox:
        enter_sandbox()
    stream = channel.makefile("rb", buffering=1 << 20)
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
                _return_free_memory()


def return_large_blocks() -> None:
    """Have the C library give large blocks back. By itself it raises its limits with every large body that it frees,
    up to 32 MB, and then keeps the memory of a few large pages for ever."""
    with suppress(AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)


def _return_free_memory() -> None:
    """Give everything back that a large page needed: the tree of one of 4 MB takes 100 MB, in small blocks."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


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
        os._exit(_OUT_OF_MEMORY)
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
