"""`opilio crawl`: from a topic and seeds to a collection. Run again with the same --into, it resumes."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from opilio.cli.options import JsonOption, pluralize, print_json, print_text
from opilio.core.clock import SystemClock
from opilio.core.errors import ConfigError
from opilio.core.settings import Tree, merge_trees, parse_setting, read_settings
from opilio.engine.loop import Engine
from opilio.engine.wiring.launch import new_event_loop, open_crawl
from opilio.manage.progress import CrawlProgress
from opilio.manage.status import collection_status, first_seeds
from opilio.manage.why import why
from opilio.seeds.local import read_seeds
from opilio.text.tokens import tokenize_verbatim

MAX_SEEDS_EXPLAINED = 3
MAX_FOLDER_NAME_BYTES = 200  # bytes of a folder that is named after its topic; file systems take 255


def crawl(
    topic: Annotated[str, typer.Argument(help="The topic, as a sentence.", show_default=False)] = "",
    seed: Annotated[list[str] | None, typer.Option(help="A URL to begin at; may be given several times.")] = None,
    seeds: Annotated[Path | None, typer.Option(help="A file of seed URLs, one per line.")] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with any of the settings.")] = None,
    into: Annotated[
        Path | None, typer.Option(help="The collection's folder; named after the topic if left out.")
    ] = None,
    strategy: Annotated[str | None, typer.Option(help="How to crawl; 'opilio doctor' lists the names.")] = None,
    start_from: Annotated[
        Path | None, typer.Option(help="A collection: begin with what its crawl learnt.", show_default=False)
    ] = None,
    pages: Annotated[int | None, typer.Option(min=0, help="Stop after so many pages (0: no limit).")] = None,
    relevant: Annotated[int | None, typer.Option(min=0, help="Stop after so many relevant pages.")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after so many minutes.")] = None,
    revisit: Annotated[bool, typer.Option("--revisit", help="Look again at stored pages that are due.")] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="The same, until stopped.")] = False,
    workers: Annotated[int | None, typer.Option(min=-1, help="Analysis processes (-1: one per core, 0: none).")] = None,
    proxy: Annotated[str | None, typer.Option(help="Fetch through this proxy, such as http://host:8080.")] = None,
    allow_private: Annotated[
        bool | None, typer.Option(help="Allow private and loopback addresses, or not.", show_default="not")
    ] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Any setting: stop.pages=99")] = None,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> int:
    """Crawl a topic into a collection.

    Give a topic, and seeds, a --config file, or nothing more where search engines are configured. The same --into
    again resumes where it ended.
    """
    given: dict[str, Any] = {
        "strategy": strategy,
        "stop": {"pages": pages, "relevant": relevant, "minutes": minutes},
        "engine": {"workers": workers},
        "fetch": {"proxy": proxy, "allow_private": allow_private},
        "topic": {"name": topic or None},
        "rank": {"model": str(start_from) if start_from else None},
        "revisit": {"on": revisit or continuous or None, "continuous": continuous or None},
        "seeds": {"urls": _read_seed_options(seed or [], seeds)},
    }
    if (revisit or continuous) and pages is None:
        given["stop"]["pages"] = 0  # the limit that made the collection what it is, is reached already
    tree, source = _merge_options(given, set_ or [], config)
    folder = into or Path(_folder_name(tree))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        reason = runner.run(_run_crawl(folder, tree, source, quiet))
    _print_summary(folder, reason, json)
    return 130 if reason == "interrupted" else 0


async def _run_crawl(folder: Path, tree: Tree, source: str, quiet: bool) -> str:
    """Resume a collection or create one, and crawl; returns why the crawl stopped."""
    loop = asyncio.get_running_loop()
    async with open_crawl(folder, tree, source, _ignore_line if quiet else _print_stderr, _print_stderr) as session:
        counts = session.counts
        with CrawlProgress(SystemClock(), counts.pages, counts.relevant, quiet) as progress:
            session.engine.add_listener(progress)
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, _handle_stop_signal, session.engine, progress)
            return await session.engine.run()


def _print_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")


def _ignore_line(_line: str) -> None:
    """A quiet crawl prints no hints."""


def _merge_options(given: dict[str, Any], assignments: list[str], config: Path | None) -> tuple[Tree, str]:
    """What a person gave: `--set` over flags over the file; and what to name when it is wrong."""
    tree = _drop_none(given)
    for text in assignments:
        tree = merge_trees(tree, parse_setting(text))
    return (merge_trees(read_settings(config), tree), str(config)) if config else (tree, "command line")


def _handle_stop_signal(engine: Engine, progress: CrawlProgress) -> None:
    """The first signal stops cleanly, the second at once: what is committed is safe, a kill loses nothing."""
    if engine.stopping:
        progress.close()
        os._exit(130)
    progress.print_line("stopping: waiting for answers that are under way; once more to end at once")
    engine.stop()


def _print_summary(folder: Path, reason: str, json: bool) -> None:
    status = collection_status(folder)
    if json:
        print_json(status)
        return
    pages, relevant = pluralize(status.pages, "page"), status.relevant
    print_text(f"{folder}: {pages}, {relevant} relevant (harvest {status.harvest:.2f})")
    print_text(f"stopped: {reason}")
    if not status.pages:
        _explain_empty_crawl(folder)


def _explain_empty_crawl(folder: Path) -> None:
    """A crawl without a page is most often a misspelt seed: say at once what became of the first ones."""
    for url in first_seeds(folder, MAX_SEEDS_EXPLAINED):
        found = why(folder, url)
        wait = found.host_waits.reason if found.host_waits is not None else ""
        sys.stderr.write(f"seed {url}: {found.reason or wait or found.state}\n")


def _folder_name(tree: Tree) -> str:
    topic = tree.get("topic", {})
    known = topic if isinstance(topic, dict) else {"name": str(topic)}  # what is no table is told by `resolve`
    classes = known.get("dewey", "")
    name = str(known.get("name", "")) or (f"dewey {classes}" if classes else "")
    words = tokenize_verbatim(name.lower())[:6]
    if not words:
        raise ConfigError('no topic: give one as a sentence, for example: opilio crawl "sign languages" --seed URL')
    return os.fsencode("-".join(words))[:MAX_FOLDER_NAME_BYTES].decode(errors="ignore")


def _read_seed_options(urls: list[str], path: Path | None) -> list[str] | dict[str, int] | None:
    """The seeds of the command line; a file may give priorities."""
    listed = read_seeds(path, "--seeds") if path else []
    if all(seed.priority == 1 for seed in listed):
        return [*urls, *(seed.url for seed in listed)] or None
    return {**{seed.url: seed.priority for seed in listed}, **dict.fromkeys(urls, 1)}


def _drop_none(tree: dict[str, Any]) -> Tree:
    """The tree without what was not given."""
    result: Tree = {}
    for key, value in tree.items():
        inner = _drop_none(value) if isinstance(value, dict) else value
        if inner is not None and inner != {}:
            result[key] = inner
    return result
