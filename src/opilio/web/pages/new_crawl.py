"""The form for a new crawl, step by step, and the processes it starts.

The server creates the collection, so that errors appear on the form; the crawl then runs in its own process, which
continues when the server ends.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from opilio.core.errors import CollectionError, ConfigError, SeedError, UsageError
from opilio.core.settings import Settings, Tree, merge_trees
from opilio.core.strategies import strategy_names, strategy_summaries
from opilio.core.urls import canonicalize_url, host_of
from opilio.engine.wiring.seeding import engine_hint, load_user_engines, with_default_engines, with_found_seeds
from opilio.engine.wiring.session import prepare_collection
from opilio.engine.wiring.settings import CheckedSettings, canonicalize_seeds, check_settings
from opilio.seeds.finder import FoundSeeds
from opilio.store.annotations import MAX_TITLE_CHARS, CollectionCard, write_card
from opilio.topic.setup import resolve_settings
from opilio.web.auth import reject_local_settings
from opilio.web.collections import ServedCollections, folder_name
from opilio.web.context import (
    MAX_TEXT_CHARS,
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
    parse_toml,
)
from opilio.web.pages.crawl_guide import TRIAL_PAGES, Suggestions, keywords_with_suggestions, suggest
from opilio.web.pages.topic import parse_keywords
from opilio.web.processes import launch_crawl

STEPS = ("suggest", "check", "trial", "start")


async def create_and_launch(folder: Path, checked: CheckedSettings, found: FoundSeeds) -> None:
    """Create a collection and start its crawl; ConfigError or CollectionError if that fails."""
    await prepare_collection(folder, checked, found)
    launch_crawl(folder)


def show_new_crawl(context: AppContext, request: PageRequest) -> PageView:
    context.require_writable()
    return _form(request.values, "", whole=request.values["all"])


def _form(
    values: dict[str, Any], problem: str, checked: str = "", offer: Suggestions | None = None, *, whole: bool = False
) -> PageView:
    """The form. `whole`: with all fields; else the first step, which asks for the topic only."""
    data = {
        "values": values,
        "strategies": _strategy_choices(),
        "engines": _engines(),
        "checked": checked,
        "offer": msgspec.to_builtins(offer or _offered(values)),
        "suggested": offer is not None or bool(values.get("guided")),
        "whole": whole or bool(values.get("do")),
        "trial_pages": TRIAL_PAGES,
    }
    data |= {"error": problem} if problem else {}
    return PageView(template="new.html", data=data, title="New crawl", status=400 if problem else 200)


def _offered(values: dict[str, Any]) -> Suggestions:
    """The suggestions of an earlier step, which the form carries along."""
    return Suggestions(**{name: tuple(values.get(f"offered_{name}", ())) for name in ("own", "words", "seeds")})


def _strategy_choices() -> list[dict[str, str]]:
    """All strategies, the recommended one first."""
    found = [{"name": name, "about": about} for name, about in sorted(strategy_summaries().items())]
    return sorted(found, key=lambda one: one["name"] != "opilio")


def _engines() -> list[str]:
    """The engines queried if no seeds are given; errors in their file are reported at the start."""
    with suppress(ConfigError):
        return list(load_user_engines())
    return []


def start_crawl(context: AppContext, request: PageRequest) -> PageView | ActionResult:
    """The step that the form asks for: suggestions, a check, a trial, or the crawl; or the form with the error."""
    values = request.values
    try:
        if values["do"] == "suggest":
            return _suggestions(context, values)
        checked = check_new_crawl(_tree(values), allow_local=context.allow_local)
        if values["do"] == "check":
            return _form(values, "", checked=_describe_settings(checked.settings))
        started = create_collection(context.collections, checked)
    except (UsageError, CollectionError, SeedError) as error:
        return _form(values, str(error))
    home, trial = f"/c/{started.name}", values["do"] == "trial"
    return ActionResult(
        message=f"{'Trial' if trial else 'Crawl'} started in {started.folder}.{_describe_found_seeds(started.found)}",
        redirect_to=f"{home}/trial?pages={values['pages']}" if trial else home,
        data={"name": started.name, "seeds": started.seeds},
    )


def _suggestions(context: AppContext, values: dict[str, Any]) -> PageView:
    """The form with suggested words and seeds; all of the seeds are chosen, none of the words."""
    checked = check_new_crawl(_tree(values), allow_local=context.allow_local)
    offer = suggest(checked.settings)
    return _form(values | {"seed": list(offer.seeds), "word": []}, "", offer=offer)


class StartedCrawl(NamedTuple):
    """A crawl that was started: the name and folder of its collection, the number of seeds, what engines found."""

    name: str
    folder: Path
    seeds: int
    found: FoundSeeds


def check_new_crawl(tree: Tree, *, allow_local: bool = False) -> CheckedSettings:
    """The settings of a new crawl; UsageError if they can't be used, or if a client may not set them."""
    settings = resolve_settings(tree, "new crawl")
    if not allow_local:
        reject_local_settings(tree, settings)
    return check_settings(_with_seed_sources(settings))


def create_collection(collections: ServedCollections, checked: CheckedSettings) -> StartedCrawl:
    """Find seeds, create a collection in the home folder, start its crawl and serve it."""
    settings, found = asyncio.run(with_found_seeds(checked.settings, checked.archives))
    topic = settings.topic.name
    folder = collections.unused_folder(topic)
    asyncio.run(create_and_launch(folder, checked.with_seeds_of(settings), found))
    if folder.name == folder_name(topic):
        # A second collection on the topic shows the name of its folder instead: cards must differ.
        write_card(folder, CollectionCard(title=" ".join(topic.split())[:MAX_TITLE_CHARS]))
    return StartedCrawl(collections.add(folder), folder, len(settings.seeds.urls), found)


