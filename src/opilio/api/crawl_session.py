"""From settings to a session that is ready to run: creates a collection or resumes one. Commands and API use it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from opilio.core.errors import ConfigError, UsageError
from opilio.core.settings import PolitenessSettings, Settings, TopicSettings, Tree
from opilio.engine.cluster.session import ClusterSession, join_crawl, start_crawl
from opilio.engine.wiring.seeding import default_engine_notice, with_found_seeds
from opilio.engine.wiring.session import CrawlSession, create_checked_crawl, resume_crawl
from opilio.engine.wiring.settings import check_settings
from opilio.engine.wiring.start import UNTRAINED, Notify
from opilio.engine.wiring.topic import detect_example_language
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
