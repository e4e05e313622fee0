"""How a revisited page has changed. Pure.

The fingerprints of the texts are compared: words without case, digits and punctuation, so that clocks and counters
do not count. The caller removes other noise (`parse.page_state`).
"""

from urllib.parse import urlsplit

from opilio.core.records import SOFT_404, FetchResult, Outcome, PageChange, UrlResult, UrlState, url_key
from opilio.store.revisits import RevisitRecord, StoredPageInfo

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
