"""What a visit means for a page that is stored already. Pure.

A change is judged on the fingerprint of the text: words without case, figures and punctuation, so that clocks and
counters do not count; whoever asks looks at what else is noise (`parse.stable`).
"""

from urllib.parse import urlsplit

from opilio.model.records import Fate, Fetched, Landing, Outcome, State, key_of
from opilio.store.looks import Known, Looks

NOT_THERE = frozenset({404, 410})
FOR_GOOD = frozenset({301, 308})  # RFC 9110, 15.4.2 and 15.4.9
SOFT = "soft-404"
LOOP = "redirect-loop"
OTHER_TYPE = "content-type"  # declared, and not even fetched; or found when it was read
NO_PAGE = frozenset({SOFT, OTHER_TYPE, "parse", "html", "url"})  # an answer, but no page any more


def fate_of(known: Known, looks: Looks, outcome: Outcome, now: float, second_look_s: float) -> Fate:
    """What became of the page. Two strikes, far enough apart, and it is gone (S1-06)."""
    fetched, analysis = outcome.fetched, outcome.analysis
    missing = _is_none(fetched)
    if fetched.failure is not None and not missing:
        return Fate.UNKNOWN
    if fetched.location and fetched.status in FOR_GOOD and not _nowhere(known, fetched.location):
        return Fate.MOVED
    missing |= fetched.status in NOT_THERE or (fetched.status in FOR_GOOD and bool(fetched.location))
    if analysis is not None and analysis.failure is not None and analysis.failure.kind in NO_PAGE:
        missing = True
    if missing:
        return Fate.GONE if looks.strikes >= 1 and now - looks.struck_at >= second_look_s else Fate.STRUCK
    if fetched.status == 304:
        return Fate.UNCHANGED
    if analysis is None or analysis.failure is not None:
        return Fate.UNKNOWN
    return Fate.UNCHANGED if _same(known, outcome) else Fate.CHANGED


def _is_none(fetched: Fetched) -> bool:
    """Does a failure tell that there is no page: another type of content, or a redirect for good to itself?"""
    kind = fetched.failure.kind if fetched.failure is not None else ""
    return kind == OTHER_TYPE or (kind == LOOP and fetched.status in FOR_GOOD)


def _nowhere(known: Known, target: str) -> bool:
    """Does a redirect lead to no other page? To itself it does where a server wants a cookie, for one."""
    return home_of(target) or key_of(target) == known.key


def home_of(url: str) -> bool:
    """Is this the front page of a site? Sites that lose a page like to redirect there: it has not moved.

    >>> home_of("https://a.example/"), home_of("https://a.example/new.html"), home_of("https://a.example/?p=2")
    (True, False, False)
    """
    parts = urlsplit(url)
    return parts.path in ("", "/") and not parts.query


def _same(known: Known, outcome: Outcome) -> bool:
    analysis = outcome.analysis
    assert analysis is not None
    if known.duplicate_of and not outcome.duplicate_of:
        return False  # what it repeated is no longer there: it stands for itself now
    if known.fingerprint or analysis.fingerprint:
        return known.fingerprint == analysis.fingerprint
    return (known.words, known.title) == (analysis.words, analysis.title)  # too little text for a fingerprint


def landed(landing: Landing, fate: Fate) -> Landing:
    """A page that is stored stays a URL that is done, whatever came this time; one that is gone has failed."""
    if landing.state is State.QUEUED:
        return landing
    if fate is Fate.GONE:
        return _as(landing, State.FAILED, f"gone: {landing.reason}")
    return _as(landing, State.DONE, landing.reason)


def _as(landing: Landing, state: State, reason: str) -> Landing:
    return Landing(key=landing.key, host=landing.host, state=state, reason=reason)
