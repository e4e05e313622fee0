"""Every stored page that may be looked at again, in memory, and who is next. The numbers are also in the collection.

About 200 bytes a page: a million pages take 200 MB, and only while revisits are on. No I/O, no clock.
"""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from opilio.core.clock import parse_http_date
from opilio.core.settings import RevisitSettings
from opilio.engine.revisit.change_rate import RATE_COUNT, GroupRatePriors, rate_posterior, visit_log_likelihood
from opilio.engine.revisit.policies import POLICIES, RevisitCandidates
from opilio.store.revisits import PageFacts, RevisitRecord

MAX_MISSING_CHECKS = 5  # a page that has left is looked for now and then, so often in all
GONE_WEIGHT = 0.05  # what a page that has left is worth beside one that is there
DUPLICATE_WEIGHT = 0.1
IRRELEVANT_WEIGHT = 0.25  # an irrelevant page, beside a relevant one of the same score
MIN_RELEVANCE = 0.02
MAX_UNCHANGED_S = 2 * 365 * 86_400.0  # older marks of the last change say no more than this
_DATED_PATH = re.compile(r"/(?:19|20)\d\d[/-]")
_ROW_DTYPE = np.dtype(
    [
        ("key", np.int64), ("checked", np.float64), ("tried", np.float64), ("relevance", np.float32),
        ("strikes", np.int16), ("struck", np.float64), ("hinted", np.float64), ("busy", np.bool_), ("left", np.bool_),
        ("changes", np.int32), ("brought", np.int32), ("host", np.int32), ("groups", np.int32, (3,)),
        ("looked", np.bool_), ("relevant", np.bool_), ("rates", np.float32, (RATE_COUNT,)),
    ]
)  # fmt: skip


