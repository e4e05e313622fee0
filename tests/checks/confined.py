"""An analyzer that tries what code of a page might try, and an engine process that runs it in a worker."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from opilio.core.records import Analysis, FetchResult, Lead


def _start_thread() -> None:
    thread = threading.Thread(target=len, args=("",))
    thread.start()
    thread.join()


def _attempts(folder: Path) -> dict[str, Callable[[], object]]:
    file = folder / "stored"
    return {
        "write": lambda: (folder / "new").write_text("x"),
        "append": lambda: file.open("a"),
        "delete": file.unlink,
        "rename": lambda: file.rename(folder / "moved"),
        "folder": (folder / "made").mkdir,
        "mode": lambda: file.chmod(0o777),
        "connect": lambda: socket.create_connection(("127.0.0.1", 9), timeout=1),
        "datagram": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        "program": lambda: subprocess.run([sys.executable, "-c", ""], check=True),
        "fork": os.fork,
        "kill": lambda: os.kill(os.getppid(), 0),
        "read": file.read_text,
        "thread": _start_thread,
        "import": lambda: __import__("markdown_it"),
    }


class ConfinedAnalyzer:
    """Returns the error of an attempt as the title of the page."""

    def __init__(self, folder: str) -> None:
        self._attempts = _attempts(Path(folder))

    def restore(self, name: str, state: bytes) -> None:
        """Nothing to restore."""

    def analyze(self, lead: Lead, _: FetchResult) -> Analysis:
        try:
            self._attempts[lead.url.rpartition("/")[2]]()
        except OSError as error:
            return Analysis(title=type(error).__name__)
        return Analysis(title="done")
