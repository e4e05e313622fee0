"""`opilio lab demo`: crawl a synthetic web over real HTTP on loopback, with the default strategy and breadth-first.

It runs the same `crawl` as the user. Which pages are relevant is read from the labels of the web and from the access
log of its server after both crawls: a crawler's own verdicts don't count. The web is synthetic, so it is the same when
a collection of the demo is resumed later.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from opilio.cli.crawl import crawl
from opilio.cli.options import QuietOption, parse_place, print_message
from opilio.core.errors import UsageError

if TYPE_CHECKING:
    from opilio.lab.synthetic.plan import WebShape

BASELINE_STRATEGY = "breadth"
# The folder was made by the demo and may be replaced.
MARKER_FILE = "made-by-opilio-demo"
SCHEMA_PREFIX = "opilio_demo_"  # of its schemas in a database
STEP = 100
# Few connections, so that the order of the queue matters: with more connections than promising hosts, every crawler
# has to fetch whatever is left. No delay between requests to our own server; Crawl-delay in robots.txt is obeyed.
ENGINE = {"connections": 4}
POLITENESS = {"delay_s": 0.0}


def demo(
    into: Annotated[
        str,
        typer.Option(metavar="DIR", help="Folder, or postgresql://…, for the two collections; replaced each time."),
    ] = "demo",
    pages: Annotated[int, typer.Option(min=STEP, help="Fetches of each crawl.")] = 600,
    topic: Annotated[
        str, typer.Option(metavar="NAME", help="Which topic of the web to crawl; default: the first.")
    ] = "",
    quiet: QuietOption = False,
) -> int:
    """Crawl a synthetic web on this machine and compare two strategies."""
    from opilio.core.settings import Settings

    shape = _shape()
    table = _choose_topic(topic)
    target = _prepare_target(into)
    print_message(
        f"A web of {shape.pages:,} articles on {shape.hosts} hosts, served on this machine; topic: {table['name']}."
    )
    default = Settings().strategy
    config = _config(table, pages, target.files)
    fetched: dict[str, list[str]] = {}
    for strategy in (default, BASELINE_STRATEGY):
        code, fetched[strategy] = _run_crawl(config, strategy, target.place(strategy), quiet)
        if code:
            return code
    relevant = _relevant_urls(table["name"])
    _print_comparison({name: [url in relevant for url in urls] for name, urls in fetched.items()}, pages)
    sys.stdout.write(
        _ENDING.format(
            opilio=_command_name(),
            folder=_shown(target.place(default)),
            page=_example(fetched[default], relevant),
        )
    )
    return 0


_ENDING = """
Relevant pages are counted by the labels of the web; harvest is relevant pages per fetch.
The summaries of the crawls above use the verdicts of their own judge, per stored page.

The collection is in {folder}. Try:
  {opilio} status {folder}
  {opilio} why {folder} {page}
  {opilio} export {folder} --relevant --out pages.jsonl
  {opilio} serve {folder}

Crawl the live web (one request per second and host, obeys robots.txt, stops after 1,000 pages):
  {opilio} crawl "sign languages of the world" --seed https://en.wikipedia.org/wiki/Sign_language
