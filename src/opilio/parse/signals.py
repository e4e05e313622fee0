"""What the owner of a page allows: robots directives, Content-Signal, Content-Usage, TDMRep, RSL, licence.

Read from the response headers and meta elements of a page, and from the signals of its host. A purpose is allowed
unless a signal denies it. Which signal does what is in docs/signals.md.
"""

import re
from collections.abc import Iterable
from typing import get_args

import msgspec

from opilio.core.clock import parse_date
from opilio.core.records import FetchResult
from opilio.core.settings import Purpose
from opilio.core.urls import canonicalize_url
from opilio.parse.head import DIRECTIVES_WITH_VALUE, LICENCE_METAS, PageHead, link_rels, robots_words

PURPOSES: tuple[str, ...] = get_args(Purpose)
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
_ROBOTS_HEADERS = ("x-robots-tag", "robots-tag")
_SIGNAL_HEADERS = frozenset(
    (*_ROBOTS_HEADERS, "content-signal", "content-usage", "tdm-reservation", "tdm-policy", "link")
)
_SIGNAL_METAS = frozenset(("robots", "tdm-reservation", "tdm-policy"))
_RSL_TYPE = "application/rsl+xml"
_LINK = re.compile(r"<([^<>]*)>([^<]*)")
_MAX_LENGTH = 500


class PageSignals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The signals of a page as stated; a field is empty if the page does not state it."""

    robots: tuple[str, ...] = ()
    unavailable_after: str = ""
    content_signal: dict[str, bool] = {}
    content_usage: dict[str, bool] = {}
    tdm_reserved: bool | None = None
    tdm_policy: str = ""
    # URL of a licence in Really Simple Licensing.
    rsl: str = ""
    # As stated in the head of the page, by a link, in JSON-LD or in a Link header.
    licence: str = ""

    def denied(self) -> frozenset[str]:
        """The purposes that a signal denies."""
        denied = {name for name, allowed in self.content_signal.items() if not allowed}
        for name, allowed in self.content_usage.items():
            if not allowed:
                denied |= set(_USAGE_PURPOSES.get(name, ()))
        if "noindex" in self.robots or "none" in self.robots:
            denied.add("search")
        if self.tdm_reserved or _NO_AI_WORDS & set(self.robots):
            denied |= {"ai-train", "ai-input"}
        return frozenset(denied & set(PURPOSES))

    def directives(self, at: float) -> tuple[bool, bool]:
        """noindex and nofollow. A page whose `unavailable_after` is before `at` counts as noindex."""
        nothing = "none" in self.robots
        until = parse_date(self.unavailable_after) if self.unavailable_after else None
        expired = until is not None and until < at
        return nothing or expired or "noindex" in self.robots, nothing or "nofollow" in self.robots

    def encode(self) -> str:
        """As JSON for the page column; empty if nothing is stated."""
        return "" if self == NO_SIGNALS else msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> "PageSignals":
        return msgspec.json.decode(text, type=cls) if text else NO_SIGNALS


NO_SIGNALS = PageSignals()


def read_signals(fetched: FetchResult, head: PageHead, agent: str = "opilio") -> PageSignals:
    """The signals of the headers, of the head of a page and of its host; of two that differ, the stricter counts."""
    headers = [(key, value) for name, value in fetched.headers if (key := name.lower()) in _SIGNAL_HEADERS]
    headers += fetched.host_signals
    linked = (canonicalize_url(head.licence, fetched.url) or head.licence) if head.licence else ""
    licence = linked or head.first_value(*LICENCE_METAS)
    agent = agent.lower()
    # Most pages state nothing.
    if not headers and not licence and _SIGNAL_METAS.isdisjoint(head.meta) and agent not in head.meta:
        return NO_SIGNALS
    values = [*head.all_values("robots"), *head.all_values(agent), *_values(headers, *_ROBOTS_HEADERS)]
    reserved = [*_values(headers, "tdm-reservation"), *head.all_values("tdm-reservation")]
    policies = [*_values(headers, "tdm-policy"), head.first_value("tdm-policy")]
    rsl, in_header = _licence_links(_values(headers, "link"))
    return PageSignals(
        robots=tuple(sorted(robots_words(values, agent) & _RECORDED_WORDS)),
        unavailable_after=_unavailable_after(values, agent),
        content_signal=_preferences(_values(headers, "content-signal"), "yes", "no"),
        content_usage=_preferences(_values(headers, "content-usage"), "y", "n"),
        tdm_reserved=any(value.strip() == "1" for value in reserved) if reserved else None,
        tdm_policy=next(filter(None, policies), "")[:_MAX_LENGTH],
        rsl=rsl[:_MAX_LENGTH],
        licence=(licence or in_header)[:_MAX_LENGTH],
    )


def _values(headers: Iterable[tuple[str, str]], *names: str) -> list[str]:
    return [value for name, value in headers if name in names]


def _preferences(values: Iterable[str], yes: str, no: str) -> dict[str, bool]:
    """The pairs of `search=yes, ai-train=no`; other values are skipped, and a refusal wins."""
    found: dict[str, bool] = {}
    for pair in ",".join(values).lower().split(","):
        name, _, value = (part.strip() for part in pair.partition("="))
        value = value.partition(";")[0].strip().strip('"')
        if name and value in (yes, no):
            found[name] = found.get(name, True) and value == yes
    return found


def _unavailable_after(values: Iterable[str], agent: str) -> str:
    for value in values:
        before, mark, _ = value.lower().partition("unavailable_after:")
        names = [part.rpartition(",")[2].strip() for part in before.split(":")[:-1]]
        agents = [name for name in names if name not in DIRECTIVES_WITH_VALUE]
        if mark and (not agents or agents[-1] in (agent, "*", "robots")):
            parts = value[len(before) + len(mark) :].split(",")
            # A date may have a comma after the weekday; other directives may follow it.
            last = next((number for number, part in enumerate(parts) if any(map(str.isdigit, part))), 0)
            return ",".join(parts[: last + 1]).strip()[:60]
    return ""


def _licence_links(values: Iterable[str]) -> tuple[str, str]:
    """The targets of `Link: <URL>; rel="license"`: of the type application/rsl+xml, and of other types."""
    rsl = other = ""
    for value in values:
        for target, options in _LINK.findall(value[:8_000]):
            if "license" in link_rels(options):
                if _RSL_TYPE in options.lower():
                    rsl = rsl or target.strip()
                else:
                    other = other or target.strip()
    return rsl, other
