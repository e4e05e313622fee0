"""`opilio topic seeds` and `opilio topic dewey`: what engines and the Dewey classification know about a topic."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from opilio.cli.options import ConfigOption, EngineOption, JsonOption, SetOption, print_json, print_message, print_text

if TYPE_CHECKING:
    from opilio.core.records import Page, Seed
    from opilio.core.settings import Settings
    from opilio.seeds.finder import FoundSeeds, SeedRequest


def dewey(
    text: Annotated[
        str, typer.Argument(metavar="TEXT|URL", help="A text, a URL, or `-` for stdin.", show_default=False)
    ] = "",
    file: Annotated[Path | None, typer.Option(metavar="FILE", help="A saved page or text instead.")] = None,
    lexicon: Annotated[Path | None, typer.Option(metavar="FILE", help="Your own lexicon.")] = None,
    lexicon_use: Annotated[
        Literal["add", "instead", "other-scheme"], typer.Option(help="How the lexicon is used (topic.lexicon_use).")
    ] = "add",
    weighing: Annotated[
        Literal["ours", "paper"], typer.Option(help="How words are weighted (judge.weighing).")
    ] = "ours",
    max_length: Annotated[int, typer.Option(min=1, help="Digits of a number that are used.")] = 6,
    top: Annotated[int, typer.Option(min=1, help="How many classes to print.")] = 5,
    links: Annotated[bool, typer.Option("--links", help="Also print the class of every link.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the dots into this .svg or .png file.")
    ] = None,
    proxy: Annotated[str, typer.Option(metavar="URL", help="Fetch the URL through this proxy.")] = "",
    allow_private: Annotated[bool, typer.Option(help="Allow private and loopback addresses.")] = False,
    json: JsonOption = False,
) -> int:
    """Show the Dewey classes of a text or a page.

    Prints the Dewey numbers of its words as dots, the densest area of the dots (the galaxy) and the classes.
    """
    from msgspec.structs import replace

    from opilio.core.settings import Settings
    from opilio.methods.dewey.judge import WEIGHTING_RULES
    from opilio.methods.dewey.view import (
        build_dewey_view,
        dewey_view_to_dict,
        draw_dots,
        format_classes,
        format_links,
        plot_dots,
    )

    settings = Settings()
    settings.topic.lexicon_file, settings.topic.lexicon_use = str(lexicon or ""), lexicon_use
    settings.fetch.proxy, settings.fetch.allow_private = proxy, allow_private
    page = _page(text, file, settings)
    view = build_dewey_view(page, settings, replace(WEIGHTING_RULES[weighing], max_length=max_length))
    if plot:
        plot_dots(view.dots, view.galaxy, view.lexicon, plot, page.title or shorten(page.flow, 80, placeholder=" …"))
        print_message(f"{plot}: written")
    if json:
        print_json(dewey_view_to_dict(view, top))
        return 0
    print_text(draw_dots(view.dots, view.galaxy))
    if view.galaxy.code:
        print_text("\n" + "\n".join(format_classes(view, top)))
    if links and view.links:
        print_text("\n" + "\n".join(format_links(view)))
    return 0


def _page(text: str, file: Path | None, settings: "Settings") -> "Page":
    from opilio.core.errors import UsageError
    from opilio.core.records import Page

    if bool(text) == (file is not None):
        raise UsageError("give either a text, a URL or --file; `-` reads stdin")
    if file is not None or "://" in text.partition(" ")[0]:
        place, option = (str(file), "--file") if file else (text, "URL")
        return asyncio.run(_fetch_page(place, option, settings))
    return Page(url="", flow=sys.stdin.read() if text == "-" else text)


async def _fetch_page(place: str, option: str, settings: "Settings") -> "Page":
    from opilio.engine.wiring.fetcher import build_fetcher
    from opilio.engine.wiring.topic import read_page

    fetcher = build_fetcher(settings)
    try:
        return await read_page(place, fetcher, option)
    finally:
        await fetcher.close()


Texts = list[str] | None


def seeds(
    topic: Annotated[str, typer.Argument(help="The topic, as a sentence.", show_default=False)] = "",
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
    from opilio.cli.crawl_run import merge_options
    from opilio.core.display import pluralize
    from opilio.core.errors import ConfigError, SeedError
    from opilio.core.files import require_new_file, write_output
    from opilio.engine.reseeding import build_seed_request
    from opilio.engine.wiring.seeding import no_engines_error, no_results_message, with_default_engines
    from opilio.seeds.url_lists import format_seeds
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
    from opilio.core.settings import suggest_name
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
