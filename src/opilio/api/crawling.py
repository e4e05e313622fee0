"""`opilio.crawl()` and `opilio.acrawl()`: create a collection or resume one, and crawl. The CLI uses `open_crawl`."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any

from opilio.api.collection import CollectionView
from opilio.core.clock import SystemClock
from opilio.core.errors import ConfigError, UsageError
from opilio.core.events import EventListener
from opilio.core.settings import PolitenessSettings, Settings, TopicSettings, Tree, merge_trees, validate_tree
from opilio.engine.cluster.session import ClusterRun, ClusterSession, join_crawl, start_crawl
from opilio.engine.loop import Engine
from opilio.engine.wiring.seeding import default_engine_notice, with_found_seeds
from opilio.engine.wiring.session import CrawlSession, create_checked_crawl, resume_crawl
from opilio.engine.wiring.settings import check_settings
from opilio.engine.wiring.start import UNTRAINED, Notify
from opilio.engine.wiring.topic import detect_example_language
from opilio.manage.progress import CrawlProgress
from opilio.store.annotations import delete_new_collection
from opilio.store.collection import collection_exists, is_linked
from opilio.store.postgres.collection import place_of
from opilio.topic.setup import resolve_settings


def new_event_loop() -> asyncio.AbstractEventLoop:
    """uvloop where it is installed: the engine's process then needs a tenth less CPU (measured)."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@asynccontextmanager
async def open_crawl(
    folder: Path, tree: Tree, source: str, notify: Notify, warn: Notify
) -> AsyncIterator[CrawlSession | ClusterSession]:
    """A session that is ready to run. `source` names where the settings come from, for error messages.

    `notify` receives hints that a quiet run leaves out, `warn` receives problems that the user must see.
    """
    if collection_exists(folder):
        async with join_crawl(folder, tree, warn) if is_linked(folder) else _resume(folder, tree, notify) as session:
            yield session
        return
    settings = resolve_settings(tree, source)
    if "language" not in tree.get("topic", {}):
        await _detect_language(settings, notify)
    created = await _create(folder, settings, notify, warn)
    try:
        async with created as session:
            yield session
    except UsageError:
        # An example page can't be fetched: without the folder, the corrected command creates the collection anew.
        delete_new_collection(folder)
        raise


def _resume(folder: Path, tree: Tree, notify: Notify) -> CrawlSession:
    resumed = resume_crawl(folder, tree)
    resumed.notify = notify
    return resumed


async def _detect_language(settings: Settings, notify: Notify) -> None:
    """No language was set: if the topic's words don't show it, its example pages may."""
    topic, default = settings.topic, TopicSettings().language
    if topic.language == default and topic.examples:
        topic.language = await detect_example_language(settings) or default
    if topic.language != default:
        notify(f"topic language: {topic.language}; to change it: --set topic.language=NAME")


async def _create(folder: Path, settings: Settings, notify: Notify, warn: Notify) -> CrawlSession | ClusterSession:
    """A new collection. Search engines are asked for seeds if none were given, before the folder is created."""
    _require_topic(folder, settings)
    checked = check_settings(settings)
    for damage in checked.archives.problems if checked.archives else ():
        warn(damage)
    if notice := default_engine_notice(settings):
        notify(notice)
    settings, found = await with_found_seeds(checked.settings, checked.archives)
    for problem in found.problems:
        warn(str(problem))
    if found.seeds:
        notify(f"{len(found.seeds)} seeds from {', '.join(found.voters) or 'lists'}")
    if notice := _training_notice(folder, settings):
        notify(notice)
    checked = checked.with_seeds_of(settings)
    created: CrawlSession | ClusterSession
    if is_linked(folder):
        created = start_crawl(folder, checked, found, warn)
    else:
        created = create_checked_crawl(folder, checked, found)
        created.notify = notify
    private = settings.fetch.proxy or settings.fetch.allow_private or settings.fetch.archives
    if not private and settings.politeness.contact == PolitenessSettings().contact:
        notify("No contact set: site owners can't reach you; set politeness.contact=URL")
    return created


def _training_notice(folder: Path, settings: Settings) -> str:
    """A line for a crawl of S1 that is not trained before it starts, or that was trained elsewhere; otherwise empty."""
    rank = settings.rank
    if rank["kind"] != "attributes":
        return ""
    if rank["model"]:
        return f"{settings.strategy}: starts with the classifier of {rank['model']}"
    return f"{settings.strategy}: {UNTRAINED}" if is_linked(folder) else ""


def _require_topic(folder: Path, settings: Settings) -> None:
    """Without a topic, the folder of a crawl to resume is probably misspelled."""
    topic = settings.topic
    if not (topic.name or topic.description or topic.keywords or topic.examples or topic.dewey):
        place = place_of(folder)
        example = f'opilio crawl "sign languages" --into {place} --seed URL'
        raise ConfigError(f"--into {place}: not a collection; give a topic to start one, for example: {example}")


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
