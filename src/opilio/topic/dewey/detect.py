"""The classes of a text, of a page and of its links: matcher and galaxy put together. Reads nothing itself."""

from bisect import bisect_left
from collections.abc import Sequence

from opilio.model.records import Reading
from opilio.topic.dewey.galaxy import PAPER, RECOMMENDED, Dot, Galaxy, Rule, Scored, dots_of, find, widened
from opilio.topic.dewey.matcher import Hit, Matcher


def classes_of(text: str | Sequence[int], matcher: Matcher, top: int = 3, rule: Rule = RECOMMENDED) -> list[Scored]:
    """The best classes of a text (or of its terms), best first, with their scores."""
    terms = matcher.vocabulary.terms(text) if isinstance(text, str) else text
    return list(galaxy_of(terms, matcher, rule).ranked[:top])


def galaxy_of(terms: Sequence[int], matcher: Matcher, rule: Rule = RECOMMENDED) -> Galaxy:
    """The galaxy of a whole text."""
    return find(dots_of(matcher.hits(terms), max_length=rule.max_length), rule)


def main_galaxy(reading: Reading, matcher: Matcher, rule: Rule = RECOMMENDED) -> Galaxy:
    """The galaxy of a page: its title and main text, else all its text."""
    return galaxy_of(main_terms(reading, matcher), matcher, rule)


def main_terms(reading: Reading, matcher: Matcher) -> list[int]:
    """What a page is plotted by: the terms of its title and of its main text."""
    title = matcher.vocabulary.terms(reading.page.title)
    main = [term for start, end in reading.main for term in reading.terms[start:end]]
    return title + (main if reading.main else reading.terms)


def link_galaxies(reading: Reading, matcher: Matcher, rule: Rule = PAPER) -> list[Galaxy]:
    """The galaxy of every link, from the words between its break points (S2-23).

    An empty window is widened to the headings above the link, then to the title. The page is matched once.
    """
    hits = matcher.hits(reading.terms)
    starts = [hit.start for hit in hits]
    title: list[Dot] | None = None
    galaxies = []
    for link in reading.page.links:
        anchor, around = reading.anchors[link.index], reading.arounds[link.index]
        first = anchor[0] if rule.starts_at_link else around[0]
        dots = dots_of(window(hits, starts, (first, around[1])), anchor, rule.max_length)
        if not dots:
            title = _dots(reading.page.title, matcher, rule) if title is None else title
            galaxies.append(widened((_dots(" ".join(link.headings), matcher, rule), title), rule))
        else:
            galaxies.append(find(dots, rule))
    return galaxies


def window(hits: Sequence[Hit], starts: Sequence[int], around: tuple[int, int]) -> list[Hit]:
    """The hits inside a slice of the terms; `starts` are the hits' beginnings, in order."""
    first, last = bisect_left(starts, around[0]), bisect_left(starts, around[1])
    return [hit for hit in hits[first:last] if hit.end <= around[1]]


def _dots(text: str, matcher: Matcher, rule: Rule) -> list[Dot]:
    return dots_of(matcher.hits(matcher.vocabulary.terms(text)), max_length=rule.max_length)
