"""Readings from a line of text, for tests of judges and rankers: words are their own stems.

`[anchor words](http://address)` makes a link; a line is a block; a line that begins with `~` is boiler-plate.
"""

import re
from collections.abc import Sequence

from opilio.core.page import Link, Page, Reading
from opilio.core.records import Lead, Verdict, url_key
from opilio.text.vocabulary import term_id

_PIECE = re.compile(r"\[([^\]]*)\]\(([^)\s]*)( nofollow)?\)|([a-z0-9]+)")
_WORD = re.compile(r"[a-z0-9]+")
HERE = "http://here.example/"


def terms_of(text: str) -> list[int]:
    return [term_id(w) for w in _WORD.findall(text.lower())]


def url_terms(urls: Sequence[str]) -> list[list[int]]:
    return [terms_of(u.partition("://")[2]) for u in urls]


def reading_of(text: str, title: str = "", url: str = HERE, description: str = "", nofollow: bool = False) -> Reading:
    terms: list[int] = []
    links: list[Link] = []
    anchors: list[tuple[int, int]] = []
    arounds: list[tuple[int, int]] = []
    main: list[tuple[int, int]] = []
    for line in text.lower().strip().splitlines():
        start, first = len(terms), len(links)
        for piece in _PIECE.finditer(line):
            at = len(terms)
            terms += terms_of(piece[1] if piece[2] else piece[4])
            if piece[2]:
                target = piece[2]
                rel = "nofollow" if piece[3] else ""
                host = target.split("/")[2]
                links.append(
                    Link(url=target, key=url_key(target), host=host, anchor=piece[1], rel=rel, index=len(links))
                )
                anchors.append((at, len(terms)))
        arounds += [(start, len(terms))] * (len(links) - first)
        if not line.strip().startswith("~"):
            main.append((start, len(terms)))
    page = Page(url=url, title=title, description=description, links=tuple(links), flow=text, nofollow=nofollow)
    return Reading(page=page, terms=terms, anchors=anchors, link_contexts=arounds, main_slices=main)


def lead_to(url: str = HERE, **known: object) -> Lead:
    return Lead(url=url, key=url_key(url), host=url.split("/")[2], **known)  # type: ignore[arg-type]


def verdict_of(score: float, relevant: bool = True) -> Verdict:
    return Verdict(score=score, relevant=relevant)
