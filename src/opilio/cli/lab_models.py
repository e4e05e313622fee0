"""`opilio lab train` and `opilio lab tgraph`: train the learners of S1, build and show the T-Graphs of S2."""

import asyncio
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opilio.cli.options import (
    EngineOption,
    JsonOption,
    SetOption,
    parse_place,
    print_json,
    print_message,
    print_text,
)
from opilio.core.display import pluralize
from opilio.core.errors import UsageError
from opilio.core.files import require_new_file, write_output

if TYPE_CHECKING:
    from opilio.core.settings import Settings
    from opilio.manage.train_attributes import TrainingResult
    from opilio.methods.treasure.build import GraphLimits
    from opilio.methods.treasure.graph import TGraph

ALL_LEARNERS = "all"


def train(
    source: Annotated[
        Path, typer.Argument(metavar="DIR|CSV", show_default=False, help="A collection, or a CSV file of rows.")
    ],
    learner: Annotated[str, typer.Option(metavar="NAME", help="bayes, tree, neural or all.")] = ALL_LEARNERS,
    export: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the training set as CSV.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to store the learners; default: model.json in the collection."),
    ] = None,
    json: JsonOption = False,
) -> int:
    """Train and test the learners of the s1 strategies.

    They predict from a link whether it leads to a relevant page. Other crawls can start with them.
    """
    from opilio.cli.training_report import format_report
    from opilio.manage.train_attributes import train as train_learners
    from opilio.methods.attributes.learner import LEARNER_NAMES
    from opilio.methods.attributes.ranker import MODEL_FILE

    if learner not in (*LEARNER_NAMES, ALL_LEARNERS):
        raise UsageError(f"--learner {learner}: unknown; known: {', '.join((*LEARNER_NAMES, ALL_LEARNERS))}")
    _check_outputs(export, out)
    trained = train_learners(source, LEARNER_NAMES if learner == ALL_LEARNERS else (learner,))
    if export is not None:
        write_output("--export", export, _rows(trained))
        print_message(f"{pluralize(len(trained.rows), 'row')} written to {export}")
    place = out or (source / MODEL_FILE if source.is_dir() else None)
    if place is not None:
        write_output("--out", place, trained.to_model_file())
        usage = f"--strategy s1-{trained.learners[0].name} --set rank.model={place}"
        print_message(f"learners written to {place}; use: {usage}")
    if json:
        print_json(_report_data(trained, place))
    else:
        print_text(format_report(trained))
    return 0


def _check_outputs(export: Path | None, out: Path | None) -> None:
    """Before the training: both files can be written and are different."""
    for option, path in (("--export", export), ("--out", out)):
        require_new_file(option, path)
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{option} {path}: can't be written: {path.parent} is not a folder")
    if export is not None and out is not None and export.resolve() == out.resolve():
        raise UsageError(f"--export {export}: the same file as --out; choose another name")


def _rows(trained: "TrainingResult") -> bytes:
    from opilio.methods.attributes.features import write_rows

    text = io.StringIO(newline="")
    write_rows(trained.rows, text)
    return text.getvalue().encode("utf-8", "replace")


def _report_data(trained: "TrainingResult", place: Path | None) -> dict[str, Any]:
    import msgspec

    from opilio.methods.attributes.training import PAPER_PRECISION

    trial = trained.trial
    facts: dict[str, Any] = msgspec.to_builtins(trial)
    facts |= {
        "kept_rows": trained.learners[0].row_count,
        "prior": trial.prior,
        "table": trained.table.weights,
        "model": str(place or ""),
    }
    facts["paper_precision"] = {name: PAPER_PRECISION[name] for name in trial.results}
    return facts


SvgOption = Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Draw the graph into this file.")]


