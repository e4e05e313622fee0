"""`opilio tgraph`: build a T-Graph from target pages and whoever links to them, and look at one."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.options import AsJson, print_json, print_text
from opilio.crawl.backcrawl import QUERY, gather
from opilio.crawl.config import Settings, Tree, merged, resolve, setting
from opilio.crawl.seeding import no_engines, with_engines
from opilio.crawl.tgraphs import maker_for, read_graph, stored_graph
from opilio.crawl.topics import check_language
from opilio.crawl.workers import cores
from opilio.lab.backlinks import WebLinks, graph_from, usable
from opilio.lab.pages import ParsedPages
from opilio.lab.web import Web
from opilio.model.errors import UsageError
from opilio.model.urls import canonical
from opilio.tgraph.file import encode
from opilio.tgraph.graph import TGraph
from opilio.tgraph.layers import Bounds
from opilio.tgraph.picture import as_svg, as_text

app = typer.Typer(help="T-Graphs: build one from target pages, look at one.", no_args_is_help=True)
Picture = Annotated[Path | None, typer.Option("--svg", help="Draw it into this file.")]


@app.command("build")
def build_graph(
    target: Annotated[list[str], typer.Option(help="The address of a page that is wanted; may be repeated.")],
    links: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A collection or a web: its links are followed back.")
    ] = None,
    search: Annotated[
        bool, typer.Option("--search", help="Ask search engines who links there, and fetch that.")
    ] = False,
    engine: Annotated[list[str] | None, typer.Option(help="With --search: only this engine; may be repeated.")] = None,
    query: Annotated[str, typer.Option(help="With --search: what engines are asked; {url} is the page.")] = QUERY,
    into: Annotated[Path, typer.Option(metavar="DIR", help="With --search: the collection to fetch into.")] = Path(
        "tgraph-pages"
    ),
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="With --search: any setting of a crawl.")
    ] = None,
    portal: Annotated[
        list[str] | None, typer.Option(help="Build top-down from this page instead; may be repeated.")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, max=9, help="Levels above the targets.")] = 3,
    parents: Annotated[int, typer.Option(min=0, help="Back-links followed of one page; 0: all.")] = 10,
    per_level: Annotated[int, typer.Option(min=0, help="Pages of one level; 0: any number.")] = 300,
    per_page: Annotated[int, typer.Option(min=0, help="Nodes that one page may own; 0: any number.")] = 4,
    language: Annotated[str, typer.Option(help="Language of the pages.")] = "english",
    out: Annotated[Path, typer.Option(help="The file to write, for rank.graph.")] = Path("tgraph.json"),
    svg: Picture = None,
    json: AsJson = False,
) -> int:
    """Build a T-Graph bottom-up from target pages through back-links, or top-down from portals."""
    if out.exists():
        raise UsageError(f"--out {out}: is there already; choose another name")
    if search == (links is not None):
        raise UsageError("give --links DIR or --search: back-links of pages we have, or of search engines")
    check_language(language, "--language")
    bounds = Bounds(depth=depth, parents=parents, per_level=per_level, per_page=per_page)
    if links is None:
        asyncio.run(gather(into, _settings(engine, set_, language), _addresses(target), bounds, _say, query))
    graph, missing = _built(links or into, target, portal or [], bounds, language)
    _save(out, encode(graph), "--out")
    _draw(graph, svg)
    _tell(graph, json, {"out": str(out), "missing": missing})
    return 0


def _built(
    folder: Path, target: list[str], portal: list[str], bounds: Bounds, language: str
) -> tuple[TGraph, list[str]]:
    """The graph of a collection or web, and the targets that are not there."""
    web = Web.open(folder)
    known = WebLinks(web, ParsedPages.open(web, processes=cores()))
    targets, missing = usable(target, known)
    for url in missing:
        _say(f"opilio: skipped: --target {url}: is not among the pages of {folder}")
    settings = Settings()
    settings.topic.around, settings.topic.language = "paragraph", language
    portals = [canonical(url) or url for url in portal]
    graph = graph_from(known, maker_for(settings, known.page), targets, bounds, portals)
    if not len(graph):
        raise UsageError("--portal: no way of so few links leads from there to a target; give another, or more --depth")
    return graph, missing


@app.command("show")
def show(
    place: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A T-Graph, or a collection.", show_default=False)],
    svg: Picture = None,
    json: AsJson = False,
) -> int:
    """Print a T-Graph: a file, or what the watchdog of a crawl made of it."""
    graph, version = stored_graph(place) if place.is_dir() else (read_graph(place), 0)
    _draw(graph, svg)
    _tell(graph, json, {"version": version})
    return 0


def _settings(engines: list[str] | None, sets: list[str] | None, language: str) -> Settings:
    """A crawl that only fetches what it is told to, with the engines of the person."""
    tree: Tree = {"strategy": "best-first", "topic": {"name": "pages that link to targets", "language": language}}
    for text in sets or ():
        tree = merged(tree, setting(text))
    settings = with_engines(resolve(tree, "tgraph"), engines or [])
    if not settings.seeds.engines:
        raise no_engines()
    return settings


def _addresses(targets: list[str]) -> list[str]:
    found = [canonical(url) if "://" in url else None for url in targets]
    if None in found:
        raise UsageError(f"--target {targets[found.index(None)]}: is no http or https URL; write it whole")
    return [url for url in found if url]


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _tell(graph: TGraph, json: bool, more: dict[str, object]) -> None:
    if not json:
        print_text(as_text(graph))
        return
    levels = [len(graph.at_level(level)) for level in range(graph.depth + 1)]
    pages = len({node.url for node in graph.nodes.values()})
    print_json({**more, "nodes": len(graph), "pages": pages, "edges": len(graph.edges), "levels": levels})


def _draw(graph: TGraph, path: Path | None) -> None:
    if path is not None:
        _save(path, as_svg(graph).encode(), "--svg")


def _save(path: Path, data: bytes, option: str) -> None:
    """Written whole or not at all: a crawl may be about to read it."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: can't be written: {error.strerror}") from error
