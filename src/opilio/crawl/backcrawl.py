"""Back-crawling (S2-F7): pages that link to the targets, found by asking search engines, fetched into a collection.

Engines are asked for `link:ADDRESS` level by level; what they name is fetched by the ordinary crawl, so robots.txt,
pauses and limits hold, and only pages that really link are asked about next. The graph is then built from that
collection like from any other: run again, what was fetched is not fetched twice.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from opilio.crawl.columns import unpack
from opilio.crawl.config import Settings, Tree
from opilio.crawl.job import Crawl, begin, resume
from opilio.crawl.seeding import seek
from opilio.model.errors import UsageError
from opilio.model.records import key_of
from opilio.model.urls import canonical
from opilio.seeds.finder import Problem, Wish
from opilio.store.collection import exists, reading
from opilio.tgraph.layers import Bounds

QUERY = "link:{url}"
ASKED = 20  # pages of one level that engines are asked about: their budgets are small
Tell = Callable[[str], None]


async def gather(
    folder: Path, settings: Settings, targets: Sequence[str], bounds: Bounds, tell: Tell, query: str = QUERY
) -> None:
    """Fetch the targets and, level by level, pages that link to them. UsageError where no target can be fetched."""
    await _fetch(folder, settings, targets)
    layer = [url for url in targets if url in _stored(folder, targets)]
    if not layer:
        raise UsageError(f"--target {targets[0]}: can't be fetched; 'opilio why {folder} {targets[0]}' tells why")
    known = set(layer)
    for level in range(bounds.depth):
        named = await _named(settings, layer[:ASKED], bounds, tell, query)
        fresh = [url for url in dict.fromkeys(url for found in named.values() for url in found) if url not in known]
        await _fetch(folder, settings, fresh)
        layer = _linking(folder, fresh, layer)
        known |= set(fresh)
        tell(f"level {level + 1}: {len(layer)} of {len(fresh)} pages that engines named link to the level below")
        if not layer:
            break


async def _named(
    settings: Settings, layer: Sequence[str], bounds: Bounds, tell: Tell, query: str
) -> dict[str, list[str]]:
    """What engines say links to each page of a layer; who fails is told once."""
    named, problems = {}, dict[Problem, None]()
    for url in layer:
        wish = Wish(query=query.replace("{url}", url), limit=max(1, 2 * (bounds.parents or 50)))
        found = await seek(settings, wish)
        named[url] = [address for seed in found.seeds if (address := canonical(seed.url)) and address != url]
        problems |= dict.fromkeys(found.problems)
    for problem in problems:
        tell(f"opilio: {problem}")
    return named


async def _fetch(folder: Path, settings: Settings, urls: Sequence[str]) -> None:
    """Fetch so many addresses into the collection: best-first, seeds come before every link of what is there."""
    missing = [url for url in urls if url not in _stored(folder, urls)]
    if not missing:
        return
    tree: Tree = msgspec.to_builtins(settings)
    tree["seeds"] = {"urls": list(missing)}
    tree["stop"] = {**tree["stop"], "pages": 0, "fetches": _fetched(folder) + len(missing)}
    made = _opened(folder, tree)
    async with made as running:
        await running.engine.run()


def _opened(folder: Path, tree: Tree) -> Crawl:
    if exists(folder):
        return resume(folder, tree)
    return begin(folder, msgspec.convert(tree, Settings))


def _stored(folder: Path, urls: Iterable[str]) -> set[str]:
    if not exists(folder):
        return set()
    with reading(folder) as collection:
        look = "SELECT 1 FROM page WHERE key = ?"
        return {url for url in urls if collection.connection.execute(look, (key_of(url),)).fetchone()}


def _fetched(folder: Path) -> int:
    if not exists(folder):
        return 0
    with reading(folder) as collection:
        return int(collection.connection.execute("SELECT count(*) FROM answer").fetchone()[0])


def _linking(folder: Path, urls: Sequence[str], below: Sequence[str]) -> list[str]:
    """Which of these pages link to one of those: engines also name pages that once did."""
    wanted = np.array([key_of(url) for url in below], dtype=np.int64)
    found = []
    with reading(folder) as collection:
        for url in urls:
            row = collection.connection.execute("SELECT columns FROM links WHERE parent = ?", (key_of(url),)).fetchone()
            if row and np.isin(np.frombuffer(unpack(bytes(row[0])).keys, dtype=np.int64), wanted).any():
                found.append(url)
    return found