class RevisitTable:
    """The pages. Invariant: a page has one row, and `busy` says that it waits in the frontier."""

    def __init__(self) -> None:
        self.rate_priors = GroupRatePriors()
        self._rows: NDArray[np.void] = np.zeros(1024, dtype=_ROW_DTYPE)
        self._row_by_key: dict[int, int] = {}
        self._host_ids: dict[str, int] = {}
        self._host_names: list[str] = []

    def __len__(self) -> int:
        return len(self._row_by_key)

    @property
    def _used(self) -> NDArray[np.void]:
        return self._rows[: len(self._row_by_key)]

    @property
    def queued_count(self) -> int:
        """How many wait in the frontier."""
        return int(self._used["busy"].sum())

    def put(self, facts: PageFacts, looks: RevisitRecord | None, left: bool = False) -> None:
        """Add a page or replace its row."""
        key, url, host, genre, score, relevant, original, fetched_at, last_modified = facts
        row = self._row_by_key.setdefault(key, len(self._row_by_key))
        if row >= len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        one = self._rows[row]
        one["key"], one["host"] = key, self._host_id(host)
        one["groups"] = [self.rate_priors.group_id(group) for group in rate_groups(url, host, genre)]
        one["checked"], one["tried"], one["left"] = fetched_at, fetched_at, left
        relevance = max(MIN_RELEVANCE, score if relevant else IRRELEVANT_WEIGHT * score)
        one["relevant"] = bool(relevant)
        one["relevance"] = relevance * (DUPLICATE_WEIGHT if original else 1.0)
        if looks is None:
            one["rates"] = _last_modified_evidence(last_modified, fetched_at)
        else:
            self._load_record(row, looks, fetched_at)

    def _load_record(self, row: int, looks: RevisitRecord, fetched_at: float) -> None:
        one = self._rows[row]
        one["checked"] = max(looks.checked_at, fetched_at)
        one["tried"] = max(looks.tried_at, fetched_at)
        one["strikes"], one["struck"], one["hinted"] = looks.strikes, looks.struck_at, looks.hinted_at
        one["busy"], one["changes"], one["brought"] = bool(looks.queued), looks.changes, looks.brought
        one["rates"] = np.frombuffer(looks.rates, dtype=np.float32) if looks.rates else 0.0
        if looks.checks and not one["looked"]:
            one["looked"] = True
            self.rate_priors.learn(one["groups"].tolist(), None, self._rate_posterior(row))

    def _rate_posterior(self, row: int) -> NDArray[np.float64]:
        one = self._rows[row : row + 1]
        return np.asarray(rate_posterior(one["rates"].astype(np.float64), self.rate_priors.prior(one["groups"]))[0])

    def _host_id(self, name: str) -> int:
        number = self._host_ids.setdefault(name, len(self._host_ids))
        if number == len(self._host_names):
            self._host_names.append(name)
        return number

    def drop(self, key: int) -> None:
        """No longer a page to look at (moved)."""
        row = self._row_by_key.get(key)
        if row is not None:
            self._rows[row]["relevance"], self._rows[row]["strikes"] = 0.0, MAX_MISSING_CHECKS
            self._rows[row]["busy"] = False

    def update(self, looks: RevisitRecord, left: bool = False) -> None:
        """A page was looked at, or something else came to be known of it."""
        row = self._row_by_key.get(looks.key)
        if row is None:
            return
        one = self._rows[row]
        before = self._rate_posterior(row) if one["looked"] else None
        one["left"] = left
        one["checked"], one["tried"] = max(looks.checked_at, one["checked"]), max(looks.tried_at, one["tried"])
        one["strikes"], one["struck"], one["hinted"] = looks.strikes, looks.struck_at, looks.hinted_at
        one["busy"], one["changes"], one["brought"] = bool(looks.queued), looks.changes, looks.brought
        if looks.rates:
            one["rates"] = np.frombuffer(looks.rates, dtype=np.float32)
        if looks.checks:
            one["looked"] = True
            self.rate_priors.learn(one["groups"].tolist(), before, self._rate_posterior(row))

    def clamp_times(self, now: float) -> None:
        """A clock was set back: nothing was looked at later than now, or pages would wait for that day."""
        for when in ("checked", "tried", "struck"):
            self._used[when] = np.minimum(self._used[when], now)

    def rate_evidence(self, key: int) -> NDArray[np.float32]:
        """What is known of the rate of a page."""
        row = self._row_by_key.get(key)
        return np.zeros(RATE_COUNT, dtype=np.float32) if row is None else self._rows[row]["rates"].copy()

    def __contains__(self, key: int) -> bool:
        return key in self._row_by_key

    def checked_at(self, key: int) -> float:
        """When a page was last known to be as it is stored."""
        return float(self._rows[self._row_by_key[key]]["checked"])

    def pages_to_confirm(self, now: float, after_s: float) -> Iterator[tuple[int, str]]:
        """(key, host) of pages that were not there a while ago, to be looked for once more (S1-06)."""
        used = self._used
        due = (used["strikes"] == 1) & ~used["busy"] & (used["struck"] + after_s <= now) & (used["tried"] < now)
        return self._keys_and_hosts(np.flatnonzero(due))

    def top_candidates(self, wanted: RevisitSettings, now: float, count: int) -> list[tuple[int, str]]:
        """(key, host) of the pages that the policy would look at first."""
        used, interval_s = self._used, wanted.interval_s
        gap_s = np.where(used["left"], 4 * interval_s, wanted.least_s)
        free = (now - used["tried"] >= gap_s) & ~used["busy"] & (used["strikes"] < MAX_MISSING_CHECKS)
        free &= (used["strikes"] != 1) & (used["relevance"] > 0)
        if wanted.relevant_only:
            free &= used["relevant"]
        numbers = np.flatnonzero(free)
        if not len(numbers) or count <= 0:
            return []
        score = POLICIES[wanted.policy](self._build_candidates(numbers, now, interval_s))
        first = np.argsort(-score, kind="stable")[:count]
        return list(self._keys_and_hosts(numbers[first]))

    def _build_candidates(self, numbers: NDArray[np.int64], now: float, interval_s: float) -> RevisitCandidates:
        rows = self._used[numbers]
        gain = rows["brought"] / (rows["changes"] + 1.0)
        worth = rows["relevance"].astype(np.float64) * (1.0 + gain) * np.where(rows["left"], GONE_WEIGHT, 1.0)
        return RevisitCandidates(
            waited_s=np.maximum(now - rows["checked"], 0.0),
            rate_probabilities=rate_posterior(rows["rates"].astype(np.float64), self.rate_priors.prior(rows["groups"])),
            value=worth,
            hinted=rows["hinted"] > rows["checked"],
            interval_s=interval_s,
        )

    def due_visits(self, now: float, interval_s: float) -> float:
        """How many looks would have been spent since the pages were last seen, at most one a page."""
        waited = np.maximum(now - self._used["checked"], 0.0)
        return float(np.minimum(waited / interval_s, 1.0).sum())

    def next_due_times(self, least_s: float, second_look_s: float) -> tuple[float, float]:
        """When the next page may be looked at again, and when one that was not there must; infinite: none."""
        used = self._used[~self._used["busy"]]
        there = used["tried"][(used["strikes"] == 0) & ~used["left"] & (used["relevance"] > 0)]
        struck = used["struck"][used["strikes"] == 1]
        return float(there.min(initial=np.inf)) + least_s, float(struck.min(initial=np.inf)) + second_look_s

    def _keys_and_hosts(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
        rows = self._used[numbers]
        return (
            (key, self._host_names[host]) for key, host in zip(rows["key"].tolist(), rows["host"].tolist(), strict=True)
        )


def rate_groups(url: str, host: str, genre: str) -> tuple[tuple[str, str], ...]:
    """The groups whose pages a page is like: its kind, its host, its directory.

    >>> rate_groups("http://a.example/news/2024/x.html", "a.example", "")
    (('kind', 'dated'), ('host', 'a.example'), ('directory', 'http://a.example/news/2024'))
    """
    path = "/" + url.split("/", 3)[-1] if url.count("/") >= 3 else "/"
    if path == "/":
        kind = "front"
    elif path.endswith("/") or "/index." in path:
        kind = "list"
    else:
        kind = genre or ("dated" if _DATED_PATH.search(path) else "page")
    return ("kind", kind), ("host", host), ("directory", url.rpartition("/")[0])


def _last_modified_evidence(last_modified: str, fetched_at: float) -> NDArray[np.float64]:
    """A page that says when it last changed has stood unchanged since: one look for free."""
    changed_at = parse_http_date(last_modified) or 0.0
    waited_s = fetched_at - changed_at
    if not changed_at or waited_s <= 0:
        return np.zeros(RATE_COUNT)
    return visit_log_likelihood(min(waited_s, MAX_UNCHANGED_S), changed=False)
