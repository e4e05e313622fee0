"""Pages like a page: asked for by its most telling words."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import tantivy

from opilio.index.analysis import analyser_for, spaced
from opilio.index.hits import Found, Shelf, hit_of
from opilio.index.querybuild import rarity
from opilio.index.records import Hit
from opilio.index.schema import KEPT
from opilio.index.snippet import Marker

WORDS = 25  # of the page, by how often it has them and how rare they are
READ = 20_000  # characters of the page that are looked at
_SHORTEST = 3


def similar(shelves: Sequence[Shelf], key: int, limit: int) -> tuple[Hit, ...] | None:
    """Pages like the one of this key, best first; None where no index has it."""
    for shelf in shelves:
        stored = _stored(shelf, key)
        if stored is not None:
            break
    else:
        return None
    text, language = bytes(stored[KEPT][0]).decode()[:READ], str(stored["language"][0])
    title = bytes(stored["name"][0]).decode()
    counts = Counter(
        t for t in analyser_for(language).analyze(spaced(f"{title} {title} {text}")) if len(t) >= _SHORTEST
    )
    found: dict[int, Found] = {}
    for shelf in shelves:
        for one in _like(shelf, counts, (key, language), limit):
            known = found.setdefault(one.key, one)
            if known is not one:
                known.shelves.append(shelf.name)
    best = sorted(found.values(), key=lambda f: (-f.score, f.key))[:limit]
    marker = Marker((), "")
    return tuple(hit_of(one.searcher.doc(one.address).to_dict(), marker, one) for one in best)


def _stored(shelf: Shelf, key: int) -> dict[str, list[Any]] | None:
    hits = shelf.searcher.search(tantivy.Query.term_query(shelf.schema, "id", f"{key:x}"), 1).hits
    return shelf.searcher.doc(hits[0][1]).to_dict() if hits else None


def _like(shelf: Shelf, counts: Counter[str], page: tuple[int, str], limit: int) -> list[Found]:
    searcher, schema = shelf.searcher, shelf.schema
    weights = {
        t: n * rarity(searcher.num_docs, f) for t, n in counts.items() if (f := searcher.doc_freq("body", t)) > 1
    }
    telling = sorted(weights, key=lambda t: (-weights[t], t))[:WORDS]
    asked = [
        (tantivy.Occur.Should, tantivy.Query.boost_query(tantivy.Query.term_query(schema, field, term), boost))
        for term in telling
        for field, boost in (("body", 1.0), ("title", 1.5))
    ]
    if not asked:
        return []
    key, language = page
    itself = (tantivy.Occur.MustNot, tantivy.Query.term_query(schema, "id", f"{key:x}"))
    spoken = tantivy.Query.const_score_query(tantivy.Query.term_query(schema, "language", language), 0.0)
    like = (tantivy.Occur.Must, tantivy.Query.boolean_query(asked))
    query = tantivy.Query.boolean_query([like, (tantivy.Occur.Must, spoken), itself])
    hits = searcher.search(query, limit).hits
    addresses = [address for _, address in hits]
    keys = searcher.fast_field_values("key", addresses)
    relevance = searcher.fast_field_values("relevance", addresses)
    rows = zip(hits, keys, relevance, strict=True)
    return [
        Found(searcher, address, int(k or 0), score, float(r or 0.0), 0.0, score, [shelf.name])
        for (score, address), k, r in rows
    ]
