"""An analyzer whose pages take too long, too much memory, or end their process, by the path of their URL."""

import os
import signal
import sys
import time
from pathlib import Path

from opilio.core.records import Analysis, FetchResult, Lead

URL = "http://a.example/"


class CostlyAnalyzer:
    """`marks` is a folder for files that survive the process."""

    def __init__(self, marks: str) -> None:
        self._marks = Path(marks)

    def restore(self, name: str, state: bytes) -> None:
        """Learns nothing."""

    def analyze(self, lead: Lead, _: FetchResult) -> Analysis:
        path = lead.url.removeprefix(URL)
        with (self._marks / path).open("a") as attempts:
            attempts.write("x")
        if path.startswith("busy"):
            while True:
                pass
        if path.startswith("native"):
            # Inside native code, where no Python signal handler runs. The limit is lifted in the worker only, because
            # other tests need it.
            sys.set_int_max_str_digits(0)
            int("7" * 30_000_000)
        if path.startswith("blocked"):
            time.sleep(3600)
        if path.startswith("large"):
            bytearray(4 << 30)
        if path.startswith("once") and len((self._marks / path).read_text()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if path.startswith("deadly"):
            os._exit(3)
        return Analysis(title=path)
