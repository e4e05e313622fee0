"""The processes that the server starts: crawls, and the demo. They continue when the server ends."""

import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from opilio.core.errors import CollectionError

LOG = "crawl.log"
COMMAND = (sys.executable, "-m", "opilio")
LOG_TAIL_BYTES = 4_000
LOG_TAIL_LINES = 3


class _Launch(NamedTuple):
    process: "subprocess.Popen[bytes]"
    at: float


_launches: dict[Path, _Launch] = {}  # the last one for each collection


def launch_crawl(folder: Path, limits: Mapping[str, float] | None = None) -> None:
    """Start the crawl of an existing collection. `limits` replace stored stop rules, for example pages: 2000."""
    more = [part for name, value in (limits or {}).items() for part in ("--set", f"stop.{name}={value:g}")]
    at = time.time()
    process = start_command(["crawl", "--quiet", "--into", str(folder.resolve()), *more], folder / LOG)
    _launches[folder.resolve()] = _Launch(process, at)


def launch_state(folder: Path, started_at: float) -> Literal["", "starting", "failed"]:
    """Whether the last launched process has not begun to crawl yet, or has ended without doing so. `started_at`: the
    start of the collection's last crawl."""
    launch = _launches.get(folder.resolve())
    if launch is None or started_at >= launch.at:
        return ""
    code = launch.process.poll()
    return "starting" if code is None else "failed" if code else ""


def start_command(words: Sequence[str], log_file: Path) -> "subprocess.Popen[bytes]":
    """Start a command of Opilio that continues when the server ends; its output goes to a file."""
    try:
        with log_file.open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 our own command, no shell
                [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
    except OSError as error:
        raise CollectionError(f"{log_file.parent}: cannot start a crawl: {error.strerror}") from error
    threading.Thread(target=process.wait, daemon=True).start()  # reaps it when it has ended
    return process


def read_log_tail(folder: Path) -> str:
    """The last lines of a crawl's log."""
    try:
        text = (folder / LOG).read_bytes()[-LOG_TAIL_BYTES:]
    except OSError:
        return ""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-LOG_TAIL_LINES:])
