"""`opilio tgraph`: build a T-Graph from target pages and whoever links to them, and look at one."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from opilio.cli.options import JsonOption, print_json, print_text
from opilio.core.errors import UsageError
from opilio.core.settings import Settings, Tree, merge_trees, parse_setting
from opilio.core.urls import canonicalize_url
from opilio.engine.wiring.seeding import no_engines_error, with_engines
from opilio.engine.workers import available_cpus
from opilio.lab.experiments.runs import WebLinks, build_tgraph, resolve_targets
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.web import WarcWeb
from opilio.manage.backlink_crawl import BACKLINK_QUERY, crawl_backlinks
from opilio.methods.treasure.build import GraphLimits
from opilio.methods.treasure.graph import TGraph, encode_graph
from opilio.methods.treasure.graph_builder import build_graph_builder, load_collection_graph, read_graph
from opilio.methods.treasure.picture import graph_as_svg, graph_as_text
from opilio.topic.setup import check_language, resolve_settings

app = typer.Typer(help="T-Graphs: build one from target pages, look at one.", no_args_is_help=True)
SvgOption = Annotated[Path | None, typer.Option("--svg", help="Draw it into this file.")]


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
    query: Annotated[
        str, typer.Option(help="With --search: what engines are asked; {url} is the page.")
    ] = BACKLINK_QUERY,
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
    svg: SvgOption = None,
    json: JsonOption = False,
) -> int:
    """Build a T-Graph bottom-up from target pages through back-links, or top-down from portals."""
    if out.exists():
        raise UsageError(f"--out {out}: is there already; choose another name")
    if search == (links is not None):
        raise UsageError("give --links DIR or --search: back-links of pages we have, or of search engines")
    check_language(language, "--language")
    bounds = GraphLimits(depth=depth, parents_per_page=parents, per_level=per_level, links_per_page=per_page)
    if links is None:
        asyncio.run(
            crawl_backlinks(
                into, _settings(engine, set_, language), _canonical_targets(target), bounds, _print_stderr, query
            )
        )
    graph, missing = _build_from_links(links or into, target, portal or [], bounds, language)
    _write_atomically(out, encode_graph(graph), "--out")
    _write_svg(graph, svg)
    _print_graph(graph, json, {"out": str(out), "missing": missing})
    return 0


def _build_from_links(
    folder: Path, target: list[str], portal: list[str], bounds: GraphLimits, language: str
) -> tuple[TGraph, list[str]]:
    """The graph of a collection or web, and the targets that are not there."""
    web = WarcWeb.open(folder)
    known = WebLinks(web, ParsedPages.open(web, processes=available_cpus()))
    targets, missing = resolve_targets(target, known)
    for url in missing:
        _print_stderr(f"opilio: skipped: --target {url}: is not among the pages of {folder}")
    settings = Settings()
    settings.topic.around, settings.topic.language = "paragraph", language
    portals = [canonicalize_url(url) or url for url in portal]
    graph = build_tgraph(known, build_graph_builder(settings, known.page), targets, bounds, portals)
    if not len(graph):
        raise UsageError("--portal: no way of so few links leads from there to a target; give another, or more --depth")
    return graph, missing


@app.command("show")
def show(
    place: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="A T-Graph, or a collection.", show_default=False)],
    svg: SvgOption = None,
    json: JsonOption = False,
) -> int:
    """Print a T-Graph: a file, or what the watchdog of a crawl made of it."""
    graph, version = load_collection_graph(place) if place.is_dir() else (read_graph(place), 0)
    _write_svg(graph, svg)
    _print_graph(graph, json, {"version": version})
    return 0


def _settings(engines: list[str] | None, sets: list[str] | None, language: str) -> Settings:
    """A crawl that only fetches what it is told to, with the engines of the person."""
    tree: Tree = {"strategy": "best-first", "topic": {"name": "pages that link to targets", "language": language}}
    for text in sets or ():
        tree = merge_trees(tree, parse_setting(text))
    settings = with_engines(resolve_settings(tree, "tgraph"), engines or [])
    if not settings.seeds.engines:
        raise no_engines_error()
    return settings


def _canonical_targets(targets: list[str]) -> list[str]:
    found = [canonicalize_url(url) if "://" in url else None for url in targets]
    if None in found:
        raise UsageError(f"--target {targets[found.index(None)]}: is no http or https URL; write it whole")
    return [url for url in found if url]


def _print_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _print_graph(graph: TGraph, json: bool, more: dict[str, object]) -> None:
    if not json:
        print_text(graph_as_text(graph))
        return
    levels = [len(graph.at_level(level)) for level in range(graph.depth + 1)]
    pages = len({node.url for node in graph.nodes.values()})
    print_json({**more, "nodes": len(graph), "pages": pages, "edges": len(graph.edges), "levels": levels})


def _write_svg(graph: TGraph, path: Path | None) -> None:
    if path is not None:
        _write_atomically(path, graph_as_svg(graph).encode(), "--svg")


def _write_atomically(path: Path, data: bytes, option: str) -> None:
    """Written whole or not at all: a crawl may be about to read it."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(data)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"{option} {path}: can't be written: {error.strerror}") from error
