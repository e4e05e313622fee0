"""`opilio crawl`: from a topic and seeds to a collection. Run again with the same --into, it resumes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from opilio.cli.main import exit_on_signals
from opilio.cli.options import (
    ConfigOption,
    DatabaseArgument,
    JsonOption,
    ProxyOption,
    QuietOption,
    SetOption,
    complete_collections,
    complete_strategies,
    parse_place,
    print_message,
)

WorkersOption = Annotated[int | None, typer.Option(min=-1, help="Analysis processes (-1: one per core, 0: none).")]


def crawl(
    topic: Annotated[str, typer.Argument(help="The topic, as a sentence in quotes.", show_default=False)] = "",
    seed: Annotated[list[str] | None, typer.Option(metavar="URL", help="A URL to start from. Repeatable.")] = None,
    seeds: Annotated[Path | None, typer.Option(metavar="FILE", help="A file of seed URLs, one per line.")] = None,
    site: Annotated[
        list[str] | None,
        typer.Option(metavar="DOMAIN", help="Crawl only this domain and its subdomains. Repeatable."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="RULE", help="Crawl only URLs like example.org/docs/*. Repeatable."),
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Exclude URLs like example.org or /tag/*. Repeatable.")
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option(min=0, help="Follow at most N links from a seed (0: no limit).")
    ] = None,
    archives: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="FILE", help="Crawl WARC or WACZ files, not the web. Repeatable."),
    ] = None,
    offline_seeds: Annotated[
        bool, typer.Option("--offline-seeds", help="Never ask a search engine for seeds.")
    ] = False,
    config: ConfigOption = None,
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of the collection, by default named after the topic; or postgresql://….",
            autocompletion=complete_collections,
            parser=parse_place,
        ),
    ] = None,
    strategy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="How to crawl; 'opilio maintain doctor' lists the names.",
            autocompletion=complete_strategies,
        ),
    ] = None,
    start_from: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Start with what the crawl of this collection learned.",
            show_default=False,
            autocompletion=complete_collections,
        ),
    ] = None,
    pages: Annotated[int | None, typer.Option(min=0, help="Stop after N pages (0: no limit).")] = None,
    relevant: Annotated[int | None, typer.Option(min=0, help="Stop after N relevant pages (0: no limit).")] = None,
    minutes: Annotated[float | None, typer.Option(min=0, help="Stop after N minutes (0: no limit).")] = None,
    revisit: Annotated[bool, typer.Option("--revisit", help="Revisit stored pages that are due.")] = False,
    continuous: Annotated[bool, typer.Option("--continuous", help="Revisit until stopped.")] = False,
    workers: WorkersOption = None,
    proxy: ProxyOption = None,
    allow_private: Annotated[
        bool | None, typer.Option(help="Allow private and loopback addresses.", show_default=False)
    ] = None,
    browser: Annotated[bool, typer.Option("--browser", help="Render pages that need JavaScript in Chromium.")] = False,
    set_: SetOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Crawl a topic into a collection.

    Give a topic and seeds, or a --config file. Without seeds, the configured search engines propose some, or
    Wikipedia if none is configured. Run again with the same --into to resume.
    """
    # The engine takes a moment to import; nothing is open yet, so Ctrl-C may end the process at once.
    exit_on_signals()
    from opilio.cli.crawl_run import CrawlOptions, merge_options, read_scope_options, read_seed_options, run_crawl
    from opilio.cli.demo import demo_proxy

    given: dict[str, Any] = {
        "strategy": strategy,
        "stop": {"pages": pages, "relevant": relevant, "minutes": minutes},
        "engine": {"workers": workers},
        "fetch": {"proxy": proxy, "allow_private": allow_private, "archives": list(map(str, archives or [])) or None},
        "topic": {"name": topic or None},
        "rank": {"model": str(start_from) if start_from else None},
        "revisit": {"on": revisit or continuous or None, "continuous": continuous or None},
        "scope": read_scope_options(site or [], allow or [], deny or []),
        "frontier": {"max_depth": max_depth},
        "browser": {"on": browser or None},
        "seeds": {"urls": read_seed_options(seed or [], seeds, site or []), "offline": offline_seeds or None},
    }
    if (revisit or continuous) and pages is None:
        # The page limit that the collection was made with has been reached already.
        given["stop"]["pages"] = 0
    source = str(config) if config else "command line"
    with demo_proxy(into if proxy is None else None) as demo_address:
        if demo_address:
            given["fetch"]["proxy"] = demo_address
        tree = merge_options(given, set_ or [], config)
        return run_crawl(CrawlOptions(tree, source, into, json=json, quiet=quiet))


def worker(
    folder: DatabaseArgument,
    workers: WorkersOption = None,
    no_resume: Annotated[bool, typer.Option("--no-resume", help="Exit if the crawl was stopped.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> int:
    """Join a crawl in PostgreSQL, beside any number of other workers.

    Ctrl-C leaves the crawl to the others. A crawl that was stopped is resumed, unless --no-resume is given.
    """
    exit_on_signals()
    from opilio.cli.crawl_run import CrawlOptions, merge_options, run_crawl
    from opilio.core.errors import UsageError
    from opilio.store.collection import check_collection, is_linked
    from opilio.store.postgres.collection import stop_reason_of

    if not is_linked(folder):
        raise UsageError(f"{folder}: not the address of a database; give one like postgresql://user@host/name")
    check_collection(folder)
    if no_resume and (reason := stop_reason_of(folder)):
        print_message(f"the crawl was stopped ({reason}); it is not resumed (--no-resume)")
        return 0
    tree = merge_options({"engine": {"workers": workers}}, [], None)
    return run_crawl(CrawlOptions(tree, "command line", folder, json=json, quiet=quiet))