def build_graph(
    target: Annotated[list[str], typer.Option(metavar="URL", help="A page that is wanted. Repeatable.")],
    links: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Follow the links of this collection or web back.")
    ] = None,
    search: Annotated[bool, typer.Option("--search", help="Ask search engines for back-links and fetch them.")] = False,
    engine: EngineOption = None,
    query: Annotated[str, typer.Option(help="With --search: the query; {url} is replaced by the page.")] = "",
    into: Annotated[Path, typer.Option(metavar="DIR", help="With --search: the collection to fetch into.")] = Path(
        "tgraph-pages"
    ),
    set_: SetOption = None,
    portal: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="Build top-down from this page instead. Repeatable.")
    ] = None,
    depth: Annotated[int, typer.Option(min=1, max=9, help="Levels above the targets.")] = 3,
    parents: Annotated[int, typer.Option(min=0, help="Back-links followed per page (0: all).")] = 10,
    per_level: Annotated[int, typer.Option(min=0, help="Pages per level (0: no limit).")] = 300,
    per_page: Annotated[int, typer.Option(min=0, help="Nodes per page (0: no limit).")] = 4,
    language: Annotated[str, typer.Option(help="Language of the pages.")] = "english",
    out: Annotated[Path, typer.Option(metavar="FILE", help="The file to write, for rank.graph.")] = Path("tgraph.json"),
    svg: SvgOption = None,
    json: JsonOption = False,
) -> int:
    """Build a T-Graph from target pages and their back-links.

    Bottom-up from the targets, or top-down from --portal pages.
    """
    from opilio.manage.backlink_crawl import BACKLINK_QUERY, crawl_backlinks
    from opilio.methods.treasure.build import GraphLimits
    from opilio.methods.treasure.graph import encode_graph
    from opilio.topic.setup import check_language

    require_new_file("--out", out)
    if search == (links is not None):
        raise UsageError("give either --links DIR or --search: back-links of stored pages, or from search engines")
    check_language(language, "--language")
    limits = GraphLimits(depth=depth, parents_per_page=parents, per_level=per_level, links_per_page=per_page)
    if links is None:
        settings, targets = _settings(engine, set_, language), _canonical_targets(target)
        asyncio.run(crawl_backlinks(into, settings, targets, limits, print_message, query or BACKLINK_QUERY))
    graph, missing = _build_from_links(links or into, target, portal or [], limits, language)
    write_output("--out", out, encode_graph(graph))
    _write_svg(graph, svg)
    _print_graph(graph, json, {"out": str(out), "missing": missing})
    return 0


def _build_from_links(
    folder: Path, target: list[str], portal: list[str], limits: "GraphLimits", language: str
) -> "tuple[TGraph, list[str]]":
    """The graph of a collection or web, and the targets that are not in it."""
    from opilio.core.settings import Settings
    from opilio.core.urls import canonicalize_url
    from opilio.engine.workers.pool import available_cpus
    from opilio.lab.experiments.preparation import build_tgraph, resolve_targets
    from opilio.lab.webs.pages import ParsedPages, WebLinks
    from opilio.lab.webs.web import WarcWeb
    from opilio.methods.treasure.build import build_graph_builder

    web = WarcWeb.open(folder)
    known = WebLinks(web, ParsedPages.open(web, processes=available_cpus()))
    targets, missing = resolve_targets(target, known)
    for url in missing:
        print_message(f"opilio: skipped: --target {url}: not a page of {folder}")
    settings = Settings()
    settings.topic.around, settings.topic.language = "paragraph", language
    portals = [canonicalize_url(url) or url for url in portal]
    graph = build_tgraph(known, build_graph_builder(settings, known.page), targets, limits, portals)
    if not len(graph):
        raise UsageError("--portal: no path to a target within --depth links; give another page or a larger --depth")
    return graph, missing


def show_graph(
    place: Annotated[
        Path,
        typer.Argument(metavar="FILE|DIR", help="A T-Graph, or a collection.", show_default=False, parser=parse_place),
    ],
    svg: SvgOption = None,
    json: JsonOption = False,
) -> int:
    """Print a T-Graph: a file, or the current one of a crawl."""
    from opilio.methods.treasure.build import load_collection_graph, read_graph

    graph, version = load_collection_graph(place) if place.is_dir() else (read_graph(place), 0)
    _write_svg(graph, svg)
    _print_graph(graph, json, {"version": version})
    return 0


def _settings(engines: list[str] | None, sets: list[str] | None, language: str) -> "Settings":
    """A crawl that fetches only what the search engines name."""
    from opilio.cli.crawl_run import merge_options
    from opilio.engine.wiring.seeding import no_engines_error, with_engines
    from opilio.topic.setup import resolve_settings

    given = {"strategy": "best-first", "topic": {"name": "pages that link to targets", "language": language}}
    tree = merge_options(given, sets or [], None)
    settings = with_engines(resolve_settings(tree, "tgraph"), engines or [])
    if not settings.seeds.engines:
        raise no_engines_error()
    return settings


def _canonical_targets(targets: list[str]) -> list[str]:
    from opilio.core.urls import require_url

    return [require_url(url, "--target") for url in targets]


def _print_graph(graph: "TGraph", json: bool, more: dict[str, object]) -> None:
    from opilio.methods.treasure.graph import graph_as_text

    if not json:
        print_text(graph_as_text(graph))
        return
    levels = [len(graph.at_level(level)) for level in range(graph.depth + 1)]
    pages = len({node.url for node in graph.nodes.values()})
    print_json({**more, "nodes": len(graph), "pages": pages, "edges": len(graph.edges), "levels": levels})


def _write_svg(graph: "TGraph", path: Path | None) -> None:
    from opilio.methods.treasure.graph import graph_as_svg

    if path is not None:
        write_output("--svg", path, graph_as_svg(graph).encode())