def _with_seed_sources(settings: Settings) -> Settings:
    """The settings with seeds, or with engines that can be asked for some."""
    if settings.seeds.urls:
        return canonicalize_seeds(settings)
    # Checks their options.
    with_default_engines(settings)
    if settings.seeds.offline:
        raise ConfigError(f"no seeds: give at least one URL, one per line,\n{engine_hint()}")
    return settings


def _describe_settings(settings: Settings) -> str:
    stop = f"{settings.stop.pages} pages" if settings.stop.pages else "no page limit"
    number, engines = len(settings.seeds.urls), ", ".join(with_default_engines(settings).seeds.engines)
    seeds = f"{number} seeds" if number else f"seeds from {engines}"
    return f"Settings are valid: strategy {settings.strategy}, {seeds}, {stop}."


def _describe_found_seeds(found: FoundSeeds) -> str:
    """How many seeds engines found, and which engines failed."""
    if not found.seeds:
        return ""
    failed = "".join(f" {problem}." for problem in found.problems)
    return f" {len(found.seeds)} seeds from {', '.join(found.voters) or 'lists'}.{failed}"


def _tree(values: dict[str, Any]) -> Tree:
    more = parse_toml(values["toml"], "more settings")
    typed, allow, deny = (_nonempty_lines(values[name]) for name in ("seeds", "allow", "deny"))
    seeds = list(dict.fromkeys([*typed, *values["seed"]]))
    if values["sites"] == "seeds":
        allow += sorted({host for url in seeds if (host := host_of(canonicalize_url(url) or "")) not in allow} - {""})
    tree: Tree = {
        "strategy": values["strategy"],
        "topic": {"name": values["topic"], "description": values["description"]},
        "stop": {"pages": _page_limit(values), "minutes": values["minutes"], "relevant": values["relevant"]},
        "politeness": {"delay_s": values["delay"]},
        "scope": {"allow": allow, "deny": deny} | {k: _words(values[k]) for k in ("languages", "types")},
        "frontier": {"max_depth": values["depth"]},
    }
    own, chosen = values["offered_own"], values["word"]
    if keywords := keywords_with_suggestions(parse_keywords(values["keywords"]), own, chosen):
        tree["topic"]["keywords"] = keywords
    if seeds:
        tree["seeds"] = {"urls": seeds}
    return merge_trees(tree, more)


def _page_limit(values: dict[str, Any]) -> int:
    limit = int(values["pages"])
    return min(limit, TRIAL_PAGES) or TRIAL_PAGES if values["do"] == "trial" else limit


def _nonempty_lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _words(text: str) -> list[str]:
    """
    >>> _words("en, de fr")
    ['en', 'de', 'fr']
    """
    return text.replace(",", " ").split()


_PARAMS = (
    Param(name="topic", about="The topic, as a sentence."),
    Param(name="description", about="A longer description."),
    Param(name="keywords", about="Keywords, one per line, optional weight: wren = 0.8", max_chars=MAX_TEXT_CHARS),
    Param(
        name="seeds", about="URLs to start from, one per line; if empty, engines are queried.", max_chars=MAX_TEXT_CHARS
    ),
    Param(name="allow", about="Crawl only these domains or path patterns, one per line.", max_chars=MAX_TEXT_CHARS),
    Param(name="deny", about="Exclude these domains or path patterns, one per line.", max_chars=MAX_TEXT_CHARS),
    Param(name="languages", about="Store only pages in these languages: en, de."),
    Param(name="types", about="Store only pages of these media types: text/html, application/pdf."),
    Param(
        name="depth",
        about="Follow at most this many links from a seed (0: no limit).",
        kind="integer",
        default=0,
        minimum=0,
    ),
    Param(name="strategy", about="How to crawl.", kind="choice", choices=tuple(strategy_names()), default="opilio"),
    Param(
        name="pages",
        about="Stop after this many pages (0: no limit).",
        kind="integer",
        default=1000,
        minimum=0,
        maximum=10**9,
    ),
    Param(name="relevant", about="Stop after this many relevant pages (0: off).", kind="integer", default=0, minimum=0),
    Param(name="minutes", about="Stop after this many minutes (0: off).", kind="number", default=0.0, minimum=0),
    Param(
        name="delay",
        about="Seconds between requests to a host.",
        kind="number",
        default=1.0,
        minimum=0,
        maximum=3600,
    ),
    Param(name="toml", about="Any other settings, as TOML.", max_chars=MAX_TEXT_CHARS),
    Param(
        name="sites",
        about="Any site, or only the sites of the seeds.",
        kind="choice",
        choices=("any", "seeds"),
        default="any",
    ),
    Param(name="word", about="Suggested keywords that were chosen.", kind="list"),
    Param(name="seed", about="Suggested seeds that were chosen.", kind="list"),
    *(
        Param(name=f"offered_{name}", about="Suggestions of the step before, to show them again.", kind="list")
        for name in ("own", "words", "seeds")
    ),
    Param(name="guided", about="1: the form shows suggestions.", kind="flag", default=False),
)
PAGES = (
    PageRoute(
        path="/new",
        show=show_new_crawl,
        about="The form for a new crawl.",
        params=(
            *_PARAMS,
            Param(name="all", about="1: show all fields at once.", kind="flag", default=False),
        ),
        has_table=False,
    ),
)
ACTIONS = (
    ActionRoute(
        path="/new",
        run=start_crawl,
        about="Start a crawl in a new collection.",
        params=(
            *_PARAMS,
            Param(name="do", about="The next step.", kind="choice", choices=STEPS, required=True),
        ),
    ),
)
