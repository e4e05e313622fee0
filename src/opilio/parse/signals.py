"""What the owner of a page allows: robots directives, Content-Signal, Content-Usage, TDMRep, RSL.

Read from the response headers and meta elements of a stored page. A purpose is allowed unless a signal denies it. Which
signal denies what is in docs/signals.md.
"""

from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from opilio.core.errors import ParseError
from opilio.core.records import FetchResult
from opilio.parse.encoding import ContentKind, detect_kind
from opilio.parse.head import PageHead, read_head, robots_words
from opilio.parse.html import HEAD_ELEMENTS, parse_tree

Purpose = Literal["search", "ai-input", "ai-train"]
PURPOSES: tuple[str, ...] = get_args(Purpose)
ROBOTS_HEADERS = ("x-robots-tag", "robots-tag")
_NO_AI_WORDS = frozenset(("noai", "noimageai", "noml"))
_RECORDED_WORDS = frozenset(("noindex", "nofollow", "none", "noarchive", "nosnippet", *_NO_AI_WORDS))
# Names of purposes in Content-Usage (aipref) and in its earlier drafts.
_USAGE_PURPOSES = {
    "search": ("search",),
    "train-ai": ("ai-train",),
    "genai": ("ai-train",),
    "ai": ("ai-train",),
    "tdm": ("ai-train", "ai-input"),
    "bots": PURPOSES,
}
_RSL_TYPE = "application/rsl+xml"


class PageSignals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The signals of a page as stated; a field is empty if the page does not state it."""

    robots: tuple[str, ...] = ()
    unavailable_after: str = ""
    content_signal: dict[str, bool] = {}
    content_usage: dict[str, bool] = {}
    tdm_reserved: bool | None = None
    tdm_policy: str = ""
    rsl: str = ""  # URL of a licence in Really Simple Licensing

    def denied(self) -> frozenset[str]:
        """The purposes that a signal denies."""
        denied = {name for name, allowed in self.content_signal.items() if not allowed}
        for name, allowed in self.content_usage.items():
            if not allowed:
                denied |= set(_USAGE_PURPOSES.get(name, ()))
        if "noindex" in self.robots or "none" in self.robots:
            denied.add("search")
        if _NO_AI_WORDS & set(self.robots):
            denied |= {"ai-train", "ai-input"}
        if self.tdm_reserved:
            denied |= {"ai-train", "ai-input"}
        return frozenset(denied & set(PURPOSES))


def page_signals(fetched: FetchResult, agent: str = "opilio") -> PageSignals:
    """The signals of a stored response; those of the headers only if it does not parse as HTML."""
    content_type = fetched.header("content-type")
    try:
        kind = detect_kind(content_type, fetched.body)
    except ParseError:
        return read_signals(fetched, PageHead(), agent)
    if kind is ContentKind.PLAIN:
        return read_signals(fetched, PageHead(), agent)
    document = parse_tree(fetched.body, kind, content_type)
    return read_signals(fetched, read_head(document.iter_elements(HEAD_ELEMENTS)), agent)


def read_signals(fetched: FetchResult, head: PageHead, agent: str = "opilio") -> PageSignals:
    """The signals of the headers and of the head of a page; of two that differ, the stricter counts."""
    values = [*head.all_values("robots"), *head.all_values(agent)]
    values += [value for name in ROBOTS_HEADERS for value in _headers(fetched, name)]
    words = robots_words(values, agent)
    reserved = [*_headers(fetched, "tdm-reservation"), *head.all_values("tdm-reservation")]
    return PageSignals(
        robots=tuple(sorted(words & _RECORDED_WORDS)),
        unavailable_after=_unavailable_after(values),
        content_signal=_preferences(_headers(fetched, "content-signal"), "yes", "no"),
        content_usage=_preferences(_headers(fetched, "content-usage"), "y", "n"),
        tdm_reserved=any(value.strip() == "1" for value in reserved) if reserved else None,
        tdm_policy=(fetched.header("tdm-policy") or head.first_value("tdm-policy"))[:500],
        rsl=_rsl_link(fetched)[:500],
    )


def _headers(fetched: FetchResult, wanted: str) -> list[str]:
    return [value for name, value in fetched.headers if name.lower() == wanted]


def _preferences(values: Iterable[str], yes: str, no: str) -> dict[str, bool]:
    """The pairs of `search=yes, ai-train=no`; other values are skipped, and a refusal wins."""
    found: dict[str, bool] = {}
    for pair in ",".join(values).lower().split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        value = value.partition(";")[0].strip().strip('"')
        if name and value in (yes, no):
            found[name] = found.get(name, True) and value == yes
    return found


def _unavailable_after(values: Iterable[str]) -> str:
    for value in values:
        before, mark, _ = value.lower().partition("unavailable_after:")
        if mark:
            return value[len(before) + len(mark) :].strip()[:60]
    return ""


def _rsl_link(fetched: FetchResult) -> str:
    """The target of `Link: <URL>; rel="license"; type="application/rsl+xml"`."""
    for value in _headers(fetched, "link"):
        for link in value.split(",<"):
            target, _, options = link.strip().lstrip("<").partition(">")
            if _RSL_TYPE in options.lower() and "license" in options.lower():
                return target.strip()
    return ""
