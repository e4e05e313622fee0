"""S1's ranker: the probability of four attributes, learned while crawling (S1-12, S1-14, S1-21…S1-24, S1-E6)."""

import numpy as np
import pytest

from checks.scored_links import scored_links
from opilio.core.records import Analysis, FetchResult, Outcome, Reading
from opilio.methods.attributes.features import LinkRows, TermFunctions, stack_rows
from opilio.methods.attributes.learner import LEARNER_NAMES, OnlineTrainer, make_learner
from opilio.methods.attributes.ranker import NEVER, AttributesRanker, pack_rows, unpack_rows
from opilio.methods.rivals.infospiders import InfoSpidersRanker
from opilio.testing.conformance import check_learner, check_ranker, lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.text.term_arrays import Terms, term_array
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import flat_idf
from opilio.topic.weights import table_from_weights

pytest.importorskip("sklearn")
WORDS = {"wren": 1.0, "song": 0.8, "hedge": 0.6, "nest": 0.5, "egg": 0.4, "wing": 0.3, "bird": 0.2, "tail": 0.1}
PAGE = """
the wren sings in the hedge [wren song](http://x.example/wren)
tax and law [forms](http://x.example/tax)
"""


def weigh(reading: Reading) -> tuple[Terms, np.ndarray]:
    terms, counts = np.unique(term_array(reading.terms), return_counts=True)
    return terms, counts.astype(np.float64)


def ranker(name: str = "bayes", table: int = 7, every: int = 4) -> AttributesRanker:
    teacher = OnlineTrainer(make_learner(name), every, least=2)
    return AttributesRanker(
        LinkRows(EvolvingTopic(table_from_weights(WORDS)), TermFunctions(url_terms, weigh, flat_idf), table), teacher
    )


def visited(url: str, relevant: bool, features: bytes) -> Outcome:
    analysis = Analysis(verdict=verdict_of(0.9 if relevant else 0.1, relevant))
    return Outcome(lead=lead_to(url, features=features), fetched=FetchResult(url=url), analysis=analysis)


def taught(name: str) -> AttributesRanker:
    """Links about wrens led to relevant pages, links about tax did not."""
    one = ranker(name)
    good, bad = (r.features for r in scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to()))
    one.learn([visited(f"http://x.example/{at}", at % 2 == 0, bad if at % 2 else good) for at in range(20)])
    return one


@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_ranker_keeps_to_the_protocol(name: str) -> None:
    check_ranker(lambda: ranker(name))
    check_ranker(lambda: taught(name))


@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_ranker_is_a_learner(name: str) -> None:
    good, bad = (r.features for r in scored_links(ranker(name), reading_of(PAGE), verdict_of(0.5), lead_to()))
    visits = [visited(f"http://x.example/{at}", at % 2 == 0, bad if at % 2 else good) for at in range(20)]
    check_learner(lambda: ranker(name), visits)


def test_before_both_classes_are_known_the_mean_counts() -> None:
    first = scored_links(ranker(), reading_of(PAGE), verdict_of(0.5), lead_to())[0]
    assert [p.name for p in first.parts] == ["url", "anchor", "parent", "around"]
    assert first.score == pytest.approx(np.mean([p.value for p in first.parts]))
    assert first.score > 0.3


@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_priority_is_the_probability_once_taught_s1_14(name: str) -> None:
    one = taught(name)
    wren, tax = scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to())
    assert one.version > 0 and wren.score > 0.6 and tax.score < 0.4


def test_equal_probabilities_are_ordered_by_the_attributes_s1_28() -> None:
    """A tree gives whole groups of links the same probability; first come, first served would be no priority."""
    one = taught("tree")
    rows = stack_rows(np.array([[1.0, 1.0, 1.0, 0.9], [1.0, 1.0, 1.0, 0.8]]), np.zeros((2, 4), dtype=np.bool_))
    better, worse = one.probabilities(rows)
    assert len(set(one.trainer.probability(rows).tolist())) == 1
    assert 0.0 < better - worse < 1e-3


def test_ranker_that_does_not_learn_keeps_the_mean_s1_12() -> None:
    one = AttributesRanker(taught("bayes").links, OnlineTrainer(make_learner("bayes"), 1, NEVER))
    good, bad = (r.features for r in scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to()))
    one.learn([visited(f"http://x.example/{at}", at % 2 == 0, bad if at % 2 else good) for at in range(20)])
    first = scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to())[0]
    assert one.version == 0
    assert first.score == pytest.approx(np.mean([p.value for p in first.parts]))


