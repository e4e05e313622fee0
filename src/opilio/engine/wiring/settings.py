"""Completes and checks settings: every option of every kind is written out, and invalid values raise ConfigError."""

import re
import textwrap
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.registry import DEFAULT_KINDS, complete_section
from opilio.core.settings import (
    KIND_SECTIONS,
    AgentTeamSettings,
    EngineSettings,
    Settings,
    TopicSettings,
    Tree,
    merge_trees,
    validate_tree,
)
from opilio.core.urls import require_url
from opilio.engine.revisit.candidates import POLICIES
from opilio.engine.wiring.assembly import AGENTS, SINGLE_CRAWLER, assembly_kind, crawl_assembly
from opilio.engine.wiring.build import configured_seeds
from opilio.engine.wiring.fetcher import build_identity, open_archives
from opilio.engine.wiring.seed_engines import complete_engine
from opilio.engine.wiring.seeding import no_seeds_error
from opilio.engine.wiring.start import check_start_model, load_start_states
from opilio.engine.wiring.topic import build_topic, check_example_files, initial_topic_state
from opilio.fetch.addresses import is_private_host
from opilio.fetch.archive import ArchiveWeb
from opilio.frontier.policy import MergePolicy
from opilio.store.collection import Collection, load_settings
from opilio.store.connection import CONFIG
from opilio.store.postgres.collection import place_of
from opilio.topic.setup import resolve_settings
from opilio.topic.topic import Topic

# A URL, or an e-mail address with or without its scheme.
_is_contact = re.compile(r"https?://[^\s/]\S*|(?:mailto:)?[^\s@]+@[^\s@]+", re.IGNORECASE).fullmatch
# Options that a resumed crawl can't change, among them those that define the scale of priorities in the queue.
FIXED_OPTIONS = {
    "judge": ("kind",),
    "rank": ("kind",),
    "order": ("kind", "factor", "every", "mode"),
    "boost": ("kind", "share", "lift"),
}


def complete_settings(settings: Settings) -> Settings:
    """Settings with every option of every kind written out and checked."""
    sections = {name: complete_section(name, getattr(settings, name)) for name in KIND_SECTIONS}
    _check_choice("frontier.merge", settings.frontier.merge, list(MergePolicy))
    _check_choice("revisit.policy", settings.revisit.policy, list(POLICIES))
    engines = {name: complete_engine(name, tree) for name, tree in settings.seeds.engines.items()}
    seeds = msgspec.structs.replace(settings.seeds, engines=engines)
    # Checks the files.
    build_identity(settings.fetch)
    # A resumed crawl may be started in another folder.
    fetch = msgspec.structs.replace(
        settings.fetch,
        archives=[str(Path(name).absolute()) for name in settings.fetch.archives],
        credentials=_absolute(settings.fetch.credentials),
        signature_key=_absolute(settings.fetch.signature_key),
    )
    completed: Settings = msgspec.structs.replace(settings, seeds=seeds, fetch=fetch, **sections)
    crawl_assembly(completed).check_settings(completed)
    return completed


def _absolute(path: str) -> str:
    return str(Path(path).absolute()) if path else ""


def collection_settings(collection: Collection) -> Settings:
    """The settings of a collection, completed."""
    return complete_settings(resolve_settings(load_settings(collection), str(collection.folder / CONFIG)))


class CheckedSettings(NamedTuple):
    """Completed settings that a crawl can start with, the topic they describe, and the archives that they name.

    The topic is None if it has to wait for the text of example pages.
    """

    settings: Settings
    topic: Topic | None
    archives: ArchiveWeb | None = None

    def with_seeds_of(self, settings: Settings) -> "CheckedSettings":
        """The same with the seeds and agents of `settings`, which search engines filled in."""
        return self._replace(
            settings=msgspec.structs.replace(self.settings, seeds=settings.seeds, agents=settings.agents)
        )


def check_settings(settings: Settings) -> CheckedSettings:
    """Complete and check settings before a folder exists; seeds may be missing."""
    _check_contact(settings.politeness.contact)
    check_start_model(settings)
    check_example_files(settings.topic)
    settings = complete_settings(settings)
    load_start_states(settings)
    members = crawl_assembly(settings).member_settings(settings)
    topics = [_check_topic(one) for one in (settings, *(m for m in members if m.topic != settings.topic))]
    return CheckedSettings(settings, topics[0], open_archives(settings) if settings.fetch.archives else None)


def _check_contact(contact: str) -> None:
    """Only of new crawls: collections with another contact can still be opened."""
    if not _is_contact(contact):
        raise ConfigError(
            f"politeness.contact '{contact}': not an address; give a URL or an e-mail address, for example "
            "https://example.org/crawler or crawler@example.org"
        )


def _check_topic(settings: Settings) -> Topic | None:
    """The topic of the settings; None if it waits for example pages. TopicError if no table can be built of it."""
    topic = build_topic(settings)
    if settings.topic.examples:
        return None
    initial_topic_state(settings, topic)
    return topic


