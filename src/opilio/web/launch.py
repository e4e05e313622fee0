"""Crawls that are started from a page: each a process of its own, that goes on when the server ends.

The collection is made here, so that whatever is wrong is told before anything runs; the process then goes on with it.
"""

import subprocess
import sys
from pathlib import Path

from opilio.crawl.config import Settings
from opilio.crawl.job import prepare
from opilio.model.errors import CollectionError

LOG = "crawl.log"
COMMAND = (sys.executable, "-m", "opilio", "crawl", "--quiet")
MOST_LOG = 4_000


class Launcher:
    """Starts crawls and lets go of those that have ended."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, folder: Path, settings: Settings) -> None:
        """Begin a collection and crawl it. ConfigError, TopicError or CollectionError say why that can't be."""
        prepare(folder, settings)
        self.go_on(folder)

    def go_on(self, folder: Path, pages: int = 0) -> None:
        """Crawl a collection that is there, to so many pages in all (0: as it was set)."""
        more = ["--pages", str(pages)] if pages else []
        self._running = [child for child in self._running if child.poll() is None]
        try:
            with (folder / LOG).open("ab") as log:
                process = subprocess.Popen(  # noqa: S603 our own command, no shell
                    [*COMMAND, "--into", str(folder.resolve()), *more],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
        except OSError as error:
            raise CollectionError(f"{folder}: no crawl can be started: {error.strerror}") from error
        self._running.append(process)


def last_words(folder: Path) -> str:
    """The end of what a crawl wrote that was started here."""
    try:
        text = (folder / LOG).read_bytes()[-MOST_LOG:]
    except OSError:
        return ""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-3:])
