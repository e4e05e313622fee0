"""Start a crawl from the browser: topic, seeds, how far to go; anything else as TOML. Checked before it begins."""

import asyncio
import tomllib
from contextlib import suppress
from typing import Any

from opilio.crawl.config import Settings, Tree, merged, resolve, strategies
from opilio.crawl.job import check, with_checked_seeds
from opilio.crawl.seeding import begin_with, or_name_an_engine, own_engines, with_engines
from opilio.model.errors import CollectionError, ConfigError, SeedError, UsageError
from opilio.seeds.finder import Found
from opilio.web.desk import Action, Asked, Desk, Done, Page
from opilio.web.launch import start as launch
from opilio.web.params import NOTE, Param
from opilio.web.topicpage import keywords_of
from opilio.web.view import View


def new(desk: Desk, asked: Asked) -> View:
    desk.writable()
    return _form(asked.values, "")


def _form(values: dict[str, Any], problem: str, checked: str = "") -> View:
    data = {"values": values, "strategies": strategies(), "engines": _engines(), "checked": checked}
    data |= {"error": problem} if problem else {}
    return View(template="new.html", data=data, title="New crawl", status=400 if problem else 200)


def _engines() -> list[str]:
    """The engines that are asked for seeds where none are given; what is wrong with their file is told on starting."""
    with suppress(ConfigError):
        return list(own_engines())
    return []


def start(desk: Desk, asked: Asked) -> View | Done:
    """Check what was given; begin the collection and its crawl, or say what is wrong on the form."""
    values = asked.values
    try:
        settings = _with_sources(resolve(_tree(values), "new crawl"))
        check(settings)
        if values["do"] == "check":
            return _form(values, "", checked=_told(settings))
        settings, found = asyncio.run(begin_with(settings))
        folder = desk.shelf.fresh(settings.topic.name)
        asyncio.run(launch(folder, settings, found))
    except (UsageError, CollectionError, SeedError) as error:
        return _form(values, str(error))
    name = desk.shelf.add(folder)
    said = f"The crawl has begun, in {folder}.{_brought(found)}"
    return Done(said=said, back=f"/c/{name}", data={"name": name, "seeds": len(settings.seeds.urls)})


def _with_sources(settings: Settings) -> Settings:
    """The settings with addresses to begin at, or engines that can be asked for some."""
    if settings.seeds.urls:
        return with_checked_seeds(settings)
    settings = with_engines(settings)
    if not settings.seeds.engines:
        raise ConfigError(f"no seeds: give at least one address to begin at, one a line,\n{or_name_an_engine()}")
    return settings


def _told(settings: Settings) -> str:
    stop = f"{settings.stop.pages} pages" if settings.stop.pages else "no page limit"
    number, engines = len(settings.seeds.urls), ", ".join(settings.seeds.engines)
    seeds = f"{number} seeds" if number else f"seeds from {engines}"
    return f"This can begin: strategy {settings.strategy}, {seeds}, {stop}."


def _brought(found: Found) -> str:
    """What engines brought, and who of them failed."""
    if not found.seeds:
        return ""
    failed = "".join(f" {problem}." for problem in found.problems)
    return f" {len(found.seeds)} seeds from {', '.join(found.voters) or 'lists'}.{failed}"


def _tree(values: dict[str, Any]) -> Tree:
    try:
        more = tomllib.loads(values["toml"])
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"more settings: is not valid TOML: {error}") from error
    seeds = [line.strip() for line in values["seeds"].splitlines() if line.strip()]
    tree: Tree = {
        "strategy": values["strategy"],
        "topic": {"name": values["topic"], "description": values["description"]},
        "stop": {"pages": values["pages"], "minutes": values["minutes"], "relevant": values["relevant"]},
        "politeness": {"delay_s": values["delay"]},
    }
    if keywords := keywords_of(values["keywords"]):
        tree["topic"]["keywords"] = keywords
    if seeds:
        tree["seeds"] = {"urls": seeds}
    return merged(tree, more)


_PARAMS = (
    Param(name="topic", about="The topic, as a sentence."),
    Param(name="description", about="More words about it."),
    Param(name="keywords", about="Words, one a line, perhaps weighted: wren = 0.8", most=200_000),
    Param(name="seeds", about="Addresses to begin at, one a line; left empty, engines are asked.", most=200_000),
    Param(name="strategy", about="How to crawl.", kind="choice", choices=tuple(strategies()), default="opilio"),
    Param(
        name="pages", about="Stop after so many pages (0: no limit).", kind="integer", default=1000, least=0, most=10**9
    ),
    Param(name="relevant", about="Stop after so many relevant pages (0: off).", kind="integer", default=0, least=0),
    Param(name="minutes", about="Stop after so many minutes (0: off).", kind="number", default=0.0, least=0),
    Param(
        name="delay", about="Seconds between two requests to a host.", kind="number", default=1.0, least=0, most=3600
    ),
    Param(name="toml", about="Any other settings, as TOML.", most=200_000),
)
PAGES = (
    Page(
        path="/new",
        show=new,
        about="The form for a new crawl.",
        params=(*_PARAMS, NOTE),
        table=False,
    ),
)
ACTIONS = (
    Action(
        path="/new",
        act=start,
        about="Start a crawl in a new collection.",
        params=(
            *_PARAMS,
            Param(
                name="do", about="Check it only, or start it.", kind="choice", choices=("check", "start"), required=True
            ),
        ),
    ),
)
