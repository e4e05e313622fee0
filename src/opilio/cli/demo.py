"""`opilio demo`: the main job on a web of our own, over real HTTP on loopback, beside breadth-first.

It runs the same `crawl` a person runs. The truth about the pages is looked up after both crawls have ended, in the
server's log of who asked for what: what a crawler thought of its own pages does not count.
"""

import shutil
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import tomli_w
import typer
from rich.console import Console
from rich.table import Table

from opilio.cli.crawl import crawl
from opilio.core.errors import UsageError
from opilio.core.settings import Settings
from opilio.lab.evaluation.metrics import found_curve
from opilio.lab.server.http import fetch_attempts, read_access_log
from opilio.lab.server.process import WebServerProcess
from opilio.lab.synthetic.shape import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables

BASELINE_STRATEGY = "breadth"
MARKER_FILE = "made-by-opilio-demo"  # says that the folder is ours to make again
STEP = 100
SHAPE = WebShape(seed=7, pages=3000, hosts=40, topics=3, topical_share=0.3, slow_hosts=0, failing_hosts=1)
# Few connections, so that the order of the queue shows: with more of them than promising hosts every crawler must
# take what is left. No pause between requests, because the web is ours; Crawl-delay in robots.txt is kept.
ENGINE = {"connections": 4}
POLITENESS = {"delay_s": 0.0}


def demo(
    into: Annotated[Path, typer.Option(help="Folder for the two collections; made again each time.")] = Path("demo"),
    pages: Annotated[int, typer.Option(min=STEP, help="Fetches allowed to each crawl.")] = 600,
    topic: Annotated[str, typer.Option(help="Which subject of the web to look for; empty: its first.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Crawl a web made for the purpose, by the default strategy and breadth-first, and compare."""
    told = _choose_topic(topic)
    _prepare_folder(into)
    _print_stderr(
        f"A web of {SHAPE.pages:,} articles on {SHAPE.hosts} hosts, served on this machine; wanted: {told['name']}."
    )
    ours = Settings().strategy
    config = _config(told, pages, into)
    asked: dict[str, list[str]] = {}
    for strategy in (ours, BASELINE_STRATEGY):
        code, asked[strategy] = _run_crawl(config, strategy, quiet)
        if code:
            return code
    relevant = _relevant_urls(told["name"])
    _print_comparison({name: [url in relevant for url in urls] for name, urls in asked.items()}, pages)
    sys.stdout.write(_ENDING.format(ours=into / ours, page=_example(asked[ours], relevant)))
    return 0


_ENDING = """
Relevant is what the web's own labels say, read after both crawls; harvest is here relevant pages per fetch.
The crawls' own lines go by what their judge says, per page stored.

The collection is in {ours}. Ask it something:
  opilio status {ours}
  opilio why {ours} {page}
  opilio export {ours} --relevant --out pages.jsonl
  opilio serve {ours}

Crawl the live web (one request a second per host, robots.txt obeyed, stops after 1,000 pages):
  opilio crawl "sign languages of the world" --seed https://en.wikipedia.org/wiki/Sign_language

The command is .venv/bin/opilio; README.md has the rest.
"""


def _print_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _prepare_folder(folder: Path) -> None:
    """An empty folder; an earlier demo in it is thrown away, anything else is not touched."""
    if folder.exists() and not (folder / MARKER_FILE).exists():
        raise UsageError(f"--into {folder}: is there already and was not made by the demo; choose another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER_FILE).touch()


def _choose_topic(topic: str) -> dict[str, Any]:
    """What the crawlers are told: name, keywords, seeds. Nothing of the labels."""
    tables = topic_tables(SyntheticWeb(SHAPE).plan)
    names = [str(table["name"]) for table in tables]
    if topic and topic not in names:
        raise UsageError(f"--topic {topic}: is not in this web; known: {', '.join(names)}")
    return tables[names.index(topic) if topic else 0]


def _config(told: dict[str, Any], fetches: int, folder: Path) -> Path:
    """The file that both crawls are given: topic and seeds, and how to treat a web of our own."""
    tree = {
        "topic": {"name": told["name"], "description": told["description"], "keywords": told["keywords"]},
        "seeds": {"urls": told["seeds"][0]["urls"]},
        "politeness": POLITENESS,
        "engine": ENGINE,
        "stop": {"fetches": fetches, "pages": 0},
    }
    path = folder / f"{told['name']}.toml"
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return path


def _run_crawl(config: Path, strategy: str, quiet: bool) -> tuple[int, list[str]]:
    """One crawl, and what the server was asked for, in order."""
    folder, log = config.parent / strategy, config.parent / f"{strategy}.log"
    with closing(WebServerProcess(SHAPE, log)) as server:
        _print_stderr(
            f"\n$ opilio crawl --config {config} --strategy {strategy} --into {folder} --proxy {server.proxy}"
        )
        code = crawl(config=config, strategy=strategy, into=folder, proxy=server.proxy, quiet=quiet)
    return code, [attempt.url for attempt in fetch_attempts(read_access_log(log))]


def _relevant_urls(topic: str) -> set[str]:
    """The relevant addresses, by the labels of the web."""
    return {url for url, label in SyntheticWeb(SHAPE).urls_with_labels() if label == f"topic.{topic}"}


def _print_comparison(hits: dict[str, list[bool]], budget: int) -> None:
    """The harvest of each crawl after every hundred fetches."""
    table = Table(title="Relevant pages found", title_justify="left")
    table.add_column("fetches", justify="right")
    for name in hits:
        table.add_column(name, justify="right")
        table.add_column("harvest", justify="right")
    curves = {name: found_curve(found, budget) for name, found in hits.items()}
    for fetched in range(STEP, budget + 1, STEP):
        row = [f"{fetched:,}"]
        for curve in curves.values():
            row += [f"{curve[fetched - 1]:,}", f"{curve[fetched - 1] / fetched:.2f}"]
        table.add_row(*row)
    sys.stdout.write("\n")
    Console(highlight=False, width=78).print(table)


def _example(urls: list[str], relevant: set[str]) -> str:
    """A page that is worth asking about: relevant, and found late."""
    return next((url for url in reversed(urls) if url in relevant), urls[-1] if urls else "URL")
