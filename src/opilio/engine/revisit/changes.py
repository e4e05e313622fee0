"""How a revisited page has changed, and how often a page changes. Pure.

The fingerprints of the texts are compared: words without case, digits and punctuation, so that clocks and counters
do not count. The caller removes other noise (`parse.page_state`).

How often: from visits at irregular times, as a Poisson process of unknown rate. A revisit shows only whether a page
changed since the last one, not how often, so counting changes underestimates pages that change fast (Cho and
Garcia-Molina 2003). Here each rate of a fixed grid has its log-likelihood, which is exact for any intervals. A page
that was never revisited gets the rates of its directory, host and kind, and of all pages as its prior. The priors are
learned from the same visits (EM, one step per visit).
"""

from collections.abc import Hashable, Sequence
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from opilio.core.clock import DAY_S
from opilio.core.records import SOFT_404, FetchResult, Outcome, PageChange, UrlResult, UrlState, url_key
from opilio.store.revisits import RevisitRecord, StoredPageInfo

Array = NDArray[np.float64]
RATE_COUNT = 24
RATES: Array = np.geomspace(1 / (1000 * DAY_S), 1 / 900, RATE_COUNT)  # once in 1,000 days … every quarter of an hour
# Before anything is known: most pages change within months, few within hours (a broad bell on the grid's own scale).
_UNNORMALIZED_PRIOR: Array = np.exp(-0.5 * ((np.log(RATES) - np.log(1 / (20 * DAY_S))) / 2.0) ** 2)
DEFAULT_PRIOR: Array = _UNNORMALIZED_PRIOR / _UNNORMALIZED_PRIOR.sum()
_DEFAULT_PRIOR_WEIGHT = 3.0  # in visits
_MIN_PROBABILITY = 1e-6  # so that no rate becomes impossible
_GROUP_PRIOR_WEIGHT = 2.0  # in pages: the weight of host and kind beside the directory


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


MISSING_STATUSES = frozenset({404, 410})
PERMANENT_REDIRECTS = frozenset({301, 308})  # RFC 9110, 15.4.2 and 15.4.9
REDIRECT_LOOP = "redirect-loop"
WRONG_CONTENT_TYPE = "content-type"  # declared in the header, or found when the body was read
NOT_A_PAGE_KINDS = frozenset({SOFT_404, WRONG_CONTENT_TYPE, "parse", "html", "url"})  # a response, but not a page


def classify_change(
    known: StoredPageInfo, record: RevisitRecord, outcome: Outcome, now: float, confirm_after_s: float
) -> PageChange:
    """The change of a page. It is gone when it was missing twice, `confirm_after_s` apart (S1-06)."""
    fetched, analysis = outcome.fetched, outcome.analysis
    missing = _is_missing_failure(fetched)
    if fetched.failure is not None and not missing:
        return PageChange.UNKNOWN
    if fetched.location and fetched.status in PERMANENT_REDIRECTS and not _is_dead_redirect(known, fetched.location):
        return PageChange.MOVED
    missing |= fetched.status in MISSING_STATUSES or (fetched.status in PERMANENT_REDIRECTS and bool(fetched.location))
    if analysis is not None and analysis.failure is not None and analysis.failure.kind in NOT_A_PAGE_KINDS:
        missing = True
    if missing:
        return (
            PageChange.GONE
            if record.strikes >= 1 and now - record.struck_at >= confirm_after_s
            else PageChange.MISSING_ONCE
        )
    if fetched.status == 304:
        return PageChange.UNCHANGED
    if analysis is None or analysis.failure is not None:
        return PageChange.UNKNOWN
    return PageChange.UNCHANGED if _is_same_text(known, outcome) else PageChange.CHANGED


def _is_missing_failure(fetched: FetchResult) -> bool:
    """Whether a failure means that the page is missing: another content type, or a permanent redirect to itself."""
    kind = fetched.failure.kind if fetched.failure is not None else ""
    return kind == WRONG_CONTENT_TYPE or (kind == REDIRECT_LOOP and fetched.status in PERMANENT_REDIRECTS)


def _is_dead_redirect(known: StoredPageInfo, target: str) -> bool:
    """Whether a redirect leads to no other page: to the home page, or to itself as servers that want a cookie do."""
    return is_home_page(target) or url_key(target) == known.key


def is_home_page(url: str) -> bool:
    """Whether this is the home page of a site. Sites redirect removed pages to it, so such a page has not moved.

    >>> is_home_page("https://a.example/"), is_home_page("https://a.example/new.html"), is_home_page("https://a.example/?p=2")
    (True, False, False)
    """
    parts = urlsplit(url)
    return parts.path in ("", "/") and not parts.query


def _is_same_text(known: StoredPageInfo, outcome: Outcome) -> bool:
    analysis = outcome.analysis
    assert analysis is not None
    if known.duplicate_of and not outcome.duplicate_of:
        return False  # the page it duplicated is gone
    if known.fingerprint or analysis.fingerprint:
        return known.fingerprint == analysis.fingerprint
    return (known.words, known.title) == (analysis.words, analysis.title)  # too little text for a fingerprint


def revisited_url_result(result: UrlResult, change: PageChange) -> UrlResult:
    """The state of a stored page's URL after a visit: done, or failed if the page is gone."""
    if result.state is UrlState.QUEUED:
        return result
    if change is PageChange.GONE:
        return _with_state(result, UrlState.FAILED, f"gone: {result.reason}")
    return _with_state(result, UrlState.DONE, result.reason)


def _with_state(result: UrlResult, state: UrlState, reason: str) -> UrlResult:
    return UrlResult(key=result.key, host=result.host, state=state, reason=reason)
