"""From the options of a command to a crawl: settings and seeds, progress, stop on signals, summary.

Settings are `--set` over options over the `--config` file; seeds come from `--seed` and `--seeds`. A collection is
created or resumed.
"""

import asyncio
import os
import re
import signal
from pathlib import Path
from typing import Any, NamedTuple

from opilio.api.crawl_session import new_event_loop, open_crawl
from opilio.cli.main import INTERRUPTED, print_error
from opilio.cli.options import print_json, print_message, print_text
from opilio.core.clock import SystemClock
from opilio.core.display import pluralize
from opilio.core.errors import ConfigError
from opilio.core.settings import Tree, merge_trees, parse_setting, read_settings
from opilio.core.urls import canonicalize_url, host_of, require_url
from opilio.engine.cluster.session import ClusterRun
from opilio.engine.loop import PAGE_LIMIT_REACHED, Engine
from opilio.manage.progress import CrawlProgress
from opilio.manage.results import Status
from opilio.manage.status import collection_status, describe_obstacles
from opilio.seeds.url_lists import read_numbered_seeds
from opilio.store.postgres.collection import place_of
from opilio.text.tokens import tokenize_verbatim

# A name on this machine or an address: local servers rarely have a certificate.
_LOCAL_WITHOUT_SCHEME = re.compile(r"(?i)(localhost|\d{1,3}(\.\d{1,3}){3})(:\d+)?([/?#].*)?")
# `example.org`, `example.org:8080/path`: a host name with a dot, and no scheme.
_WITHOUT_SCHEME = re.compile(r"(?i)[a-z0-9_-]+(\.[a-z0-9_-]+)*\.[a-z][a-z0-9-]+\.?(:\d+)?([/?#].*)?")


def merge_options(given: dict[str, Any], assignments: list[str], config: Path | None) -> Tree:
    """The settings that the user gave; options without a value are left out."""
    tree = _drop_none(given)
    # A kind replaces the options of another kind, so it comes before those that the user gave with it.
    for text in sorted(assignments, key=lambda text: not text.partition("=")[0].strip().endswith(".kind")):
        tree = merge_trees(tree, parse_setting(text))
    return merge_trees(read_settings(config), tree) if config else tree


def read_scope_options(sites: list[str], allow: list[str], deny: list[str]) -> Tree:
    """The scope of the command line; a site may be written as a domain or a URL."""
    domains = [host_of(_site_url(site)).removeprefix("www.") for site in sites]
    return {"allow": [*domains, *allow] or None, "deny": deny or None}


def _site_url(site: str) -> str:
    found = canonicalize_url(site if "://" in site else f"{_default_scheme(site) or 'https://'}{site}/")
    if found is None:
        raise ConfigError(f"--site {site}: not a valid domain; write it like example.org")
    return found


def read_seed_options(
    urls: list[str], path: Path | None, sites: list[str] | None = None
) -> list[str] | dict[str, int] | None:
    """The seeds of the command line; a file may give priorities. A missing scheme is reported once.

    Without seeds, crawls start at the home pages of `sites`.
    """
    if not urls and path is None:
        return [_site_url(site) for site in sites or []] or None
    priorities: dict[str, int] = {}
    without_scheme: list[str] = []
    if path is not None:
        for number, seed in read_numbered_seeds(path, "--seeds").items():
            where = f"--seeds {path}, line {number}"
            priorities[_add_scheme(seed.url, where, without_scheme)] = seed.priority
    from_file = list(priorities)
    given = [_add_scheme(url, "--seed", without_scheme) for url in urls]
    if without_scheme:
        more = f" and {len(without_scheme) - 1} more" if len(without_scheme) > 1 else ""
        print_message(f"seed '{without_scheme[0]}'{more}: no scheme given, using {_default_scheme(without_scheme[0])}")
    if all(priority == 1 for priority in priorities.values()):
        return [*given, *from_file] or None
    return {**priorities, **dict.fromkeys(given, 1)}


def _add_scheme(url: str, where: str, without_scheme: list[str]) -> str:
    """A seed as a URL; one without a scheme is also added to the list."""
    if scheme := _default_scheme(url):
        without_scheme.append(url)
        url = scheme + url
    require_url(url, f"{where}:", ConfigError)
    return url


def _default_scheme(url: str) -> str:
    """The scheme of a URL that has none; empty for one that has, or that is no URL."""
    if _LOCAL_WITHOUT_SCHEME.fullmatch(url):
        return "http://"
    return "https://" if _WITHOUT_SCHEME.fullmatch(url) else ""


def _drop_none(tree: dict[str, Any]) -> Tree:
    result: Tree = {}
    for key, value in tree.items():
        inner = _drop_none(value) if isinstance(value, dict) else value
        if inner is not None and inner != {}:
            result[key] = inner
    return result


