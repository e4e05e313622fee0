"""`opilio seeds`: ask the configured engines where to begin, and show who named what."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer

from opilio.cli.options import JsonOption, print_json, print_text
from opilio.core.errors import ConfigError, SeedError, UsageError
from opilio.core.records import Seed
from opilio.core.settings import Settings, Tree, merge_trees, parse_setting, read_settings, suggest_name
from opilio.engine.reseeding import build_seed_request
from opilio.engine.wiring.seeding import (
    find_configured_irrelevant_seeds,
    find_configured_seeds,
    no_engines_error,
    no_results_message,
    with_engines,
)
from opilio.seeds.finder import FoundSeeds, SeedRequest
from opilio.seeds.local import format_seeds
from opilio.topic.setup import load_genre_definitions, resolve_settings

Texts = list[str] | None


def seeds(
    topic: Annotated[str, typer.Argument(help="The topic: what engines are asked.", show_default=False)] = "",
    engine: Annotated[Texts, typer.Option(help="Ask only this engine, by its name or kind; may be repeated.")] = None,
    genre: Annotated[Texts, typer.Option(help="Ask for news, discussions, blogs or web; may be repeated.")] = None,
    agree: Annotated[
        Literal["any", "two", "all"] | None, typer.Option(help="Keep what any, two or all engines name.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Addresses wanted of each engine.")] = None,
    irrelevant: Annotated[bool, typer.Option("--irrelevant", help="Find pages off the topic, for training.")] = False,
    off_topic: Annotated[Texts, typer.Option(help="With --irrelevant: a query of your own.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with any of the settings.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a seed file, for crawl --seeds.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ask again what was asked today.")] = False,
    set_: Annotated[Texts, typer.Option("--set", help="Any setting: seeds.limit=10")] = None,
    json: JsonOption = False,
) -> int:
    """Ask search engines where to begin: a table of addresses by priority, with who named them."""
    if out is not None and out.exists():
        raise UsageError(f"--out {out}: is there already; choose another name")
    tree = _tree(topic, {"agree": agree, "limit": limit}, set_ or [], config)
    settings = with_engines(resolve_settings(tree, str(config) if config else "seeds"), engine or [])
    _check_genres(settings, genre or settings.topic.genres)
    wish = build_seed_request(settings, genre or [])
    if not wish.query:
        raise ConfigError('no topic: give one as a sentence, for example: opilio seeds "sign languages"')
    if not settings.seeds.engines:
        raise no_engines_error()
    found = asyncio.run(_find_seeds(settings, wish, off_topic or [] if irrelevant else None, fresh))
    for problem in found.problems if found.seeds else ():
        sys.stderr.write(f"{problem}\n")
    if not found.seeds:
        raise SeedError(no_results_message(found, wish))
    if out is not None:
        _write(out, format_seeds(found.seeds, f"{'off the topic' if irrelevant else 'seeds for'}: {wish.query}"))
        sys.stderr.write(f"{len(found.seeds)} seeds written to {out}; use: opilio crawl --seeds {out}\n")
    _print_seeds(found, wish, json)
    return 0


async def _find_seeds(settings: Settings, wish: SeedRequest, off_topic: list[str] | None, fresh: bool) -> FoundSeeds:
    if off_topic is None:
        return await find_configured_seeds(settings, wish, fresh=fresh)
    return await find_configured_irrelevant_seeds(settings, wish, off_topic, fresh=fresh)


def _tree(topic: str, given: dict[str, Any], sets: list[str], config: Path | None) -> Tree:
    tree: Tree = {"seeds": {name: value for name, value in given.items() if value is not None}}
    if topic:
        tree["topic"] = {"name": topic}
    for text in sets:
        tree = merge_trees(tree, parse_setting(text))
    return merge_trees(read_settings(config), tree) if config else tree


def _check_genres(settings: Settings, wanted: Sequence[str]) -> None:
    known = ["web", *load_genre_definitions(settings)]
    for name in wanted:
        if name not in known:
            raise ConfigError(f"--genre {name}: is unknown{suggest_name(name, known)}; known: {', '.join(known)}")


def _print_seeds(found: FoundSeeds, wish: SeedRequest, json: bool) -> None:
    if json:
        rows = [{**msgspec.to_builtins(seed), "votes": _votes(seed, found)} for seed in found.seeds]
        problems = [{"engine": p.engine, **msgspec.to_builtins(p.failure)} for p in found.problems]
        print_json({"query": wish.query, "voters": found.voters, "seeds": rows, "problems": problems})
        return
    for seed in found.seeds:
        genre = f"  [{seed.genre}]" if seed.genre else ""
        votes = f"{_votes(seed, found)}/{len(found.voters)}"
        print_text(f"{seed.priority}  {votes:>5}  {seed.url}  {', '.join(seed.sources)}{genre}")


def _votes(seed: Seed, found: FoundSeeds) -> int:
    return len(set(seed.sources) & set(found.voters))


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: can't be written: {error.strerror}") from error
