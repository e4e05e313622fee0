"""Text in pieces: those that speak of the topic are marked, with how much they weigh. Pure but for one look."""

import re
from typing import Any

from opilio.crawl.build import SNAPSHOT
from opilio.store.collection import Collection
from opilio.text.vocabulary import Vocabulary, term_of
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable

_WORD = re.compile(r"\w[\w'’-]*")


def topic_stems(collection: Collection) -> dict[str, float]:
    """The topic's stems with their weights, as they are now."""
    row = collection.connection.execute(
        "SELECT state FROM snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (SNAPSHOT,)
    ).fetchone()
    if row is None:
        return {}
    living = LivingTopic(WeightTable())
    living.restore(bytes(row[0]))
    return {word: k.weight for k in reversed(living.table.keywords) for word in k.stem.split()}


def marked(text: str, stems: dict[str, float]) -> list[dict[str, Any]]:
    """The text in pieces; `weight` above 0 where a word is one of the topic's.

    >>> [p["text"] for p in marked("Two wrens sang", {"wren": 1.0}) if p["weight"]]
    ['wrens']
    """
    if not stems:
        return [{"text": text, "weight": 0.0}] if text else []
    wanted = {term_of(stem): weight for stem, weight in stems.items()}
    vocabulary, known = Vocabulary(), dict[str, float]()
    pieces: list[dict[str, Any]] = []
    start = 0
    for found in _WORD.finditer(text):
        word = found[0]
        weight = known.get(word)
        if weight is None:
            weight = known[word] = max((wanted.get(term, 0.0) for term in vocabulary.terms(word)), default=0.0)
        if weight:
            if found.start() > start:
                pieces.append({"text": text[start : found.start()], "weight": 0.0})
            pieces.append({"text": word, "weight": round(weight, 4)})
            start = found.end()
    if start < len(text):
        pieces.append({"text": text[start:], "weight": 0.0})
    return pieces
