"""How the documents of a query divide: counted by the engine, added up over the indexes."""

from collections import Counter
from collections.abc import Sequence

import tantivy

from opilio.index.records import BANDS, Facet, FacetValue, Filters

FACETS = (  # field of `Filters`, field of the index, values that are told
    ("hosts", "host", 12),
    ("languages", "language", 10),
    ("genres", "genre", 10),
    ("bands", "band", 5),
    ("subtopics", "subtopic", 20),
    ("years", "year", 12),
)
_COUNTED = {name: {"terms": {"field": field, "size": size}} for name, field, size in FACETS}
_LANGUAGES = {"languages": {"terms": {"field": "language", "size": 8}}}
_BAND_ORDER = {band: place for place, (band, _) in enumerate(BANDS)}


def facets(
    searchers: Sequence[tantivy.Searcher], queries: Sequence[tantivy.Query], filters: Filters
) -> tuple[Facet, ...]:
    """The facets of what these queries find in these indexes; those without any value are left out."""
    counts = {name: Counter[str]() for name, _, _ in FACETS}
    for searcher, query in zip(searchers, queries, strict=True):
        found = searcher.aggregate(query, _COUNTED)
        for name, count in counts.items():
            count.update({str(b["key"]): int(b["doc_count"]) for b in found[name]["buckets"] if b["key"]})
    made = [_facet(name, counts[name], size, getattr(filters, name)) for name, _, size in FACETS]
    return tuple(facet for facet in made if facet.values)


def _facet(name: str, counts: Counter[str], size: int, chosen: Sequence[str]) -> Facet:
    ranked = sorted(counts.items(), key=lambda pair: (_BAND_ORDER.get(pair[0], 0), -pair[1], pair[0]))
    return Facet(name, tuple(FacetValue(value, count, value in chosen) for value, count in ranked[:size]))


def languages_of(searcher: tantivy.Searcher) -> tuple[str, ...]:
    """The languages of the documents, most frequent first."""
    if not searcher.num_docs:
        return ()
    found = searcher.aggregate(tantivy.Query.all_query(), _LANGUAGES)
    return tuple(str(bucket["key"]) for bucket in found["languages"]["buckets"])
