"""The context graph (Diligenti; S2-46): layers by naive Bayes, one queue per layer."""

import msgspec
import numpy as np
import pytest

from checks.scored_links import scored_links
from opilio.core.records import Reading
from opilio.methods.treasure.context_graph import (
    CONTEXT_PAGE_TERMS,
    ContextGraphModel,
    ContextGraphRanker,
    LayeredDocument,
    layered_documents,
)
from opilio.methods.treasure.graph import GraphDocument
from opilio.methods.treasure.updater import GraphState
from opilio.testing.conformance import check_ranker, lead_to, reading_of, terms_of, verdict_of

LAYERS = {0: "wren robin nest song", 1: "garden hedge bird wren", 2: "county map village garden"}
DOCUMENTS = [
    GraphDocument(url=f"http://x.example/{level}-{n}", level=level, words=dict.fromkeys(words.split(), 2 + n))
    for level, words in LAYERS.items()
    for n in range(3)
]


def weigh(reading: Reading) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    terms, counts = np.unique(np.array(reading.terms, dtype=np.int64), return_counts=True)
    return terms, counts.astype(np.float64), counts.astype(np.float64)


def ranker(least: float = 0.2) -> ContextGraphRanker:
    made = ContextGraphRanker(terms_of, weigh, least)
    made.restore(msgspec.msgpack.encode(GraphState(documents=DOCUMENTS)))
    return made


def layer_of(text: str, least: float = 0.2) -> int:
    return ranker(least).classify(reading_of(text)).layer


@pytest.mark.parametrize(
    ("text", "layer"), [("wren robin song nest", 0), ("hedge bird garden", 1), ("garden garden wren hedge", 1)]
)
def test_page_is_placed_in_the_layer_whose_words_it_has(text: str, layer: int) -> None:
    assert layer_of(text) == layer


def test_page_about_something_else_belongs_nowhere() -> None:
    assert layer_of("locomotive boiler freight wagon terminus wren") == 3
    assert layer_of("") == 3
    assert layer_of("locomotive boiler freight wagon terminus wren robin", least=0.0) == 0


def test_vocabulary_is_that_of_targets_and_first_layer() -> None:
    assert layer_of("county map village county map village") == 3  # words of the second layer alone


def test_nearer_layer_comes_first_whatever_the_likelihood_s2_46() -> None:
    made = ranker()
    pages = ["wren robin nest zum zam", "garden hedge bird", "locomotive boiler freight"]
    scores = [
        scored_links(made, reading_of(f"{text} [x](http://a.example/)"), verdict_of(0.5), lead_to())[0].score
        for text in pages
    ]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3
    assert all(0.0 <= score < 1.0 for score in scores)


def test_within_a_layer_the_likelier_page_comes_first() -> None:
    made = ranker(least=0.0)
    sure, unsure = (
        scored_links(made, reading_of(f"{text} [x](http://a.example/)"), verdict_of(0.5), lead_to())[0].score
        for text in ("wren robin nest song", "robin zum zam zem")
    )
    assert sure > unsure


def test_without_a_graph_the_links_of_better_pages_come_first() -> None:
    made = ContextGraphRanker(terms_of, weigh)
    reading = reading_of("wren [x](http://a.example/)")
    good, bad = (scored_links(made, reading, verdict_of(score), lead_to())[0].score for score in (0.9, 0.1))
    assert good > bad


def test_page_is_its_most_telling_words_only() -> None:
    model = ContextGraphModel([LayeredDocument(0, dict.fromkeys(range(1, 200), 1)), LayeredDocument(1, {500: 1})])
    assert model._logs.shape == (2, 200)
    counted = model._probabilities([LayeredDocument(0, dict.fromkeys(range(1, 200), 1))])
    assert int((counted[0] > counted[0].min()).sum()) == CONTEXT_PAGE_TERMS


def test_words_of_one_stem_are_counted_together() -> None:
    assert layered_documents([(0, {"wren": 2, "wren wren": 1})], terms_of) == [
        LayeredDocument(0, {terms_of("wren")[0]: 4})
    ]


def test_ranker_keeps_to_the_protocol() -> None:
    check_ranker(ranker)
    check_ranker(lambda: ContextGraphRanker(terms_of, weigh))