def test_version_grows_with_fits_only_s1_12() -> None:
    one = ranker(every=1_000)
    features = pack_rows(np.zeros((1, 8)))[0]
    versions = []
    for at in range(40):
        one.learn([visited(f"http://x.example/{at}", at % 3 == 0, features)])
        versions.append(one.version)
    assert versions[-1] == 1 == len(set(versions) - {0})


@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_snapshot_gives_a_worker_the_same_scores(name: str) -> None:
    one, worker = taught(name), ranker(name)
    worker.restore(one.snapshot())
    page = reading_of(PAGE), verdict_of(0.5), lead_to()
    assert worker.version == one.version and scored_links(worker, *page) == scored_links(one, *page)
    for learning in (one, worker):  # a resumed crawl continues
        learning.learn([visited("http://x.example/more", True, b"")] * 8)
    assert worker.snapshot() == one.snapshot()


def test_seed_is_a_row_of_its_address_s1_13_s1_e6() -> None:
    one = ranker()
    row = one.links.lead_row(lead_to("http://wren.example/"))[0]
    assert row[0] > 0.5 and row[1:].tolist() == [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]


def test_failures_and_duplicates_are_no_rows() -> None:
    one = ranker()
    before = one.snapshot()
    failed = Outcome(
        lead=lead_to("http://x.example/gone"), fetched=FetchResult(url="http://x.example/gone", status=404)
    )
    repeated = Outcome(
        lead=lead_to(), fetched=FetchResult(url=""), analysis=Analysis(verdict=verdict_of(1)), duplicate_of=7
    )
    one.learn([failed, repeated])
    assert one.snapshot() == before


def test_features_survive_packing_and_strangers_are_all_missing() -> None:
    rows = np.array([[0.5, 0.25, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0]])
    assert unpack_rows(pack_rows(rows)).tolist() == rows.tolist()
    assert unpack_rows([b"", b"other"]).tolist() == [[0.0] * 4 + [1.0] * 4] * 2
    assert unpack_rows([]).shape == (0, 8)


@pytest.mark.parametrize(("table", "tail"), [(7, False), (0, True)])
def test_only_the_seven_heaviest_words_count_s1_17(table: int, tail: bool) -> None:
    page = reading_of("[tail](http://x.example/a)")
    (link,) = scored_links(ranker(table=table), page, verdict_of(0.5), lead_to())
    assert (link.parts[1].value > 0.0) == tail


def test_grown_topic_is_seen() -> None:
    one = ranker()
    assert one.links.compiled_table is one.links.compiled_table
    before = one.links.compiled_table
    fresh = EvolvingTopic(table_from_weights({"tax": 1.0}))
    one.links.topic.restore(fresh.snapshot())
    assert one.links.compiled_table is not before and set(one.links.compiled_table.vector) == set(terms_of("tax"))


def spiders() -> InfoSpidersRanker:
    return InfoSpidersRanker(EvolvingTopic(table_from_weights(WORDS)))


def test_infospiders_keep_to_the_protocols_of_rankers_and_learners_s1_11() -> None:
    check_ranker(spiders)
    good, bad = (r.features for r in scored_links(spiders(), reading_of(PAGE), verdict_of(0.5), lead_to()))
    visits = [visited(f"http://x.example/{at}", at % 2 == 0, bad if at % 2 else good) for at in range(20)]
    check_learner(spiders, visits)


def test_infospiders_estimate_links_by_the_words_near_them_and_learn_otherwise_s1_11() -> None:
    one = spiders()
    inputs = one.inputs(reading_of(PAGE))
    assert inputs[0].sum() > inputs[1].sum()
    before = [link.score for link in scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to())]
    assert before[0] > before[1]
    good, bad = (r.features for r in scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to()))
    one.learn([visited(f"http://x.example/{at}", at % 2 == 1, bad if at % 2 else good) for at in range(60)])
    after = [link.score for link in scored_links(one, reading_of(PAGE), verdict_of(0.5), lead_to())]
    assert after[0] < before[0] and after[0] < after[1]