NOTHING_FETCHED = 3  # exit code of a crawl without a page
# Of a folder named after its topic; file systems allow 255.
MAX_FOLDER_NAME_BYTES = 200


class CrawlOptions(NamedTuple):
    """What the user asked for: settings, where they come from (for error messages), folder and kind of output."""

    tree: Tree
    source: str
    into: Path | None
    json: bool
    quiet: bool

    @property
    def revisits(self) -> bool:
        return bool(self.tree.get("revisit", {}).get("on"))


class CrawlEnd(NamedTuple):
    """Why a crawl ended, and what its revisits found."""

    reason: str
    revisited: str


class StopSignals:
    """Ctrl-C and SIGTERM: the first stops cleanly, the second quits at once. What is committed is safe either way."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        self._running: tuple[Engine | ClusterRun, CrawlProgress] | None = None
        self.received = False
        for number in (signal.SIGINT, signal.SIGTERM):
            self._loop.add_signal_handler(number, self._handle)

    def started(self, engine: Engine | ClusterRun, progress: CrawlProgress) -> None:
        """From now on the first signal stops the engine; until now it cancels the start."""
        self._running = (engine, progress)

    def _handle(self) -> None:
        again, self.received = self.received, True
        if self._running is not None:
            engine, progress = self._running
            if not engine.stopping and not again:
                progress.print_line("stopping: waiting for requests in flight; press Ctrl-C again to quit immediately")
                engine.stop()
                return
            progress.close()
        if again:
            os._exit(INTERRUPTED)
        if self._running is None and self._starting is not None:
            self._starting.cancel()


def run_crawl(options: CrawlOptions) -> int:
    """Crawl, print the summary; the exit code."""
    folder = options.into or Path(_folder_name(options.tree))
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        end = runner.run(_crawl(folder, options))
    if end is None:
        print_error("interrupted")
        return INTERRUPTED
    pages = _print_summary(folder, end, options)
    if end.reason == "interrupted":
        return INTERRUPTED
    return 0 if pages else NOTHING_FETCHED


async def _crawl(folder: Path, options: CrawlOptions) -> CrawlEnd | None:
    """Create or resume a collection and crawl; None if a signal came before the first request."""
    signals = StopSignals()
    notify = _ignore_line if options.quiet else print_message
    try:
        async with open_crawl(folder, options.tree, options.source, notify, print_message) as session:
            counts = session.counts
            with CrawlProgress(SystemClock(), counts.pages, counts.relevant, options.quiet) as progress:
                session.engine.add_listener(progress)
                signals.started(session.engine, progress)
                return CrawlEnd(await session.engine.run(), progress.revisited)
    except asyncio.CancelledError:
        if signals.received:
            return None
        raise


def _ignore_line(_line: str) -> None:
    """A quiet crawl prints no hints."""


def _print_summary(folder: Path, end: CrawlEnd, options: CrawlOptions) -> int:
    """Print how the crawl ended; the number of pages in the collection."""
    status = collection_status(folder)
    if options.json:
        print_json(status)
    else:
        _print_counts(folder, status, end, options)
    if not status.pages:
        # It reads stored pages and what parses them, which a crawl with pages does not need.
        from opilio.manage.why import explain_empty_crawl

        print_message("no page could be fetched:")
        for line in explain_empty_crawl(folder):
            print_message(line)
    return status.pages


def _print_counts(folder: Path, status: Status, end: CrawlEnd, options: CrawlOptions) -> None:
    pages = pluralize(status.pages, "page")
    print_text(f"{place_of(folder)}: {pages}, {status.relevant} relevant (harvest {status.harvest:.2f})")
    if status.rendered:
        print_text(
            f"{pluralize(status.rendered, 'page')} rendered in a browser, {status.rendered_relevant} relevant; "
            f"their links led to {status.found_by_rendering} more relevant pages"
        )
    for line in describe_obstacles(status):
        print_text(line)
    if options.revisits:
        print_text(end.revisited)
    more = "; --pages N with a larger N continues" if end.reason.startswith(PAGE_LIMIT_REACHED) else ""
    print_text(f"stopped: {end.reason}{more}")


def _folder_name(tree: Tree) -> str:
    """A folder named after the topic."""
    topic = tree.get("topic", {})
    # The type error is reported later.
    known = topic if isinstance(topic, dict) else {"name": str(topic)}
    classes = known.get("dewey", "")
    name = str(known.get("name", "")) or (f"dewey {classes}" if classes else "")
    words = tokenize_verbatim(name.lower())[:6]
    if not words:
        raise ConfigError('no topic: give one as a sentence, for example: opilio crawl "sign languages" --seed URL')
    return os.fsencode("-".join(words))[:MAX_FOLDER_NAME_BYTES].decode(errors="ignore")
