"""Run a crawl from the command line: create or resume a collection, show progress, stop on signals, summarize."""

import asyncio
import os
import signal
from pathlib import Path
from typing import NamedTuple

from opilio.api.crawling import new_event_loop, open_crawl
from opilio.cli.main import INTERRUPTED, print_error
from opilio.cli.options import print_json, print_message, print_text
from opilio.core.clock import SystemClock
from opilio.core.errors import ConfigError
from opilio.core.files import pluralize
from opilio.core.settings import Tree
from opilio.engine.cluster.session import ClusterRun
from opilio.engine.loop import Engine
from opilio.manage.progress import CrawlProgress
from opilio.manage.status import collection_status, describe_obstacles
from opilio.manage.why import explain_empty_crawl
from opilio.store.postgres.collection import place_of
from opilio.text.tokens import tokenize_verbatim

NOTHING_FETCHED = 3  # exit code of a crawl without a page
MAX_FOLDER_NAME_BYTES = 200  # of a folder named after its topic; file systems allow 255


class CrawlOptions(NamedTuple):
    """What the user asked for: settings, where they come from (for error messages), folder and kind of output."""

    tree: Tree
    source: str
    into: Path | None
    json: bool
    quiet: bool

    @property
    def revisits(self) -> bool:
        return bool(self.tree.get("revisit", {}).get("on"))


class CrawlEnd(NamedTuple):
    """Why a crawl ended, and how many pages it revisited."""

    reason: str
    revisited: int


class StopSignals:
    """Ctrl-C and SIGTERM: the first stops cleanly, the second quits at once. What is committed is safe either way."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        self._running: tuple[Engine | ClusterRun, CrawlProgress] | None = None
        self.received = False
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._handle)

    def started(self, engine: Engine | ClusterRun, progress: CrawlProgress) -> None:
        """From now on the first signal stops the engine; until now it cancels the start."""
        self._running = (engine, progress)

    def _handle(self) -> None:
        again, self.received = self.received, True
        if self._running is not None:
            engine, progress = self._running
            if not engine.stopping and not again:
                progress.print_line("stopping: waiting for requests in flight; press Ctrl-C again to quit immediately")
                engine.stop()
                return
            progress.close()
        if again:
            os._exit(INTERRUPTED)
        if self._running is None and self._starting is not None:
            self._starting.cancel()


def run_crawl(options: CrawlOptions) -> int:
    """Crawl, print the summary; the exit code."""
    folder = options.into or Path(_folder_name(options.tree))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        end = runner.run(_crawl(folder, options))
    if end is None:
        print_error("interrupted")
        return INTERRUPTED
    pages = _print_summary(folder, end, options)
    if end.reason == "interrupted":
        return INTERRUPTED
    return 0 if pages else NOTHING_FETCHED


async def _crawl(folder: Path, options: CrawlOptions) -> CrawlEnd | None:
    """Create or resume a collection and crawl; None if a signal came before the first request."""
    signals = StopSignals()
    notify = _ignore_line if options.quiet else print_message
    try:
        async with open_crawl(folder, options.tree, options.source, notify, print_message) as session:
            counts = session.counts
            with CrawlProgress(SystemClock(), counts.pages, counts.relevant, options.quiet) as progress:
                session.engine.add_listener(progress)
                signals.started(session.engine, progress)
                return CrawlEnd(await session.engine.run(), progress.revisited)
    except asyncio.CancelledError:
        if signals.received:
            return None
        raise


def _ignore_line(_line: str) -> None:
    """A quiet crawl prints no hints."""


def _print_summary(folder: Path, end: CrawlEnd, options: CrawlOptions) -> int:
    """Print how the crawl ended; the number of pages in the collection."""
    status = collection_status(folder)
    if options.json:
        print_json(status)
        return status.pages
    pages = pluralize(status.pages, "page")
    print_text(f"{place_of(folder)}: {pages}, {status.relevant} relevant (harvest {status.harvest:.2f})")
    if status.rendered:
        print_text(
            f"{pluralize(status.rendered, 'page')} rendered in a browser, {status.rendered_relevant} relevant; "
            f"their links led to {status.found_by_rendering} more relevant pages"
        )
    for line in describe_obstacles(status):
        print_text(line)
    if options.revisits:
        print_text(
            f"{pluralize(end.revisited, 'page')} revisited" if end.revisited else "0 pages were due for a revisit"
        )
    print_text(f"stopped: {end.reason}")
    if not status.pages:
        print_message("no page could be fetched:")
        for line in explain_empty_crawl(folder):
            print_message(line)
    return status.pages


def _folder_name(tree: Tree) -> str:
    """A folder named after the topic."""
    topic = tree.get("topic", {})
    known = topic if isinstance(topic, dict) else {"name": str(topic)}  # the type error is reported later
    classes = known.get("dewey", "")
    name = str(known.get("name", "")) or (f"dewey {classes}" if classes else "")
    words = tokenize_verbatim(name.lower())[:6]
    if not words:
        raise ConfigError('no topic: give one as a sentence, for example: opilio crawl "sign languages" --seed URL')
    return os.fsencode("-".join(words))[:MAX_FOLDER_NAME_BYTES].decode(errors="ignore")
