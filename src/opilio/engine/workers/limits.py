"""What the processes of a crawl may use: time and memory for a page, free memory that is kept, threads."""

import ctypes
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

OUT_OF_MEMORY = 70  # exit code
LARGE_BLOCK_BYTES = 1 << 20  # memory for larger bodies is given back to the system as soon as they are freed
_KEPT_FREE_BYTES = 8 << 20  # free memory that the allocator keeps for the next pages
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # of mallopt(3)


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
        return f"more than {self.memory_mb} MB of memory" if exit_code == OUT_OF_MEMORY else ""


def is_timeout(exit_code: int | None) -> bool:
    """True if a worker ended because of a time limit: another attempt would take as long."""
    return exit_code in (-signal.SIGPROF, -signal.SIGALRM)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While this is entered, matrix products use one thread.

    Those of a crawl are small. More threads wait for each other, which took a quarter of the CPU time of a page
    (measured with strategy `opilio` on two busy cores).
    """
    before = set_blas_threads(1)
    try:
        yield
    finally:
        set_blas_threads(before)


def set_blas_threads(count: int) -> int:
    """Set the number of threads of numpy's OpenBLAS; returns the number before, 0 if it is another library.

    The environment variable for this is only read when numpy is imported.
    """
    with suppress(OSError, StopIteration):
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
        library = ctypes.CDLL(next(line.split(maxsplit=5)[5] for line in maps if "openblas" in line))
        for name in ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads"):
            with suppress(AttributeError):
                before = int(library[name.format("get")]())
                library[name.format("set")](max(1, count))
                return before
    return 0


def return_large_blocks() -> None:
    """Have the C library give large blocks back. By itself it raises its limits with every large body that it frees,
    up to 32 MB, and then keeps the memory of a few large pages for ever."""
    with suppress(AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_FREE_BYTES)


def return_free_memory() -> None:
    """Give everything back that is free: the tree of a page of 4 MB takes 50 MB, in small blocks."""
    with suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
