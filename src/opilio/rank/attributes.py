"""The four relevance attributes of S1 for every link: URL words, anchor, parent pages, surrounding text.

They are what S1's classifiers learn from, worked out in this one way for training rows and for queued links. What is
not known of a link (no anchor text, a seed without parents) is 0 with a flag that says so (S1-E6).
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from opilio.learn.rows import Rows, rows_of
from opilio.rank.evidence import Evidence, Numbers, Weights, heaviest
from opilio.text.counting import distinct
from opilio.topic.living import Sight, Terms, array_of


def attributes(urls: Sequence[Sequence[int]], found: Evidence, owners: Numbers, sight: Sight) -> Rows:
    """A row for each address: `urls` are the words of each, `found` what pages say, about the address `owners` tells.

    The tables of the pages that link to an address are added up and cut again (S1-23, S1-24).
    """
    size = len(urls)
    of_url = np.repeat(np.arange(size), list(map(len, urls)))
    words = array_of([*chain.from_iterable(urls)])
    of_anchor, anchors = np.repeat(owners, found["anchor"].shape[-1]), found["anchor"].ravel()
    tables = [_added(found[name], found[f"{name}_weights"], owners, size) for name in ("parent", "around")]
    values = (
        _masked(of_url, words, size, sight),
        _masked(of_anchor, anchors, size, sight),
        *(_adjusted(*table, sight) for table in tables),
    )
    told = (
        np.bincount(of_url, minlength=size),
        np.bincount(of_anchor, anchors > 0, minlength=size),
        *(weights[:, 0] for _, weights in tables),
    )
    return rows_of(np.column_stack(values), np.column_stack(told) <= 0)


def _masked(owners: Numbers, terms: Terms, size: int, sight: Sight) -> Weights:
    """Cosine of the table with its copy that keeps only the words present (S1-21): √(Σ matched w² / Σ w²)."""
    hit = np.flatnonzero(sight.weigh(terms))
    present = distinct((owners[hit] << 32) | terms[hit])  # a word counts once
    matched = sight.weigh(present.astype(np.uint32))  # the low half
    squares = np.bincount(present >> 32, matched * matched, minlength=size)
    return np.asarray(np.minimum(1.0, np.sqrt(squares) / (sight.norm or 1.0)))


def _added(terms: Terms, weights: Weights, owners: Numbers, size: int) -> tuple[Terms, Weights]:
    return heaviest(np.repeat(owners, terms.shape[-1]), terms.ravel(), weights.ravel().astype(np.float64), size)


def _adjusted(terms: Terms, weights: Weights, sight: Sight) -> Weights:
    """Cosine of the topic's table with a table of the same keywords weighted by a text's own table (S1-23, S1-24)."""
    wanted = sight.weigh(terms)
    own = np.where(wanted > 0.0, weights, 0.0)
    length = np.sqrt((own * own).sum(axis=1)) * sight.norm
    return np.asarray(np.minimum(1.0, (own * wanted).sum(axis=1) / np.where(length > 0.0, length, 1.0)))
