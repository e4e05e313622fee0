"""`opilio topic dewey`: the D-numbers of a text or a page, as text, JSON or a figure."""

import asyncio
import sys
from pathlib import Path
from textwrap import shorten
from typing import Annotated, Literal

import typer
from msgspec.structs import replace

from opilio.cli.options import JsonOption, print_json, print_text
from opilio.core.errors import UsageError
from opilio.core.records import Page
from opilio.core.settings import Settings
from opilio.engine.wiring.fetcher import build_fetcher
from opilio.engine.wiring.topic_files import read_page
from opilio.manage.dewey_view import build_dewey_view, dewey_view_to_dict, format_classes, format_links
from opilio.methods.dewey.judge import WEIGHTING_RULES
from opilio.methods.dewey.plots import draw_dots
from opilio.methods.dewey.plots import plot_dots as draw


def dewey(
    text: Annotated[
        str, typer.Argument(metavar="TEXT|URL", help="A text, or a page's address; `-`: stdin.", show_default=False)
    ] = "",
    file: Annotated[Path | None, typer.Option(help="A saved page or text instead.")] = None,
    lexicon: Annotated[Path | None, typer.Option(help="A lexicon of your own.")] = None,
    lexicon_use: Annotated[
        Literal["add", "instead", "other-scheme"], typer.Option(help="What it does: topic.lexicon_use.")
    ] = "add",
    weighing: Annotated[Literal["ours", "paper"], typer.Option(help="How words count: judge.weighing.")] = "ours",
    max_length: Annotated[int, typer.Option(min=1, help="Digits of a number that are used.")] = 6,
    top: Annotated[int, typer.Option(min=1, help="How many classes to name.")] = 5,
    links: Annotated[bool, typer.Option("--links", help="Also the class of every link of the page.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Draw the dots into this file, .svg or .png.")] = None,
    proxy: Annotated[str, typer.Option(help="Fetch the URL through this proxy.")] = "",
    allow_private: Annotated[bool, typer.Option(help="Allow private and loopback addresses.")] = False,
    json: JsonOption = False,
) -> int:
    """Show the Dewey numbers of a text or a page: its dots, their densest area (the galaxy) and the classes."""
    settings = Settings()
    settings.topic.lexicon_file, settings.topic.lexicon_use = str(lexicon or ""), lexicon_use
    settings.fetch.proxy, settings.fetch.allow_private = proxy, allow_private
    page = _page(text, file, settings)
    view = build_dewey_view(page, settings, replace(WEIGHTING_RULES[weighing], max_length=max_length))
    if plot:
        draw(view.dots, view.galaxy, view.lexicon, plot, page.title or shorten(page.flow, 80, placeholder=" …"))
        sys.stderr.write(f"{plot}: written\n")
    if json:
        print_json(dewey_view_to_dict(view, top))
        return 0
    print_text(draw_dots(view.dots, view.galaxy))
    if view.galaxy.code:
        print_text("\n" + "\n".join(format_classes(view, top)))
    if links and view.links:
        print_text("\n" + "\n".join(format_links(view)))
    return 0


def _page(text: str, file: Path | None, settings: Settings) -> Page:
    if bool(text) == (file is not None):
        raise UsageError("give either TEXT, a URL or --file; `-` reads stdin")
    if file is not None or "://" in text.partition(" ")[0]:
        place, option = (str(file), "--file") if file else (text, "URL")
        return asyncio.run(_fetch_page(place, option, settings))
    said = sys.stdin.read() if text == "-" else text
    return Page(url="", flow=said)


async def _fetch_page(place: str, option: str, settings: Settings) -> Page:
    fetcher = build_fetcher(settings)
    try:
        return await read_page(place, fetcher, option)
    finally:
        await fetcher.close()
