"""How the documents of a query divide: counted by the engine, added up over the indexes."""

from collections import Counter
from collections.abc import Callable, Sequence

import msgspec
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
    searchers: Sequence[tantivy.Searcher], filters: Filters, queries_of: Callable[[Filters], Sequence[tantivy.Query]]
) -> tuple[Facet, ...]:
    """The facets of what is found in these indexes; those without any value are left out.

    Of a facet with chosen values all are counted, as if none were chosen: any of several values is enough, so each of
    the others is a choice of more. That costs one more count for each such facet, of this facet alone.
    """
    counts = _counts(searchers, queries_of(filters), [name for name, _, _ in FACETS])
    for name, _, _ in FACETS:
        if chosen := getattr(filters, name):
            open_filters = msgspec.structs.replace(filters, **{name: ()})
            counts[name] |= _counts(searchers, queries_of(open_filters), [name])[name]
            counts[name].update(dict.fromkeys(chosen, 0))  # what nothing has can be left out again, too
    made = [_facet(name, counts[name], size, getattr(filters, name)) for name, _, size in FACETS]
    return tuple(facet for facet in made if facet.values)


def _counts(
    searchers: Sequence[tantivy.Searcher], queries: Sequence[tantivy.Query], names: Sequence[str]
) -> dict[str, Counter[str]]:
    counts = {name: Counter[str]() for name in names}
    for searcher, query in zip(searchers, queries, strict=True):
        found = searcher.aggregate(query, {name: _COUNTED[name] for name in names})
        for name, count in counts.items():
            count.update({str(b["key"]): int(b["doc_count"]) for b in found[name]["buckets"] if b["key"]})
    return counts


def _facet(name: str, counts: Counter[str], size: int, chosen: Sequence[str]) -> Facet:
    ranked = sorted(counts.items(), key=lambda pair: (_BAND_ORDER.get(pair[0], 0), -pair[1], pair[0]))
    told = [(value, count) for place, (value, count) in enumerate(ranked) if place < size or value in chosen]
    return Facet(name, tuple(FacetValue(value, count, value in chosen) for value, count in told))


def languages_of(searcher: tantivy.Searcher) -> tuple[str, ...]:
    """The languages of the documents, most frequent first."""
    if not searcher.num_docs:
        return ()
    found = searcher.aggregate(tantivy.Query.all_query(), _LANGUAGES)
    return tuple(str(bucket["key"]) for bucket in found["languages"]["buckets"])
