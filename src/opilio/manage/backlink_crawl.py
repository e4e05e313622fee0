"""Small crawls that prepare a larger one.

Back-crawling (S2-F7): pages that link to the targets, found by asking search engines, fetched into a collection.
Engines are asked for `link:ADDRESS` level by level; what they name is fetched by the ordinary crawl, so robots.txt,
pauses and limits hold, and only pages that really link are asked about next. The graph is then built from that
collection like from any other: run again, what was fetched is not fetched twice.

Pages for a topic table (S0-13): a part of a site, such as an encyclopaedia, is crawled breadth-first.
Pages for a classifier (S1-13) are chosen in `train_attributes`.
"""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import numpy as np

from opilio.core.errors import UsageError
from opilio.core.records import url_key
from opilio.core.settings import Settings, Tree, merge_trees
from opilio.core.urls import canonicalize_url, require_url
from opilio.engine.wiring.seeding import find_configured_seeds
from opilio.engine.wiring.session import CrawlSession, create_crawl, resume_crawl
from opilio.engine.wiring.settings import complete_settings
from opilio.manage.pages import PageTable
from opilio.methods.treasure.build import GraphLimits
from opilio.rank.link_scores import unpack
from opilio.seeds.finder import SeedProblem, SeedRequest
from opilio.store.collection import collection_exists, open_readonly
from opilio.store.page_selection import PageFilter
from opilio.store.pages import has_page
from opilio.store.versions import count_answers, links_of
from opilio.topic.setup import resolve_settings

BACKLINK_QUERY = "link:{url}"
# Pages of one level that engines are asked about: their budgets are small.
MAX_QUERIED_PAGES = 20
ProgressCallback = Callable[[str], None]


async def crawl_example_texts(urls: Sequence[str], pages: int, more: Tree) -> tuple[str, ...]:
    """Title and main text of up to this number of pages, breadth-first from URLs, within their hosts (S0-13).

    `more` are further settings of the crawl, such as a proxy.
    """
    seeds = [require_url(url, "--crawl") for url in urls]
    tree: Tree = {
        "strategy": "breadth",
        "topic": {"name": "topic"},
        "seeds": {"urls": seeds},
        "scope": {"allow": [f"={urlsplit(url).hostname}" for url in seeds]},
        "stop": {"pages": pages},
        "engine": {"workers": 0},
    }
    tree = merge_trees(tree, more)
    with tempfile.TemporaryDirectory(prefix="opilio-topic-") as name:
        folder = Path(name) / "pages"
        async with create_crawl(folder, complete_settings(resolve_settings(tree, "--crawl"))) as session:
            await session.engine.run()
        found = tuple(f"{page.title}\n{page.text}" for page in PageTable(folder, PageFilter()))
    if not found:
        raise UsageError(f"--crawl {urls[0]}: no page could be fetched; open it in a browser to see why")
    return found


async def crawl_backlinks(
    folder: Path,
    settings: Settings,
    targets: Sequence[str],
    bounds: GraphLimits,
    report: ProgressCallback,
    query: str = BACKLINK_QUERY,
) -> None:
    """Fetch the targets and, level by level, pages that link to them. UsageError where no target can be fetched."""
    await fetch_pages(folder, settings, targets)
    layer = [url for url in targets if url in _stored_urls(folder, targets)]
    if not layer:
        raise UsageError(f"--target {targets[0]}: can't be fetched; 'opilio why {folder} {targets[0]}' shows why")
    known = set(layer)
    for level in range(bounds.depth):
        named = await _find_backlinks(settings, layer[:MAX_QUERIED_PAGES], bounds, report, query)
        fresh = [url for url in dict.fromkeys(url for found in named.values() for url in found) if url not in known]
        await fetch_pages(folder, settings, fresh)
        layer = _pages_linking_to(folder, fresh, layer)
        known |= set(fresh)
        report(f"level {level + 1}: {len(layer)} of {len(fresh)} pages that engines named link to the level below")
        if not layer:
            break


async def _find_backlinks(
    settings: Settings, layer: Sequence[str], bounds: GraphLimits, report: ProgressCallback, query: str
) -> dict[str, list[str]]:
    """The pages that engines say link to each page of a layer; a failing engine is reported once."""
    named, problems = {}, dict[SeedProblem, None]()
    for url in layer:
        request = SeedRequest(query=query.replace("{url}", url), limit=max(1, 2 * (bounds.parents_per_page or 50)))
        found = await find_configured_seeds(settings, request)
        named[url] = [address for seed in found.seeds if (address := canonicalize_url(seed.url)) and address != url]
        problems |= dict.fromkeys(found.problems)
    for problem in problems:
        report(f"opilio: {problem}")
    return named


async def fetch_pages(folder: Path, settings: Settings, urls: Sequence[str]) -> None:
    """Fetch URLs into a collection, at most one request each: seeds come before every queued link."""
    missing = [url for url in urls if url not in _stored_urls(folder, urls)]
    if not missing:
        return
    tree: Tree = msgspec.to_builtins(settings)
    tree["seeds"] = {"urls": list(missing), "offline": True, "train": 0}
    tree["stop"] = {**tree["stop"], "pages": 0, "fetches": count_fetches(folder) + len(missing)}
    made = _open_crawl(folder, tree)
    async with made as running:
        await running.engine.run()


def _open_crawl(folder: Path, tree: Tree) -> CrawlSession:
    if collection_exists(folder):
        return resume_crawl(folder, tree)
    return create_crawl(folder, msgspec.convert(tree, Settings))


def _stored_urls(folder: Path, urls: Iterable[str]) -> set[str]:
    if not collection_exists(folder):
        return set()
    with open_readonly(folder) as collection:
        return {url for url in urls if has_page(collection.connection, url_key(url))}


def count_fetches(folder: Path) -> int:
    """The number of requests that were answered; 0 where there is no collection."""
    if not collection_exists(folder):
        return 0
    with open_readonly(folder) as collection:
        return count_answers(collection.connection)


def _pages_linking_to(folder: Path, urls: Sequence[str], below: Sequence[str]) -> list[str]:
    """Which of these pages link to one of those: engines also name pages that once did."""
    wanted = np.array([url_key(url) for url in below], dtype=np.int64)
    found = []
    with open_readonly(folder) as collection:
        for url in urls:
            links = links_of(collection.connection, url_key(url))
            if links and np.isin(np.frombuffer(unpack(links).keys, dtype=np.int64), wanted).any():
                found.append(url)
    return found
