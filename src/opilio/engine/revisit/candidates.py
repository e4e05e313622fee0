"""All stored pages that can be revisited, in memory, and the policies that say which is next.

All policies have the same budget of revisits per day; they differ in how they distribute it.

fixed         every page in turn: the one that was not checked for the longest time
proportional  in proportion to how often a page changes (S1-02's plain reading)
adaptive      by the value of a revisit: relevance × the time that the copy stays fresh × what new links of the page
              brought. A page that changes faster than the budget can follow has less value than one that stays fresh
              for a week after a revisit (Cho and Garcia-Molina 2000; per page: Azar, Horvitz and others 2018). A small
              part counts the age of the copy, so that every page is revisited at some time.

How often a page changes is estimated from visits at irregular times, as a Poisson process of unknown rate. A revisit
shows only whether a page changed since the last one, not how often, so counting changes underestimates pages that
change fast (Cho and Garcia-Molina 2003). Here each rate of a fixed grid has its log-likelihood, which is exact for any
intervals. A page that was never revisited gets the rates of its directory, host and kind, and of all pages as its
prior. The priors are learned from the same visits (EM, one step per visit).

About 200 bytes a page: a million pages take 200 MB, and only while revisits are on. No I/O, no clock.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from opilio.core.clock import DAY_S, parse_http_date
from opilio.core.settings import RevisitSettings
from opilio.store.revisits import PageFacts, RevisitRecord

Array = NDArray[np.float64]
RATE_COUNT = 24
# From once in 1,000 days to every quarter of an hour.
RATES: Array = np.geomspace(1 / (1000 * DAY_S), 1 / 900, RATE_COUNT)
# Before anything is known: most pages change within months, few within hours (a broad bell on the grid's own scale).
_UNNORMALIZED_PRIOR: Array = np.exp(-0.5 * ((np.log(RATES) - np.log(1 / (20 * DAY_S))) / 2.0) ** 2)
DEFAULT_PRIOR: Array = _UNNORMALIZED_PRIOR / _UNNORMALIZED_PRIOR.sum()
_DEFAULT_PRIOR_WEIGHT = 3.0  # in visits
_MIN_PROBABILITY = 1e-6  # so that no rate becomes impossible
# In pages: the weight of host and kind beside the directory.
_GROUP_PRIOR_WEIGHT = 2.0


def visit_log_likelihood(elapsed_s: float, changed: bool) -> Array:
    """What one visit adds to the log-likelihood of each rate.

    >>> (bool(visit_log_likelihood(DAY_S, False)[0] > visit_log_likelihood(DAY_S, False)[-1]),
    ...  bool(np.argmin(visit_log_likelihood(DAY_S, True)) == 0))
    (True, True)
    """
    expected = RATES * max(elapsed_s, 1.0)
    return np.asarray(np.log(-np.expm1(-expected)) if changed else -expected)


def rate_posterior(log_likelihood: Array, prior: Array) -> Array:
    """The probability of each rate, row by row."""
    weight = log_likelihood + np.log(prior)
    weight -= weight.max(axis=-1, keepdims=True)
    probabilities = np.exp(weight)
    return np.asarray(probabilities / probabilities.sum(axis=-1, keepdims=True))


def mean_rate(probabilities: Array) -> Array:
    """The expected changes a second."""
    return np.asarray(probabilities @ RATES)


def change_probability(probabilities: Array, elapsed_s: Array) -> Array:
    """The probability that a page has changed since the last check."""
    return np.asarray((probabilities * -np.expm1(-np.outer(elapsed_s, RATES))).sum(axis=-1))


class GroupRatePriors:
    """The distribution of change rates in groups of pages. A page is in four: all, kind, host, directory.

    Invariant: a group's counts are the sum of the posteriors of its revisited pages, never negative.
    """

    def __init__(self) -> None:
        self._group_ids: dict[Hashable, int] = {}
        self._counts: Array = np.zeros((64, RATE_COUNT))
        self._counts[self.group_id("all")] = DEFAULT_PRIOR * _DEFAULT_PRIOR_WEIGHT

    def group_id(self, group: Hashable) -> int:
        """The number of a group; a new group gets the next one."""
        found = self._group_ids.setdefault(group, len(self._group_ids))
        if found >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        return found

    def prior(self, groups: NDArray[np.int32]) -> Array:
        """The prior of pages by (kind, host, directory), one row each."""
        all_pages = self._group_distribution(np.zeros(1, dtype=np.int32), np.zeros((1, RATE_COUNT)), 0.0)
        kind, host = (self._group_distribution(groups[:, at], all_pages, _GROUP_PRIOR_WEIGHT) for at in (0, 1))
        return self._group_distribution(groups[:, 2], (kind + host) / 2, 2 * _GROUP_PRIOR_WEIGHT)

    def _group_distribution(self, numbers: NDArray[np.int32], prior: Array, weight: float) -> Array:
        counts = self._counts[numbers] + weight * prior + _MIN_PROBABILITY
        return np.asarray(counts / counts.sum(axis=-1, keepdims=True))

    def learn(self, groups: Sequence[int], before: Array | None, after: Array) -> None:
        """Replace the earlier posterior of a page by the one after a visit."""
        change = after if before is None else after - before
        for number in (0, *groups):
            self._counts[number] = np.maximum(self._counts[number] + change, 0.0)


# Of the age that a revisit removes; the time the copy stays fresh has 1.
AGE_WEIGHT = 0.1
# Lower limit of the divisor for pages that a sitemap lists as changed.
MIN_CHANGE_CHANCE = 0.05


class RevisitCandidates(msgspec.Struct, frozen=True, kw_only=True):
    """Pages that can be revisited, one row each."""

    waited_s: Array  # since the last check
    rate_probabilities: Array  # of each rate of the grid
    # Relevance × (1 + what its new links brought).
    value: Array
    # A sitemap or feed says that it has changed.
    hinted: NDArray[np.bool_]
    # Between two visits of a page, on average over all.
    interval_s: float


def score_fixed(pages: RevisitCandidates) -> Array:
    """In turn."""
    return pages.waited_s


def score_proportional(pages: RevisitCandidates) -> Array:
    """By the expected number of changes since the last check."""
    return mean_rate(pages.rate_probabilities) * pages.waited_s


def score_adaptive(pages: RevisitCandidates) -> Array:
    """By the expected value of a revisit."""
    gained = np.empty(len(pages.value))
    # In portions: the table of page × rate stays in the cache.
    for start in range(0, len(gained), 4096):
        part = slice(start, start + 4096)
        gained[part] = _expected_gain_s(pages.waited_s[part], pages.rate_probabilities[part], pages.interval_s)
    value = pages.value * gained / pages.interval_s
    if pages.hinted.any():
        hinted = pages.hinted
        value[hinted] /= np.maximum(
            change_probability(pages.rate_probabilities[hinted], pages.waited_s[hinted]), MIN_CHANGE_CHANCE
        )
    return np.asarray(value)


def _expected_gain_s(waited_s: Array, probabilities: Array, interval_s: float) -> Array:
    """Expected seconds that the copy stays fresh after a revisit now, with a part of the age that it removes."""
    expected = np.outer(waited_s, RATES)
    unchanged = np.exp(-expected)
    fresh = (1.0 - unchanged - expected * unchanged) / RATES
    age = (expected**2 / 2 + expected * unchanged - (1.0 - unchanged)) / RATES**2
    return np.asarray((probabilities * (fresh + AGE_WEIGHT * np.maximum(age, 0.0) / interval_s)).sum(axis=-1))


RevisitPolicy = Callable[[RevisitCandidates], Array]
POLICIES: dict[str, RevisitPolicy] = {
    "fixed": score_fixed,
    "proportional": score_proportional,
    "adaptive": score_adaptive,
}


# A page that is gone is requested this number of times in all.
MAX_MISSING_CHECKS = 5
# The weight of a page that is gone; one that is present has 1.
GONE_WEIGHT = 0.05
DUPLICATE_WEIGHT = 0.1
# Of an irrelevant page; a relevant one of the same score has 1.
IRRELEVANT_WEIGHT = 0.25
MIN_RELEVANCE = 0.02
MAX_UNCHANGED_S = 2 * 365 * 86_400.0  # an older Last-Modified counts as this
_DATED_PATH = re.compile(r"/(?:19|20)\d\d[/-]")
_ROW_DTYPE = np.dtype(
    [
        ("key", np.int64), ("checked", np.float64), ("tried", np.float64), ("relevance", np.float32),
        ("strikes", np.int16), ("missing_since", np.float64), ("hinted", np.float64), ("queued", np.bool_),
        ("gone", np.bool_), ("changes", np.int32), ("brought", np.int32), ("host", np.int32),
        ("groups", np.int32, (3,)), ("was_checked", np.bool_), ("relevant", np.bool_),
        ("rates", np.float32, (RATE_COUNT,)),
    ]
)  # fmt: skip


class RevisitTable:
    """The pages. Invariant: a page has one row; `queued` says that it is queued in the frontier."""

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
        """The number of pages queued in the frontier."""
        return int(self._used["queued"].sum())

    def put(self, facts: PageFacts, record: RevisitRecord | None, gone: bool = False) -> None:
        """Add a page or replace its row."""
        key, url, host, genre, score, relevant, original, fetched_at, last_modified = facts
        row = self._row_by_key.setdefault(key, len(self._row_by_key))
        if row >= len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        one = self._rows[row]
        one["key"], one["host"] = key, self._host_id(host)
        one["groups"] = [self.rate_priors.group_id(group) for group in rate_groups(url, host, genre)]
        one["checked"], one["tried"], one["gone"] = fetched_at, fetched_at, gone
        relevance = max(MIN_RELEVANCE, score if relevant else IRRELEVANT_WEIGHT * score)
        one["relevant"] = bool(relevant)
        one["relevance"] = relevance * (DUPLICATE_WEIGHT if original else 1.0)
        if record is None:
            one["rates"] = _last_modified_evidence(last_modified, fetched_at)
        else:
            self._load_record(row, record, fetched_at)

    def _load_record(self, row: int, record: RevisitRecord, fetched_at: float) -> None:
        one = self._rows[row]
        one["checked"] = max(record.checked_at, fetched_at)
        one["tried"] = max(record.tried_at, fetched_at)
        one["strikes"], one["missing_since"], one["hinted"] = record.strikes, record.struck_at, record.hinted_at
        one["queued"], one["changes"], one["brought"] = bool(record.queued), record.changes, record.brought
        one["rates"] = np.frombuffer(record.rates, dtype=np.float32) if record.rates else 0.0
        if record.checks and not one["was_checked"]:
            one["was_checked"] = True
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
        """Stop revisiting a page (it moved)."""
        row = self._row_by_key.get(key)
        if row is not None:
            self._rows[row]["relevance"], self._rows[row]["strikes"] = 0.0, MAX_MISSING_CHECKS
            self._rows[row]["queued"] = False

    def update(self, record: RevisitRecord, gone: bool = False) -> None:
        """Update a page after a visit, or after a sitemap named it."""
        row = self._row_by_key.get(record.key)
        if row is None:
            return
        one = self._rows[row]
        before = self._rate_posterior(row) if one["was_checked"] else None
        one["gone"] = gone
        one["checked"], one["tried"] = max(record.checked_at, one["checked"]), max(record.tried_at, one["tried"])
        one["strikes"], one["missing_since"], one["hinted"] = record.strikes, record.struck_at, record.hinted_at
        one["queued"], one["changes"], one["brought"] = bool(record.queued), record.changes, record.brought
        if record.rates:
            one["rates"] = np.frombuffer(record.rates, dtype=np.float32)
        if record.checks:
            one["was_checked"] = True
            self.rate_priors.learn(one["groups"].tolist(), before, self._rate_posterior(row))

    def clamp_times(self, now: float) -> None:
        """After a clock was set back: no visit is later than now, or pages would not be due until that time."""
        for when in ("checked", "tried", "missing_since"):
            self._used[when] = np.minimum(self._used[when], now)

    def rate_evidence(self, key: int) -> NDArray[np.float32]:
        """The log-likelihood of each change rate of a page."""
        row = self._row_by_key.get(key)
        return np.zeros(RATE_COUNT, dtype=np.float32) if row is None else self._rows[row]["rates"].copy()

    def __contains__(self, key: int) -> bool:
        return key in self._row_by_key

    def checked_at(self, key: int) -> float:
        """When a page was last known to be as it is stored."""
        return float(self._rows[self._row_by_key[key]]["checked"])

    def pages_to_confirm(self, now: float, after_s: float) -> Iterator[tuple[int, str]]:
        """(key, host) of pages that were missing once and are due for the check that confirms it (S1-06)."""
        used = self._used
        due = (
            (used["strikes"] == 1) & ~used["queued"] & (used["missing_since"] + after_s <= now) & (used["tried"] < now)
        )
        return self._keys_and_hosts(np.flatnonzero(due))

    def top_candidates(self, settings: RevisitSettings, now: float, count: int) -> list[tuple[int, str]]:
        """(key, host) of the pages that the policy ranks first."""
        used, interval_s = self._used, settings.interval_s
        gap_s = np.where(used["gone"], 4 * interval_s, settings.least_s)
        free = (now - used["tried"] >= gap_s) & ~used["queued"] & (used["strikes"] < MAX_MISSING_CHECKS)
        free &= (used["strikes"] != 1) & (used["relevance"] > 0)
        if settings.relevant_only:
            free &= used["relevant"]
        numbers = np.flatnonzero(free)
        if not len(numbers) or count <= 0:
            return []
        score = POLICIES[settings.policy](self._build_candidates(numbers, now, interval_s))
        first = np.argsort(-score, kind="stable")[:count]
        return list(self._keys_and_hosts(numbers[first]))

    def _build_candidates(self, numbers: NDArray[np.int64], now: float, interval_s: float) -> RevisitCandidates:
        rows = self._used[numbers]
        gain = rows["brought"] / (rows["changes"] + 1.0)
        value = rows["relevance"].astype(np.float64) * (1.0 + gain) * np.where(rows["gone"], GONE_WEIGHT, 1.0)
        return RevisitCandidates(
            waited_s=np.maximum(now - rows["checked"], 0.0),
            rate_probabilities=rate_posterior(rows["rates"].astype(np.float64), self.rate_priors.prior(rows["groups"])),
            value=value,
            hinted=rows["hinted"] > rows["checked"],
            interval_s=interval_s,
        )

    def due_visits(self, now: float, interval_s: float) -> float:
        """The number of revisits due since the pages were last checked, at most one per page."""
        waited = np.maximum(now - self._used["checked"], 0.0)
        return float(np.minimum(waited / interval_s, 1.0).sum())

    def next_due_times(self, least_s: float, confirm_after_s: float) -> tuple[float, float]:
        """When the next page may be revisited, and when a missing one must be checked; infinite: no such page."""
        used = self._used[~self._used["queued"]]
        present = used["tried"][(used["strikes"] == 0) & ~used["gone"] & (used["relevance"] > 0)]
        missing = used["missing_since"][used["strikes"] == 1]
        return float(present.min(initial=np.inf)) + least_s, float(missing.min(initial=np.inf)) + confirm_after_s

    def _keys_and_hosts(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
        rows = self._used[numbers]
        return (
            (key, self._host_names[host]) for key, host in zip(rows["key"].tolist(), rows["host"].tolist(), strict=True)
        )


def rate_groups(url: str, host: str, genre: str) -> tuple[tuple[str, str], ...]:
    """The groups of a page, whose change rates serve as its prior: its kind, its host, its directory.

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
    """The evidence of Last-Modified: the page has not changed since, as if it had been checked."""
    changed_at = parse_http_date(last_modified) or 0.0
    waited_s = fetched_at - changed_at
    if not changed_at or waited_s <= 0:
        return np.zeros(RATE_COUNT)
    return visit_log_likelihood(min(waited_s, MAX_UNCHANGED_S), changed=False)
