"""What a page asks of crawlers: the contents of its robots meta elements and its X-Robots-Tag headers."""

from collections.abc import Iterable

import msgspec

_VALUED = frozenset(("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview", "charset"))


class Directives(msgspec.Struct, frozen=True):
    """What a page asks for itself."""

    noindex: bool = False
    nofollow: bool = False


def directives(values: Iterable[str], agent: str) -> Directives:
    """What meta robots contents and X-Robots-Tag values ask of `agent`; the strictest wins.

    >>> directives(["otherbot: noindex", "opilio: nofollow"], "opilio")
    Directives(noindex=False, nofollow=True)
    """
    found: set[str] = set()
    for value in values:
        found |= _words_for(value, agent.lower())
    nothing = "none" in found
    return Directives(noindex=nothing or "noindex" in found, nofollow=nothing or "nofollow" in found)


def _words_for(value: str, agent: str) -> set[str]:
    """The directives in one value; a name before a colon says whom the rest of the value is for."""
    words: set[str] = set()
    applies = True
    for part in value.lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip() in _VALUED:
            continue
        if colon:
            applies = name.strip() in (agent, "*", "robots")
            part = rest
        if applies:
            words |= set(part.split())
    return words
