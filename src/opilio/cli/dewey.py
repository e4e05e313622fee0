"""`opilio topic dewey`: the Dewey classes of a text or a page, as text, JSON or a figure."""

import asyncio
import sys
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from opilio.cli.options import JsonOption, print_json, print_message, print_text

if TYPE_CHECKING:
    from opilio.core.page import Page
    from opilio.core.settings import Settings


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
    from opilio.manage.dewey_view import build_dewey_view, dewey_view_to_dict, format_classes, format_links
    from opilio.methods.dewey.judge import WEIGHTING_RULES
    from opilio.methods.dewey.plots import draw_dots, plot_dots

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
    from opilio.core.page import Page

    if bool(text) == (file is not None):
        raise UsageError("give either a text, a URL or --file; `-` reads stdin")
    if file is not None or "://" in text.partition(" ")[0]:
        place, option = (str(file), "--file") if file else (text, "URL")
        return asyncio.run(_fetch_page(place, option, settings))
    return Page(url="", flow=sys.stdin.read() if text == "-" else text)


async def _fetch_page(place: str, option: str, settings: "Settings") -> "Page":
    from opilio.engine.wiring.fetcher import build_fetcher
    from opilio.engine.wiring.topic_files import read_page

    fetcher = build_fetcher(settings)
    try:
        return await read_page(place, fetcher, option)
    finally:
        await fetcher.close()
