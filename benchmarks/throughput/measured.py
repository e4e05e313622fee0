"""One crawl, watched from outside: wall time, CPU of the process and everything it started, peak resident memory."""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class Run(NamedTuple):
    pages: int
    wall_s: float
    cpu_s: float
    peak_bytes: int

    @property
    def pages_per_s(self) -> float:
        return self.pages / self.wall_s

    @property
    def cpu_ms(self) -> float:
        return 1000 * self.cpu_s / self.pages


def measure(command: list[str]) -> Run:
    """Run a command to its end; the last line it prints is JSON with `pages`."""
    with tempfile.TemporaryFile("w+") as out:
        begun = time.perf_counter()
        process = subprocess.Popen(command, stdout=out)
        peak, ended, status, usage = 0, 0, 0, None
        while not ended:
            peak = max(peak, _resident(process.pid))
            time.sleep(0.05)
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        wall_s = time.perf_counter() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        said = out.read().strip().splitlines()
    if process.returncode or not said or usage is None:
        raise SystemExit(f"{' '.join(command[:4])} … ended with {process.returncode}")
    return Run(int(json.loads(said[-1])["pages"]), wall_s, usage.ru_utime + usage.ru_stime, peak)


def _resident(pid: int) -> int:
    """Bytes of a process and its descendants; 0 for one that has gone."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
        children = [c for t in Path(f"/proc/{pid}/task").iterdir() for c in (t / "children").read_text().split()]
    except OSError:
        return 0
    return own + sum(_resident(int(child)) for child in children)