def resumed_settings(folder: Path, stored: Tree, tree: Tree) -> Settings:
    """The stored settings of a collection overlaid with `tree`, completed; strategy, topic and start can't change."""
    place = place_of(folder)
    check_stored_settings(stored, f"{place}/{CONFIG}")
    _check_same_strategy(place, stored, tree)
    _check_same_topic(place, stored, tree)
    _check_same_start(place, stored, tree)
    settings = resolve_settings(merge_trees(stored, tree), str(folder / CONFIG))
    settings = complete_settings(canonicalize_seeds(settings))
    _check_same_assembly(place, stored, settings)
    return settings


def check_stored_settings(stored: Tree, source: str) -> None:
    """Refuse the settings of a collection if they are damaged: the crawl would continue with other ones."""
    for key in ("strategy", "topic"):
        if key not in stored:
            raise ConfigError(f"{source}: '{key}' is missing")
    validate_tree(stored, source)


def canonicalize_seeds(settings: Settings) -> Settings:
    """Settings whose seeds are canonical URLs; ConfigError names the one that is not."""
    if not settings.seeds.urls:
        raise no_seeds_error()
    urls: dict[str, int] = {}
    for seed in configured_seeds(settings):
        found = require_url(seed.url, "seed", ConfigError)
        reaches_private = settings.fetch.allow_private or settings.fetch.archives
        if not reaches_private and is_private_host(urlsplit(found).hostname or ""):
            raise ConfigError(
                f"seed '{seed.url}': is an address of this machine or its network; allow it with --allow-private"
                " or fetch.allow_private = true"
            )
        if seed.priority not in (1, 2, 3):
            raise ConfigError(f"seed '{seed.url}': its priority must be 1, 2 or 3, not {seed.priority}")
        urls[found] = min(seed.priority, urls.get(found, seed.priority))
    given = urls if isinstance(settings.seeds.urls, dict) else list(urls)
    return msgspec.structs.replace(settings, seeds=msgspec.structs.replace(settings.seeds, urls=given))


def _check_choice(option: str, value: str, known: list[str]) -> None:
    if value not in known:
        raise ConfigError(f"{option} = '{value}': unknown; choose one of {', '.join(known)}")


def _check_same_strategy(place: str, stored: Tree, tree: Tree) -> None:
    """The strategy can't change: a judge or ranker can't use what another has learned, and priorities of different
    scales can't be mixed in one queue."""
    used, wanted = stored["strategy"], tree.get("strategy", stored["strategy"])
    if wanted != used:
        raise ConfigError(f"--strategy {wanted}: {place} was started with '{used}'; choose another --into")
    for section, options in FIXED_OPTIONS.items():
        given, used = tree.get(section, {}), {"kind": DEFAULT_KINDS[section], **stored.get(section, {})}
        for name in options if isinstance(given, dict) else ():
            if name in given and given[name] != used.get(name, given[name]):
                why = f"{place} was started with {used[name]!r}; choose another --into"
                raise ConfigError(f"{section}.{name} = {given[name]!r}: {why}")


def _check_same_topic(place: str, stored: Tree, tree: Tree) -> None:
    """A collection has one topic: verdicts by different topics can't be compared."""
    wanted = tree.get("topic", {})
    if not isinstance(wanted, dict):
        # Reported by `resolve_settings`.
        return
    used = {**msgspec.to_builtins(TopicSettings()), **stored["topic"]}
    for key, value in wanted.items():
        if key in used and value != used[key]:
            given = f"topic '{value}'" if key == "name" else f"topic.{key} {_shorten(value)}"
            raise ConfigError(
                f"{given}: {place} was started with {_shorten(used[key])}; choose another --into, "
                f"or change the topic on its page ('opilio serve {place}')"
            )


def _shorten(value: object) -> str:
    return textwrap.shorten(repr(value), 80, placeholder=" …")


def _check_same_start(place: str, stored: Tree, tree: Tree) -> None:
    """The model or graph that a crawl starts from can't change later."""
    rank, used = tree.get("rank", {}), stored.get("rank", {})
    for key, option in (("model", "--start-from"), ("graph", "rank.graph")):
        wanted = rank.get(key, "") if isinstance(rank, dict) else ""
        if wanted and wanted != used.get(key, ""):
            raise ConfigError(f"{option} {wanted}: {place} has been started already; choose another --into")


def _check_same_assembly(place: str, stored: Tree, settings: Settings) -> None:
    """Queued URLs belong to agents: a collection keeps them, or stays without."""
    kind = assembly_kind(settings.engine, settings.agents)
    before = assembly_kind(
        msgspec.convert(stored.get("engine", {}), EngineSettings),
        msgspec.convert(stored.get("agents", {}), AgentTeamSettings),
    )
    if kind != before and {kind, before} != {AGENTS, SINGLE_CRAWLER}:
        raise ConfigError(f"engine.assembly = '{kind}': {place} was started as '{before}'; choose another --into")
    if kind != before:
        how = "by agents" if kind == SINGLE_CRAWLER else "without agents"
        raise ConfigError(f"agents.count: {place} was started {how} and can't change; choose another --into")
