"""What `opilio topic dewey` shows for a text or a page: its dots, galaxy and classes, and the class of each link."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from opilio.core.page import Page
from opilio.core.settings import Settings
from opilio.methods.dewey.detect import (
    Dot,
    Galaxy,
    GalaxyRule,
    LexiconMatcher,
    dots_from_hits,
    find_galaxy,
    link_galaxies,
    main_terms,
)
from opilio.methods.dewey.lexicon import Lexicon
from opilio.methods.dewey.target import load_lexicon
from opilio.text.reading import PageReader, ParagraphContext
from opilio.topic.setup import background_frequencies, build_vocabulary


class DeweyView(msgspec.Struct, frozen=True):
    """Everything to be shown; `links` are (anchor, address, galaxy)."""

    dots: Sequence[Dot]
    galaxy: Galaxy
    lexicon: Lexicon
    links: Sequence[tuple[str, str, Galaxy]] = ()


def build_dewey_view(page: Page, settings: Settings, rule: GalaxyRule) -> DeweyView:
    """A page (or a text put into one) seen through a lexicon."""
    vocabulary = build_vocabulary(settings)
    matcher = LexiconMatcher(load_lexicon(settings), vocabulary, background_frequencies())
    reading = PageReader(vocabulary, ParagraphContext()).read(page)
    dots = dots_from_hits(matcher.hits(main_terms(reading, matcher)), max_length=rule.max_length)
    galaxies = link_galaxies(reading, matcher, rule)
    links = [(link.anchor, link.url, found) for link, found in zip(page.links, galaxies, strict=True)]
    return DeweyView(dots, find_galaxy(dots, rule), matcher.lexicon, links)


def dewey_view_to_dict(view: DeweyView, top: int) -> dict[str, Any]:
    """A view for machines."""
    counted = Counter((dot.word, dot.number) for dot in view.dots)
    return {
        "galaxy": view.galaxy.code,
        "classes": [_class(view, code, score) for code, score in view.galaxy.ranked[:top]],
        "outliers": [_class(view, code, score) for code, score in view.galaxy.outliers],
        "dots": [{"word": word, "number": number, "count": count} for (word, number), count in counted.items()],
        "links": [{"anchor": anchor, "url": url, "galaxy": galaxy.code} for anchor, url, galaxy in view.links],
    }


def format_classes(view: DeweyView, top: int) -> list[str]:
    """The best classes with their scores, best first."""
    return [f"{code:<8}{score:8.2f}  {view.lexicon.name_of(code)}" for code, score in view.galaxy.ranked[:top]]


def format_links(view: DeweyView) -> list[str]:
    """Each link with the class that the words from its anchor on speak of (S2-02, S2-23)."""
    return [
        f"{galaxy.code or '?':<8}{(anchor or url)[:60]:60}  {view.lexicon.name_of(galaxy.code) if galaxy.code else ''}"
        for anchor, url, galaxy in view.links
    ]


def _class(view: DeweyView, code: str, score: float) -> dict[str, Any]:
    return {"class": code, "name": view.lexicon.name_of(code), "score": round(score, 4)}
