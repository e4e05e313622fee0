"""`opilio tgraph`: build a T-Graph from target pages and whoever links to them, and look at one."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.options import AsJson, print_json, print_text
from opilio.crawl.config import Settings
from opilio.crawl.tgraphs import maker_for, read_graph, stored_graph
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
    links: Annotated[Path, typer.Option(metavar="DIR", help="A collection or a web: its links are followed back.")],
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
    web = Web.open(links)
    known = WebLinks(web, ParsedPages.open(web, processes=cores()))
    targets, missing = usable(target, known)
    for url in missing:
        sys.stderr.write(f"opilio: skipped: --target {url}: is not among the pages of {links}\n")
    settings = Settings()
    settings.topic.around, settings.topic.language = "paragraph", language
    bounds = Bounds(depth=depth, parents=parents, per_level=per_level, per_page=per_page)
    portals = [canonical(url) or url for url in portal or ()]
    graph = graph_from(known, maker_for(settings, known.page), targets, bounds, portals)
    if not len(graph):
        raise UsageError("--portal: no way of so few links leads from there to a target; give another, or more --depth")
    _save(out, encode(graph), "--out")
    _draw(graph, svg)
    _tell(graph, json, {"out": str(out), "missing": missing})
    return 0


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
