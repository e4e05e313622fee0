"""`opilio topic seeds`: ask the configured search engines for seeds, and show which engine named which URL."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from opilio.cli.options import ConfigOption, EngineOption, JsonOption, SetOption, print_json, print_message, print_text

if TYPE_CHECKING:
    from opilio.core.records import Seed
    from opilio.core.settings import Settings
    from opilio.seeds.finder import FoundSeeds, SeedRequest

Texts = list[str] | None


def seeds(
    topic: Annotated[str, typer.Argument(help="The topic: what the engines are asked for.", show_default=False)] = "",
    engine: EngineOption = None,
    genre: Annotated[Texts, typer.Option(help="Ask for news, discussions, blogs or web. Repeatable.")] = None,
    agree: Annotated[
        Literal["any", "two", "all"] | None, typer.Option(help="How many engines must name a URL.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="URLs wanted from each engine.")] = None,
    irrelevant: Annotated[bool, typer.Option("--irrelevant", help="Find pages off the topic, for training.")] = False,
    off_topic: Annotated[Texts, typer.Option(help="With --irrelevant: your own query. Repeatable.")] = None,
    config: ConfigOption = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a seed file, for crawl --seeds.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Ignore the cache of today's answers.")] = False,
    set_: SetOption = None,
    json: JsonOption = False,
) -> int:
    """Ask search engines for seeds.

    Prints priority, votes, URL and the engines that named it.
    """
    from opilio.cli.settings_options import merge_options
    from opilio.core.errors import ConfigError, SeedError
    from opilio.core.files import pluralize, require_new_file, write_output
    from opilio.engine.reseeding import build_seed_request
    from opilio.engine.wiring.seeding import no_engines_error, no_results_message, with_default_engines
    from opilio.seeds.local import format_seeds
    from opilio.topic.setup import resolve_settings

    require_new_file("--out", out)
    tree = merge_options(
        {"topic": {"name": topic or None}, "seeds": {"agree": agree, "limit": limit}}, set_ or [], config
    )
    settings = with_default_engines(resolve_settings(tree, str(config) if config else "seeds"), engine or [])
    _check_genres(settings, genre or settings.topic.genres)
    request = build_seed_request(settings, genre or [])
    if not request.query:
        raise ConfigError('no topic: give one as a sentence, for example: opilio topic seeds "sign languages"')
    if not settings.seeds.engines:
        raise no_engines_error()
    found = asyncio.run(_find_seeds(settings, request, off_topic or [] if irrelevant else None, fresh))
    if not found.seeds:
        raise SeedError(no_results_message(found, request))
    for problem in found.problems:
        print_message(str(problem))
    if out is not None:
        heading = f"{'off the topic' if irrelevant else 'seeds for'}: {request.query}"
        write_output("--out", out, format_seeds(found.seeds, heading).encode())
        print_message(f"{pluralize(len(found.seeds), 'seed')} written to {out}; use: opilio crawl --seeds {out}")
    _print_seeds(found, request, json)
    return 0


async def _find_seeds(
    settings: "Settings", request: "SeedRequest", off_topic: list[str] | None, fresh: bool
) -> "FoundSeeds":
    from opilio.engine.wiring.seeding import find_configured_irrelevant_seeds, find_configured_seeds

    if off_topic is None:
        return await find_configured_seeds(settings, request, fresh=fresh)
    return await find_configured_irrelevant_seeds(settings, request, off_topic, fresh=fresh)


def _check_genres(settings: "Settings", wanted: Sequence[str]) -> None:
    from opilio.core.errors import ConfigError
    from opilio.core.settings_input import suggest_name
    from opilio.topic.setup import load_genre_definitions

    known = ["web", *load_genre_definitions(settings)]
    for name in wanted:
        if name not in known:
            raise ConfigError(f"--genre {name}: unknown{suggest_name(name, known)}; known: {', '.join(known)}")


def _print_seeds(found: "FoundSeeds", request: "SeedRequest", json: bool) -> None:
    if json:
        import msgspec

        rows = [{**msgspec.to_builtins(seed), "votes": _votes(seed, found)} for seed in found.seeds]
        problems = [{"engine": p.engine, **msgspec.to_builtins(p.failure)} for p in found.problems]
        print_json({"query": request.query, "voters": found.voters, "seeds": rows, "problems": problems})
        return
    for seed in found.seeds:
        genre = f"  [{seed.genre}]" if seed.genre else ""
        votes = f"{_votes(seed, found)}/{len(found.voters)}"
        print_text(f"{seed.priority}  {votes:>5}  {seed.url}  {', '.join(seed.sources)}{genre}")


def _votes(seed: "Seed", found: "FoundSeeds") -> int:
    return len(set(seed.sources) & set(found.voters))
