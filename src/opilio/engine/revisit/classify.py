"""What a visit means for a page that is stored already. Pure.

A change is judged on the fingerprint of the text: words without case, figures and punctuation, so that clocks and
counters do not count; the caller removes other noise (`parse.stable`).
"""

from urllib.parse import urlsplit

from opilio.core.records import SOFT_404, FetchResult, Outcome, PageChange, UrlResult, UrlState, url_key
from opilio.store.revisits import RevisitRecord, StoredPageInfo

MISSING_STATUSES = frozenset({404, 410})
PERMANENT_REDIRECTS = frozenset({301, 308})  # RFC 9110, 15.4.2 and 15.4.9
REDIRECT_LOOP = "redirect-loop"
WRONG_CONTENT_TYPE = "content-type"  # declared, and not even fetched; or found when it was read
NOT_A_PAGE_KINDS = frozenset({SOFT_404, WRONG_CONTENT_TYPE, "parse", "html", "url"})  # an answer, but no page any more


def classify_change(
    known: StoredPageInfo, looks: RevisitRecord, outcome: Outcome, now: float, second_look_s: float
) -> PageChange:
    """What became of the page. Two strikes, far enough apart, and it is gone (S1-06)."""
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
            if looks.strikes >= 1 and now - looks.struck_at >= second_look_s
            else PageChange.MISSING_ONCE
        )
    if fetched.status == 304:
        return PageChange.UNCHANGED
    if analysis is None or analysis.failure is not None:
        return PageChange.UNKNOWN
    return PageChange.UNCHANGED if _is_same_text(known, outcome) else PageChange.CHANGED


def _is_missing_failure(fetched: FetchResult) -> bool:
    """Does a failure show that there is no page: another content type, or a permanent redirect to itself?"""
    kind = fetched.failure.kind if fetched.failure is not None else ""
    return kind == WRONG_CONTENT_TYPE or (kind == REDIRECT_LOOP and fetched.status in PERMANENT_REDIRECTS)


def _is_dead_redirect(known: StoredPageInfo, target: str) -> bool:
    """Does a redirect lead to no other page? To itself it does where a server wants a cookie, for one."""
    return is_home_page(target) or url_key(target) == known.key


def is_home_page(url: str) -> bool:
    """Is this the front page of a site? Sites that lose a page like to redirect there: it has not moved.

    >>> is_home_page("https://a.example/"), is_home_page("https://a.example/new.html"), is_home_page("https://a.example/?p=2")
    (True, False, False)
    """
    parts = urlsplit(url)
    return parts.path in ("", "/") and not parts.query


def _is_same_text(known: StoredPageInfo, outcome: Outcome) -> bool:
    analysis = outcome.analysis
    assert analysis is not None
    if known.duplicate_of and not outcome.duplicate_of:
        return False  # what it repeated is no longer there: it stands for itself now
    if known.fingerprint or analysis.fingerprint:
        return known.fingerprint == analysis.fingerprint
    return (known.words, known.title) == (analysis.words, analysis.title)  # too little text for a fingerprint


def revisited_url_result(landing: UrlResult, fate: PageChange) -> UrlResult:
    """A page that is stored stays a URL that is done, whatever came this time; one that is gone has failed."""
    if landing.state is UrlState.QUEUED:
        return landing
    if fate is PageChange.GONE:
        return _with_state(landing, UrlState.FAILED, f"gone: {landing.reason}")
    return _with_state(landing, UrlState.DONE, landing.reason)


def _with_state(landing: UrlResult, state: UrlState, reason: str) -> UrlResult:
    return UrlResult(key=landing.key, host=landing.host, state=state, reason=reason)
