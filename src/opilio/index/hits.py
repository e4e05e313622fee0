"""Indexes that are searched, what was found in them, and hits as they are shown."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import tantivy

from opilio.index.records import Hit, Segment
from opilio.index.schema import KEPT
from opilio.index.snippet import Marker, marked, snippet

Keys = np.ndarray[Any, np.dtype[np.int64]]
Values = np.ndarray[Any, np.dtype[np.float32]]
Scores = np.ndarray[Any, np.dtype[np.float64]]


class Shelf(msgspec.Struct, frozen=True, kw_only=True):
    """One index that is searched, at one moment."""

    name: str
    searcher: tantivy.Searcher
    schema: tantivy.Schema
    languages: tuple[str, ...]  # of its documents, most frequent first
    versions: bool  # does it hold pages as they were, too?
    keys: Keys  # sorted
    authority: Values  # of those keys, 0..1

    def authority_of(self, keys: Keys) -> Values:
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.float32)
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.authority[at], np.float32(0.0)).astype(np.float32)


class Found(msgspec.Struct):
    """One candidate: where it is, and the parts of its score."""

    searcher: tantivy.Searcher
    address: tantivy.DocAddress
    key: int
    text: float
    relevance: float
    authority: float
    score: float
    shelves: list[str]  # names of those that hold the page


def merged(candidates: Iterable[Found]) -> list[Found]:
    """Each page once, best first, as it is in the index where its score is best; equal scores in the given order."""
    found: dict[int, Found] = {}
    for one in candidates:
        known = found.setdefault(one.key, one)
        if known is one:
            continue
        shelves, relevance = known.shelves + one.shelves, max(known.relevance, one.relevance)
        if one.score > known.score:
            del found[one.key]  # its place among equal scores is that of the better one, too
            found[one.key] = known = one
        known.shelves, known.relevance = shelves, relevance
    return sorted(found.values(), key=lambda f: -f.score)


def hit_of(stored: dict[str, list[Any]], marker: Marker, found: Found) -> Hit:
    """A hit as it is shown."""
    title, url = bytes(stored["name"][0]).decode(), bytes(stored["url"][0]).decode()
    text = bytes(stored[KEPT][0]).decode().lstrip()
    return Hit(
        url=url,
        key=found.key,
        host=stored["host"][0],
        title=marked(title, marker.matches(title)) or (Segment(url),),
        snippet=snippet(text, marker),
        collections=tuple(found.shelves),
        language=stored["language"][0],
        genre=stored["genre"][0],
        subtopic=stored["subtopic"][0],
        band=stored["band"][0],
        relevance=found.relevance,
        relevant=stored["relevant"][0] == "yes",
        authority=found.authority,
        date=float(stored["date"][0]),
        fetched_at=float(stored["since"][0]),
        score=found.score,
        text_score=found.text,
    )
