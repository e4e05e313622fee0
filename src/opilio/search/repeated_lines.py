"""Lines that a site repeats on its pages, such as slogans and menus, which passages and snippets leave out.

The parser recognizes most navigation by its markup. What is left is found by repetition, by the rule of
`topic.page_terms`: a line at the start or end of the text that is on at least half of the pages of its host. Decided
for a query, from a sample of the pages in the index: so it needs no crawl of a certain strategy, no second pass over
the collection and no rebuilt index, and a new design of a site counts as soon as its pages are indexed. The ranking
counts all text, as the judge does.
"""

from collections import Counter
from functools import lru_cache

import tantivy

from opilio.search.results import FOREVER
from opilio.search.schema import STORED_TEXT_FIELD
from opilio.topic.page_terms import EDGE_BLOCKS, MAX_BLOCK_CHARS, MIN_SITE_PAGES, MIN_SITE_SHARE

SAMPLED_PAGES = 16
MAX_KNOWN_HOSTS = 1_000


class RepeatedLines:
    """Finds the site text of the hosts of one open index."""

    def __init__(self, searcher: tantivy.Searcher, schema: tantivy.Schema) -> None:
        self._searcher = searcher
        self._schema = schema
        self._lines_of = lru_cache(MAX_KNOWN_HOSTS)(self._find_lines)

    def remove_from(self, text: str, host: str) -> str:
        """The text of a page of a host without its site text."""
        if not (site := self._lines_of(host)):
            return text
        lines = text.split("\n")
        first, last = _edges(lines)
        return "\n".join(
            line for at, line in enumerate(lines) if line.strip() not in site or first <= at < last
        ).strip()

    def _find_lines(self, host: str) -> frozenset[str]:
        """The site text of a host; none if the index has too few of its pages."""
        query = [
            (tantivy.Occur.Must, tantivy.Query.term_query(self._schema, name, value))
            for name, value in (("host", host), ("until", FOREVER))
        ]
        # Keys are hashes of URLs, so the pages with the largest ones are a random sample.
        wanted = tantivy.Query.boolean_query(query)
        hits = self._searcher.search(wanted, SAMPLED_PAGES, count=False, order_by_field="key").hits
        if len(hits) < MIN_SITE_PAGES:
            return frozenset()
        pages = Counter(line for _, address in hits for line in self._edge_lines(address))
        return frozenset(line for line, count in pages.items() if count >= MIN_SITE_SHARE * len(hits))

    def _edge_lines(self, address: tantivy.DocAddress) -> set[str]:
        text = bytes(self._searcher.doc(address).to_dict()[STORED_TEXT_FIELD][0]).decode()
        lines = text.split("\n")
        first, last = _edges(lines)
        return {line.strip() for line in (*lines[:first], *lines[last:]) if 0 < len(line) <= MAX_BLOCK_CHARS}


def _edges(lines: list[str]) -> tuple[int, int]:
    """Where the lines begin and end that are too far from both ends to be site text."""
    return min(EDGE_BLOCKS, len(lines)), max(len(lines) - EDGE_BLOCKS, EDGE_BLOCKS)
