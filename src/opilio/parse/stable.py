"""What a page says, without what changes by itself: adverts, clocks, dates, counters. For comparing two versions. Pure.

Costs two more parses of a page, so it is asked only where the fingerprints of two versions differ already.
"""

import re

import turbohtml
from msgspec.structs import replace

from opilio.model.errors import ParseError
from opilio.model.records import Fetched
from opilio.parse.html import HtmlParser

# By the names that their makers and those who block them agree on.
_ADVERTS = (
    "ins.adsbygoogle,iframe,[class~=ad],[class~=ads],[class~=advert],[class*=advertis],[class*=sponsor],[class~=banner],"
    "[class~=promo],[id=ad],[id^=ad-],[id^=ads-],[id*=advert],[id^=google_ads],[data-ad-slot],[aria-label=advertisement]"
)
_HTML = ("Content-Type", "text/html; charset=utf-8")
_WORD = re.compile(r"[^\W\d_]{2,}")  # letters only: no figure is left, nor the "th" of a day
_CALENDAR = frozenset(
    (
        "january february march april may june july august september october november december jan feb mar apr jun jul"
        " aug sep sept oct nov dec monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat sun"
        " am pm gmt utc cet cest est edt pst pdt today yesterday ago second seconds minute minutes hour hours day days"
        " st nd rd th"
    ).split()
)


def stable_words(fetched: Fetched) -> list[str] | None:
    """The words of the main text that do not change by themselves; None where there is no page.

    >>> one, other = (Fetched(url="http://a.example/", headers=(("Content-Type", "text/html"),), body=body) for body in
    ...     (b"<p>A wren, at 10:15 on 3rd May", b"<p>A wren, at 23:59 on Monday<div class=ad>Boots!</div>"))
    >>> stable_words(one) == stable_words(other) == ["wren", "at", "on"]
    True
    """
    try:
        if "html" in fetched.header("content-type"):
            document = turbohtml.parse(fetched.body, detect_encoding=True, positions=False)
            document.remove(_ADVERTS)
            fetched = replace(fetched, body=str(document.html).encode("utf-8", "replace"), headers=(_HTML,))
        text = HtmlParser(paths=False).parse(fetched).main_text
    except ParseError:
        return None
    return [word for word in _WORD.findall(text.lower()) if word not in _CALENDAR]
