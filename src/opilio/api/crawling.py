"""`opilio.crawl()` and `opilio.acrawl()`: create a collection or resume one, and crawl."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from typing import Any

from opilio.api.collection import CollectionView
from opilio.api.crawl_session import new_event_loop, open_crawl
from opilio.core.clock import SystemClock
from opilio.core.events import EventListener
from opilio.core.settings import Tree, merge_trees, validate_tree
from opilio.engine.cluster.session import ClusterRun
from opilio.engine.loop import Engine
from opilio.engine.wiring.start import Notify
from opilio.manage.progress import CrawlProgress

SeedsArgument = str | Sequence[str] | Mapping[str, int]


def crawl(
    topic: str | None = None,
    *,
    into: str | Path,
    seeds: SeedsArgument | None = None,
    pages: int | None = None,
    fetches: int | None = None,
    strategy: str | None = None,
    settings: Mapping[str, Any] | None = None,
    on_event: EventListener | None = None,
    progress: bool = True,
) -> CollectionView:
    """Crawl `topic` into the folder `into`, or resume the crawl that is there, and return the collection.

    `seeds` is a URL, a list of URLs, or a mapping of URLs to priorities (1 to 3). `pages` and `fetches` limit the whole
    collection, not this call; 0 is no limit. With `fetches` alone there is no limit of pages. `settings` takes any
    setting, nested or with dotted names: `{"politeness.delay_s": 2.0}`. `on_event` is called with every event after it
    was committed, in the crawl's thread.

    Works in scripts, in notebooks and inside of a running event loop: the crawl runs in a thread of its own. Ctrl-C
    stops it cleanly and raises KeyboardInterrupt; the next call resumes.
    """
    run = CrawlRun(into, build_tree(topic, seeds, pages, fetches, strategy, settings), on_event, progress)
    with ThreadPoolExecutor(1, thread_name_prefix="opilio-crawl") as pool:
        # A notebook finds the cell that output belongs to in the context.
        future = pool.submit(copy_context().run, run.run_in_new_loop)
        try:
            future.result()
        except KeyboardInterrupt:
            # Leaving the block waits until the crawl has stopped.
            run.stop()
            raise
    return CollectionView(into)


async def acrawl(
    topic: str | None = None,
    *,
    into: str | Path,
    seeds: SeedsArgument | None = None,
    pages: int | None = None,
    fetches: int | None = None,
    strategy: str | None = None,
    settings: Mapping[str, Any] | None = None,
    on_event: EventListener | None = None,
    progress: bool = True,
) -> CollectionView:
    """The same as `crawl()` in the running event loop. When it is cancelled, everything committed so far is kept."""
    await CrawlRun(into, build_tree(topic, seeds, pages, fetches, strategy, settings), on_event, progress).run()
    return CollectionView(into)


def build_tree(
    topic: str | None,
    seeds: SeedsArgument | None,
    pages: int | None,
    fetches: int | None,
    strategy: str | None,
    settings: Mapping[str, Any] | None,
) -> Tree:
    """The arguments of a call as a tree of settings; named arguments win over `settings`."""
    tree: Tree = {}
    for name, value in (settings or {}).items():
        tree = merge_trees(tree, _nest(name, value))
    tree = validate_tree(tree, "settings")
    if topic is not None:
        tree = merge_trees(tree, {"topic": {"name": topic}})
    if seeds is not None:
        urls = [seeds] if isinstance(seeds, str) else dict(seeds) if isinstance(seeds, Mapping) else list(seeds)
        tree = merge_trees(tree, {"seeds": {"urls": urls}})
    if fetches is not None:
        tree = merge_trees({"stop": {"pages": 0}}, merge_trees(tree, {"stop": {"fetches": fetches}}))
    if pages is not None:
        tree = merge_trees(tree, {"stop": {"pages": pages}})
    return tree if strategy is None else {**tree, "strategy": strategy}


def _nest(name: str, value: object) -> Tree:
    """`stop.pages` as a tree."""
    tree: Any = dict(value) if isinstance(value, Mapping) else value
    for part in reversed(name.split(".")):
        tree = {part: tree}
    return dict(tree)


class CrawlRun:
    """One call of `crawl()` or `acrawl()`."""

    def __init__(self, into: str | Path, tree: Tree, on_event: EventListener | None, progress: bool) -> None:
        self._folder = Path(into)
        self._tree = tree
        self._on_event = on_event
        self._progress = progress
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | ClusterRun | None = None
        self._stop_requested = False

    def run_in_new_loop(self) -> None:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(self.run())

    async def run(self) -> None:
        self._loop = asyncio.get_running_loop()
        notify: Notify = _print_stderr if self._progress else _ignore_line
        async with open_crawl(self._folder, self._tree, "crawl()", notify, _print_stderr) as session:
            counts = session.counts
            with CrawlProgress(SystemClock(), counts.pages, counts.relevant, not self._progress) as progress:
                session.engine.add_listener(progress)
                if self._on_event is not None:
                    session.engine.add_listener(self._on_event)
                self._engine = session.engine
                self._stop_if_requested()
                await session.engine.run()

    def stop(self) -> None:
        """Stop cleanly; called from another thread."""
        self._stop_requested = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop_if_requested)

    def _stop_if_requested(self) -> None:
        if self._stop_requested and self._engine is not None:
            self._engine.stop()


def _print_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _ignore_line(_line: str) -> None:
    """Without progress, hints are not printed."""
