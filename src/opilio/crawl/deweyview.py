"""What `opilio topic dewey` tells of a text or a page: its dots, galaxy and classes, and the class of each link."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from opilio.crawl.classes import lexicon_of
from opilio.crawl.config import Settings
from opilio.crawl.topics import background, vocabulary_of
from opilio.model.records import Page
from opilio.text.around import InParagraph
from opilio.text.reading import Reader
from opilio.topic.dewey.detect import link_galaxies, main_terms
from opilio.topic.dewey.galaxy import Dot, Galaxy, Rule, dots_of, find
from opilio.topic.dewey.lexicon import Lexicon
from opilio.topic.dewey.matcher import Matcher


class View(msgspec.Struct, frozen=True):
    """Everything to be shown; `links` are (anchor, address, galaxy)."""

    dots: Sequence[Dot]
    galaxy: Galaxy
    lexicon: Lexicon
    links: Sequence[tuple[str, str, Galaxy]] = ()


def view_of(page: Page, settings: Settings, rule: Rule) -> View:
    """A page (or a text put into one) seen through a lexicon."""
    vocabulary = vocabulary_of(settings)
    matcher = Matcher(lexicon_of(settings), vocabulary, background())
    reading = Reader(vocabulary, InParagraph()).read(page)
    dots = dots_of(matcher.hits(main_terms(reading, matcher)), max_length=rule.max_length)
    galaxies = link_galaxies(reading, matcher, rule)
    links = [(link.anchor, link.url, found) for link, found in zip(page.links, galaxies, strict=True)]
    return View(dots, find(dots, rule), matcher.lexicon, links)


def told(view: View, top: int) -> dict[str, Any]:
    """A view for machines."""
    counted = Counter((dot.word, dot.number) for dot in view.dots)
    return {
        "galaxy": view.galaxy.code,
        "classes": [_class(view, code, score) for code, score in view.galaxy.ranked[:top]],
        "outliers": [_class(view, code, score) for code, score in view.galaxy.outliers],
        "dots": [{"word": word, "number": number, "count": count} for (word, number), count in counted.items()],
        "links": [{"anchor": anchor, "url": url, "galaxy": galaxy.code} for anchor, url, galaxy in view.links],
    }


def class_lines(view: View, top: int) -> list[str]:
    """The best classes with their scores, best first."""
    return [f"{code:<8}{score:8.2f}  {view.lexicon.name_of(code)}" for code, score in view.galaxy.ranked[:top]]


def link_lines(view: View) -> list[str]:
    """Each link with the class that the words from its anchor on speak of (S2-02, S2-23)."""
    return [
        f"{galaxy.code or '?':<8}{(anchor or url)[:60]:60}  {view.lexicon.name_of(galaxy.code) if galaxy.code else ''}"
        for anchor, url, galaxy in view.links
    ]


def _class(view: View, code: str, score: float) -> dict[str, Any]:
    return {"class": code, "name": view.lexicon.name_of(code), "score": round(score, 4)}
