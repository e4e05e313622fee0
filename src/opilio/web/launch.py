"""Crawls that are started from a page: each a process of its own, that goes on when the server ends.

The collection is made here, so that whatever is wrong is told before anything runs; the process then goes on with it.
"""

import subprocess
import sys
import threading
from pathlib import Path

from opilio.crawl.config import Settings
from opilio.crawl.job import prepare
from opilio.model.errors import CollectionError
from opilio.seeds.finder import Found

LOG = "crawl.log"
COMMAND = (sys.executable, "-m", "opilio", "crawl", "--quiet")
MOST_LOG = 4_000


async def start(folder: Path, settings: Settings, found: Found) -> None:
    """Begin a collection with what engines found and crawl it. ConfigError or CollectionError say why that can't be."""
    await prepare(folder, settings, found)
    go_on(folder)


def go_on(folder: Path, pages: int = 0) -> None:
    """Crawl a collection that is there, to so many pages in all (0: as it was set)."""
    more = ["--pages", str(pages)] if pages else []
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
    threading.Thread(target=process.wait, daemon=True).start()  # lets go of it when it has ended


def last_words(folder: Path) -> str:
    """The end of what a crawl wrote that was started here."""
    try:
        text = (folder / LOG).read_bytes()[-MOST_LOG:]
    except OSError:
        return ""
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return "\n".join(lines[-3:])
