"""How true a collection was while it was kept: freshness and age of its relevant pages over time. Reads what is stored.

A page is fresh while the stored version is the one the web has. Its age is the time since the web first had another
(Cho and Garcia-Molina 2000). A page that has vanished and is still in the collection is stale since it vanished.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.lab.changing import DAY_S, ChangingWeb
from opilio.store.collection import Collection

Array = NDArray[np.float64]


class Kept(msgspec.Struct, frozen=True):
    """One stored version: from when until when it was current."""

    url: str
    fetched_at: float
    until: float


class Truth(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is judged by, at each of `times`."""

    times: tuple[float, ...]
    fresh: tuple[float, ...]  # share of the relevant pages that are as stored
    age_days: tuple[float, ...]  # mean over them, 0 for fresh ones
    fetches: int
    looks: int
    new_relevant: int  # relevant pages that appeared and were found
    born_relevant: int  # that appeared


def kept_versions(collection: Collection) -> list[Kept]:
    """Every version that was ever current."""
    now = collection.connection.execute("SELECT url, fetched_at, 9e999 FROM page")
    past = collection.connection.execute("SELECT url, fetched_at, until FROM version")
    return [Kept(*row) for row in chain(now, past)]


def judged(collection: Collection, web: ChangingWeb, relevant: set[str], times: Sequence[float]) -> Truth:
    """Measure a collection against the web it was kept of."""
    kept = [k for k in kept_versions(collection) if web.original(k.url) in relevant]
    fresh, age = np.zeros(len(times)), np.zeros(len(times))
    for place, at in enumerate(times):
        ages = np.array([_age(web, k, at) for k in kept if k.fetched_at <= at < k.until])
        fresh[place] = float((ages == 0).mean()) if len(ages) else 0.0
        age[place] = float(ages.mean()) / DAY_S if len(ages) else 0.0
    begin = times[0]
    rows = collection.connection.execute("SELECT count(*), min(at) FROM answer WHERE at >= ?", (begin,)).fetchone()
    looks = collection.connection.execute("SELECT coalesce(sum(checks), 0) FROM revisit").fetchone()[0]
    born = {url for url in relevant if web.born_at(url) > begin}
    found = {web.original(k.url) for k in kept} & born
    return Truth(
        times=tuple(times),
        fresh=tuple(fresh.tolist()),
        age_days=tuple(age.tolist()),
        fetches=rows[0],
        looks=looks,
        new_relevant=len(found),
        born_relevant=len(born),
    )


def _age(web: ChangingWeb, kept: Kept, at: float) -> float:
    """Seconds for which the stored version has been untrue; 0 while it is true."""
    ended = web.ends_at(kept.url)
    edits = web.edits(kept.url)
    after = bisect_right(edits, kept.fetched_at)
    stale_at = min(edits[after] if after < len(edits) else float("inf"), ended)
    return max(0.0, at - stale_at)