"""


def _command_name() -> str:
    """What the user must type: `opilio` if that is found on the PATH, else the path of the script that is running."""
    running = Path(sys.argv[0])
    found = shutil.which("opilio")
    if running.name != "opilio" or (found and Path(found).resolve() == running.resolve()):
        return "opilio"
    try:
        return str(running.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(running)


def _shape() -> "WebShape":
    from opilio.lab.synthetic.plan import WebShape

    return WebShape(seed=7, pages=3000, hosts=40, topics=3, topical_share=0.3, slow_hosts=0, failing_hosts=1)


class DemoTarget(NamedTuple):
    """Where the demo writes: a folder for settings and logs, and a folder or database for the collections."""

    files: Path
    into: str

    def place(self, strategy: str) -> str:
        """The collection of a strategy; in a database each has a schema of its own."""
        if not _is_database(self.into):
            return str(Path(self.into) / strategy)
        from opilio.store.postgres.schema import schema_address

        return schema_address(self.into, f"{SCHEMA_PREFIX}{strategy}")


def _is_database(into: str) -> bool:
    return into.startswith(("postgresql://", "postgres://"))


def _prepare_target(into: str) -> DemoTarget:
    """Empty places for the collections."""
    if not _is_database(into):
        _prepare_folder(Path(into))
        return DemoTarget(Path(into), into)
    from platformdirs import user_cache_path

    from opilio.core.settings import Settings
    from opilio.store.postgres.schema import replace_schema

    target = DemoTarget(user_cache_path("opilio") / "demo", into)
    for strategy in (Settings().strategy, BASELINE_STRATEGY):
        replace_schema(target.place(strategy), MARKER_FILE)
        # Copies of pages of an earlier demo.
        shutil.rmtree(parse_place(target.place(strategy)), ignore_errors=True)
    _prepare_folder(target.files)
    return target


def _shown(place: str) -> str:
    """A place as it can be typed into a shell, without a password (set PGPASSWORD)."""
    return shlex.quote(re.sub(r"//([^:/@]*):[^@/]*@", r"//\1@", place))


def _prepare_folder(folder: Path) -> None:
    """An empty folder. An earlier demo is deleted; anything else is left alone."""
    if folder.exists() and not (folder / MARKER_FILE).exists():
        raise UsageError(f"--into {folder}: already exists and was not made by the demo; choose another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / MARKER_FILE).touch()


@contextmanager
def demo_proxy(folder: Path | None) -> Iterator[str | None]:
    """Serve the demo's web if `folder` is a collection of the demo, and yield its proxy: that of the demo is gone."""
    if folder is None or not _is_demo(folder):
        yield None
        return
    from opilio.api.lab import WebServerProcess

    with closing(WebServerProcess(_shape())) as server:
        print_message(f"the demo's web is served again, at {server.proxy}")
        yield server.proxy


def _is_demo(folder: Path) -> bool:
    from opilio.core.settings import Settings

    # A user may crawl into other folders beside those of the demo.
    own = folder.name in (Settings().strategy, BASELINE_STRATEGY)
    if own and (folder.resolve().parent / MARKER_FILE).exists():
        return True
    from opilio.store.postgres.collection import linked_database

    return SCHEMA_PREFIX in linked_database(folder)


def _choose_topic(topic: str) -> dict[str, Any]:
    """What the crawlers get: name, keywords and seeds, but no labels."""
    from opilio.lab.synthetic.web import SyntheticWeb, topic_tables

    tables = topic_tables(SyntheticWeb(_shape()).plan)
    names = [str(table["name"]) for table in tables]
    if topic and topic not in names:
        raise UsageError(f"--topic {topic}: not in this web; known: {', '.join(names)}")
    return tables[names.index(topic) if topic else 0]


def _config(table: dict[str, Any], fetches: int, folder: Path) -> Path:
    """The settings of both crawls: topic, seeds and how to crawl our own server."""
    import tomli_w

    tree = {
        "topic": {"name": table["name"], "description": table["description"], "keywords": table["keywords"]},
        "seeds": {"urls": table["seeds"][0]["urls"]},
        "politeness": POLITENESS,
        "engine": ENGINE,
        "stop": {"fetches": fetches, "pages": 0},
    }
    path = folder / f"{table['name']}.toml"
    path.write_text(tomli_w.dumps(tree), encoding="utf-8")
    return path


def _run_crawl(config: Path, strategy: str, place: str, quiet: bool) -> tuple[int, list[str]]:
    """One crawl; its exit code and the URLs requested from the server, in order."""
    from opilio.api.lab import WebServerProcess
    from opilio.lab.server.http import fetch_attempts, read_access_log

    log = config.parent / f"{strategy}.log"
    with closing(WebServerProcess(_shape(), log)) as server:
        options = f"--config {config} --strategy {strategy} --into {_shown(place)} --proxy {server.proxy}"
        print_message(f"\n$ {_command_name()} crawl {options}")
        code = crawl(config=config, strategy=strategy, into=parse_place(place), proxy=server.proxy, quiet=quiet)
    return code, [attempt.url for attempt in fetch_attempts(read_access_log(log))]


def _relevant_urls(topic: str) -> set[str]:
    """The relevant URLs, by the labels of the web."""
    from opilio.lab.synthetic.web import SyntheticWeb

    return {url for url, label in SyntheticWeb(_shape()).urls_with_labels() if label == f"topic.{topic}"}


def _print_comparison(hits: dict[str, list[bool]], budget: int) -> None:
    """Relevant pages and harvest of each crawl after every hundred fetches."""
    from rich.console import Console
    from rich.table import Table

    from opilio.lab.evaluation.metrics import found_curve

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
    """A page worth explaining: relevant, and found late."""
    return next((url for url in reversed(urls) if url in relevant), urls[-1] if urls else "URL")
