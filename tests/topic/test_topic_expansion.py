"""Growing tables: S0-21, S3-14, S3-15, S4-05, S4-26."""

import math
from collections.abc import Sequence
from typing import Literal

import msgspec
import pytest

from checks.tables import NO_NOISE_FILTER
from opilio.core.errors import TopicError
from opilio.core.events import TopicChanged
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, Reason, Verdict
from opilio.testing import check_learner
from opilio.text.vocabulary import term_id
from opilio.topic.evolving import EvolvingTopic, TopicLearner
from opilio.topic.expansion import (
    Expansion,
    ExpansionStart,
    FrozenExpansion,
    PagewiseExpansion,
    PeriodicExpansion,
    QueryLogExpansion,
    pagewise_expansion,
)
from opilio.topic.topic import OTHER_SENSE
from opilio.topic.weights import (
    Counts,
    Idf,
    NoiseFilter,
    QueryLogSmoothing,
    TfDf,
    TfIdf,
    WeightTable,
    table_from_weights,
)

BASE = table_from_weights({"wren": 1.0, "nest": 0.5})
PAGE = {"wren": 4, "song": 3, "perch": 1, "hedge": 2}
WORDS = "moss fern oak reed pond wing egg beak tail claw down bill".split()
SMOOTH = TfIdf(idf_source="smooth", noise=NO_NOISE_FILTER)


def outcome(
    counts: dict[str, int], relevant: bool = True, score: float = 0.9, duplicate_of: int = 0, depth: int = 1
) -> Outcome:
    verdict = Verdict(score=score, relevant=relevant)
    analysis = Analysis(verdict=verdict, counts=tuple(counts.items()))
    lead = Lead(url="http://a.example/", key=1, host="a.example", depth=depth)
    return Outcome(lead=lead, fetched=FetchResult(url=lead.url), analysis=analysis, duplicate_of=duplicate_of)


def learn(topic: EvolvingTopic, outcomes: Sequence[Outcome]) -> None:
    TopicLearner(topic).learn(outcomes)


def periodic(**options: object) -> PeriodicExpansion:
    return msgspec.structs.replace(PeriodicExpansion(base=BASE.weights, period=2, added=1, weighing=SMOOTH), **options)


def test_frozen_table_stays_s0_21() -> None:
    topic = EvolvingTopic(BASE)
    learn(topic, [outcome(PAGE)] * 100)
    assert topic.table is BASE and topic.version == 0


@pytest.mark.parametrize("kind", ["none", "periodic", "pagewise", "from seeds", "query-log"])
def test_topic_is_a_learner(kind: str) -> None:
    def make() -> TopicLearner:
        expansions = {
            "none": FrozenExpansion(),
            "periodic": periodic(),
            "pagewise": PagewiseExpansion(base=BASE.weights, period=3, weighing=SMOOTH),
            "from seeds": PagewiseExpansion(base=BASE.weights, awaited=2, weighing=SMOOTH),
            "query-log": QueryLogExpansion(interval=4, asked=[["wren", "song"]] * 3),
        }
        return TopicLearner(EvolvingTopic(BASE, expansions[kind]))

    pages = [outcome({**PAGE, word: at}, relevant=at % 3 > 0, depth=at % 2) for at, word in enumerate(WORDS)]
    check_learner(make, pages)


def test_past_tables_and_changes_are_given_once_s0_21() -> None:
    learner = TopicLearner(EvolvingTopic(BASE, periodic()), "agent-1")
    learner.learn([outcome(PAGE)] * 4)
    changes = learner.take_events(5.0)
    assert [change.version for change in changes if isinstance(change, TopicChanged)] == [1, 2]
    assert changes[0] == TopicChanged(at=5.0, version=1, added=("song",), size=3, agent="agent-1")
    assert [version for version, _ in learner.take_versions()] == [0, 1]
    assert not learner.take_versions() and not learner.take_events(6.0)


def test_workers_get_the_table_without_the_counts() -> None:
    learner, worker = (TopicLearner(EvolvingTopic(BASE, periodic())) for _ in range(2))
    learner.learn([outcome(PAGE)] * 2)
    worker.restore(learner.worker_state())
    assert worker.topic.table == learner.topic.table
    assert len(learner.worker_state()) < len(learner.snapshot())


def test_table_grows_after_a_period_of_relevant_pages_s0_21() -> None:
    topic = EvolvingTopic(BASE, periodic())
    learn(topic, [outcome(PAGE)])
    assert topic.version == 0
    learn(topic, [outcome(PAGE)])
    assert (topic.version, topic.table.added) == (1, ("song",))
    assert topic.table.weights["nest"] < BASE.weights["nest"]  # all weights were found anew
    assert term_id("song") in topic.compiled.vector


@pytest.mark.parametrize("expansion", [periodic(), PagewiseExpansion(base=BASE.weights, threshold=0.0, period=1)])
def test_irrelevant_and_repeated_pages_never_change_the_table_s0_21(expansion: Expansion) -> None:
    topic = EvolvingTopic(BASE, expansion)
    learn(topic, [outcome(PAGE, relevant=False), outcome(PAGE, duplicate_of=7)] * 20)
    assert topic.table is BASE


def test_outcome_without_a_verdict_is_no_lesson() -> None:
    topic = EvolvingTopic(BASE, periodic(period=1))
    empty = outcome(PAGE)
    learn(topic, [msgspec.structs.replace(empty, analysis=None), msgspec.structs.replace(empty, analysis=Analysis())])
    assert topic.table is BASE


def test_size_bounds_what_is_added() -> None:
    topic = EvolvingTopic(BASE, periodic(period=1, added=10, size=3))
    learn(topic, [outcome(PAGE)] * 3)
    assert len(topic.table) == 3


def test_full_table_exchanges_its_weakest_word_for_a_better_one_s0_21() -> None:
    """S0's table has 300 words before the crawl: without an exchange it could never learn a new one."""
    base = table_from_weights({"wren": 1.0, "nest": 0.5, "stray": 0.01})
    topic = EvolvingTopic(base, periodic(base=base.weights, period=1, added=1, size=3))
    learn(topic, [outcome(PAGE)])
    assert topic.table.weights.keys() == {"wren", "nest", "song"}
    learn(topic, [outcome({"wren": 9, "zzz": 1})])  # too weak to replace a word
    assert topic.table.weights.keys() == {"wren", "nest", "song"}


def test_weak_pages_are_left_out_of_a_period() -> None:
    topic = EvolvingTopic(BASE, periodic(period=1, min_score=0.8))
    learn(topic, [outcome(PAGE, score=0.5)])
    assert topic.table is BASE


@pytest.mark.parametrize(("share", "added"), [(0.0, set()), (0.5, {"song"}), (1.0, {"song", "hedge", "perch"})])
def test_page_adds_a_share_of_its_keywords_s3_15(share: float, added: set[str]) -> None:
    grown = PagewiseExpansion(base=BASE.weights, threshold=0.6, share=share, keywords=4, period=1, weighing=SMOOTH)
    topic = EvolvingTopic(BASE, grown)
    learn(topic, [outcome(PAGE, score=0.6)])
    assert topic.table.weights.keys() == {"wren", "nest"} | added


def test_word_of_one_page_alone_does_not_join_s3_e8() -> None:
    growing = PagewiseExpansion(base=BASE.weights, share=1.0, keywords=9, period=1, weighing=TfIdf(idf_source="smooth"))
    topic = EvolvingTopic(BASE, growing)
    learn(topic, [outcome({"wren": 3, "song": 2, "hedge": 1}), outcome({"wren": 3, "song": 2, "autoblog": 4})])
    assert topic.table.weights.keys() == {"wren", "nest", "song"}


def test_word_of_one_page_alone_takes_no_place_from_another_s3_e8() -> None:
    """Without the filter "autoblog" would be chosen with a weight of 0, and a table of three words would be full."""
    growing = PagewiseExpansion(base=BASE.weights, share=1.0, keywords=1, size=3, period=1, weighing=TfIdf())
    topic = EvolvingTopic(BASE, growing, lambda _: 1.0)
    learn(topic, [outcome({"wren": 1}), outcome({"autoblog": 4, "song": 1}), outcome({"song": 4, "wren": 1})])
    assert topic.table.weights.keys() == {"wren", "nest", "song"}


def test_filler_does_not_join_a_table_from_seeds_s3_e8() -> None:
    noise = NoiseFilter(min_documents=1, min_idf=5.0)
    rarity = {"year": 4.5, "railway": 6.9, "wren": 8.3, "nest": 6.0}
    for weighing in (TfIdf(noise=noise), TfDf(noise=noise)):
        growing = PagewiseExpansion(base=BASE.weights, awaited=1, share=0.0, weighing=weighing)
        topic = EvolvingTopic(BASE, growing, rarity.__getitem__)
        learn(topic, [outcome({"year": 9, "railway": 2, "wren": 1}, depth=0)])
        topic.finish_seeding()
        assert topic.table.weights.keys() == {"wren", "nest", "railway"}


def test_new_weights_wait_for_a_period_of_pages_s3_15() -> None:
    topic = EvolvingTopic(BASE, PagewiseExpansion(base=BASE.weights, period=3, weighing=SMOOTH))
    learn(topic, [outcome(PAGE)] * 2)
    assert topic.version == 0
    learn(topic, [outcome(PAGE)])
    assert topic.version == 1


def test_table_is_built_when_all_seeds_are_settled_s3_12() -> None:
    growing = PagewiseExpansion(
        base=BASE.weights, awaited=2, built=2, share=0.0, threshold=0.9, period=1, weighing=SMOOTH
    )
    topic = EvolvingTopic(BASE, growing)
    learn(topic, [outcome(PAGE, score=0.2, depth=0), outcome({"lake": 9}, relevant=False)])
    assert topic.table is BASE
    topic.finish_seeding()
    assert topic.table.weights.keys() == {"wren", "nest", "song"}  # its two heaviest, and what was given
    learn(topic, [outcome({"lake": 9}, score=0.95)] * 3)
    assert topic.table.weights.keys() == {"wren", "nest", "song"}  # static from now on (S3-14)


def test_table_is_the_top_k_of_all_seeds_relevant_or_not_s3_12() -> None:
    """As in the paper: neither the judge nor the user's words decide what is in the table, only the seeds."""
    growing = PagewiseExpansion(base=BASE.weights, awaited=2, built=3, trust=1.0, share=0.0, weighing=SMOOTH)
    topic = EvolvingTopic(BASE, growing)
    pages = {"wren": 8, "song": 6, "hedge": 3, "nest": 1}, {"song": 5, "lake": 3}
    seeds = [outcome(page, relevant=False, depth=0) for page in pages]
    learn(topic, [*seeds, outcome({"marsh": 9}, depth=1)])  # a page that is no seed does not count
    topic.finish_seeding()
    assert [k.stem for k in topic.table.keywords] == ["song", "wren", "lake"]
    weights = SMOOTH.weigh(growing.pages)
    assert topic.table.weights["wren"] == pytest.approx(weights["wren"] / weights["song"])


def test_given_seeds_that_are_not_on_the_topic_do_not_feed_the_table_s3_12() -> None:
    """The paper's seeds are search results. Without a seed on the topic, pages join the user's words, half each."""
    growing = PagewiseExpansion(
        base=BASE.weights, awaited=2, trust=1.0, searched=False, share=1.0, period=1, weighing=SMOOTH
    )
    topic = EvolvingTopic(BASE, growing)
    learn(topic, [outcome({"portal": 5}, relevant=False, depth=0), outcome({"login": 2}, relevant=False, depth=0)])
    topic.finish_seeding()
    assert topic.table is BASE
    learn(topic, [outcome({"song": 3, "wren": 1})])
    assert topic.table.weights.keys() == {"wren", "nest", "song"}


def test_words_of_irrelevant_pages_lose_their_weight_s3_11_s3_e8() -> None:
    growing = PagewiseExpansion(base=BASE.weights, awaited=2, trust=1.0, share=1.0, period=4, weighing=SMOOTH)
    topic = EvolvingTopic(BASE, growing)
    learn(topic, [outcome({"wren": 2, "town": 2, "song": 1}, depth=0), outcome({"wren": 2, "town": 2}, depth=0)])
    topic.finish_seeding()
    before = topic.table.weights
    assert before["town"] == before["wren"]
    # Pages about another sense are ignored (S3-09): they may well be full of the topic's words.
    other = Verdict(score=0.0, relevant=False, reasons=(Reason(OTHER_SENSE, 3.0),))
    page = outcome({"wren": 9}, relevant=False)
    assert page.analysis is not None
    learn(topic, [msgspec.structs.replace(page, analysis=msgspec.structs.replace(page.analysis, verdict=other))] * 4)
    assert topic.table.weights == before
    learn(topic, [outcome({"town": 3, "council": 1}, relevant=False)] * 4)
    after = topic.table.weights
    assert after["wren"] == 1.0
    # In all of 4 irrelevant pages, smoothed by two: a third of the weight is left; no word is added.
    assert after["town"] == pytest.approx(1 / 3)
    assert after.keys() == before.keys()


def test_table_of_the_user_stays_when_no_seed_can_be_read_s3_12() -> None:
    topic = EvolvingTopic(BASE, PagewiseExpansion(base=BASE.weights, awaited=2, trust=1.0))
    topic.finish_seeding()
    assert topic.table is BASE and not topic.expansion.waits_for_seeds


def test_page_below_t_r_adds_nothing_s3_15() -> None:
    topic = EvolvingTopic(BASE, PagewiseExpansion(base=BASE.weights, threshold=0.8, period=1))
    learn(topic, [outcome(PAGE, score=0.79)])
    assert topic.table is BASE


def test_table_follows_the_log_at_each_interval_s4_05_s4_26() -> None:
    growing = QueryLogExpansion(log=QueryLogSmoothing(threshold=1.0), interval=2)
    topic = EvolvingTopic(BASE, growing)
    growing.add_queries([["heron"]] * 4)
    learn(topic, [outcome(PAGE)])
    assert topic.table is BASE
    learn(topic, [outcome(PAGE)])
    assert topic.table.weights == {"heron": 1.0}
    growing.add_queries([["stork"]] * 8)
    learn(topic, [outcome(PAGE)] * 2)
    assert topic.table.keywords[0].stem == "stork"


def test_common_words_of_queries_are_dropped_unless_the_user_named_them_s4_06() -> None:
    idf = {"heron": 9.0, "small": 3.0, "bird": 4.0}.__getitem__
    growing = QueryLogExpansion(interval=1, min_idf=5.0, given=frozenset({"bird"}))
    topic = EvolvingTopic(BASE, growing, background=idf)
    growing.add_queries([["small", "heron"], ["small", "bird"]] * 4)
    learn(topic, [outcome(PAGE)])
    assert topic.table.weights.keys() == {"heron", "bird"}
    learned = EvolvingTopic(BASE, msgspec.structs.replace(growing, min_idf=0.0, waiting=1), background=idf)
    learned.grow()
    assert learned.table.weights.keys() == {"heron", "bird", "small"}


def test_log_is_read_on_where_it_was_left_s4_05() -> None:
    log = [["heron"]] * 4 + [["stork"]] * 8
    topic = EvolvingTopic(BASE, QueryLogExpansion(interval=1), queries=lambda at: (log[at : at + 4], at + 4, {}))
    learn(topic, [outcome(PAGE, relevant=False)])
    assert topic.table.weights == {"heron": 1.0}
    resumed = EvolvingTopic(WeightTable(), queries=lambda at: (log[at:], len(log), {}))
    resumed.restore(topic.snapshot())
    learn(resumed, [outcome(PAGE)])
    assert resumed.table.keywords[0].stem == "stork"


def test_table_built_from_seeds_is_built_once_s3_12() -> None:
    topic = EvolvingTopic(BASE, PagewiseExpansion(base=BASE.weights, awaited=2, weighing=SMOOTH))
    learn(topic, [outcome(PAGE, depth=0)])
    topic.finish_seeding()
    assert topic.version == 1
    resumed = EvolvingTopic(WeightTable())
    resumed.restore(topic.snapshot())
    resumed.finish_seeding()
    assert resumed.version == 1


def test_words_of_other_senses_never_join_s3_09() -> None:
    topic = EvolvingTopic(BASE, periodic(period=1, added=9), banned=frozenset({"song"}))
    learn(topic, [outcome(PAGE)] * 3)
    assert {"hedge", "perch"} < topic.table.weights.keys() and "song" not in topic.table.weights


@pytest.mark.parametrize("expansion", [periodic(), PagewiseExpansion(base=BASE.weights, period=2, weighing=SMOOTH)])
def test_table_grows_on_from_the_edit_of_a_user(expansion: Expansion) -> None:
    topic = EvolvingTopic(BASE, msgspec.structs.replace(expansion))
    learn(topic, [outcome(PAGE)] * 2)
    assert "song" in topic.table.weights
    topic.replace(table_from_weights({"wren": 1.0, "robin": 0.9}))
    again = EvolvingTopic(WeightTable())
    again.restore(topic.snapshot())
    learn(again, [outcome(PAGE | {"nest": 9, "tail": 2})] * 2)
    assert {"wren", "robin"} < again.table.weights.keys()  # and something new
    assert not {"nest", "song"} & again.table.weights.keys()  # taken out by hand: pages don't bring them back
    assert again.merge_words(table_from_weights({"nest": 1.0})) == 0
    again.replace(table_from_weights({"nest": 1.0}))
    assert list(again.table.weights) == ["nest"]  # the same hand may


def test_words_that_join_are_shown_as_pages_write_them_s0_e4() -> None:
    topic = EvolvingTopic(BASE, periodic(period=1))
    page = outcome({"databas": 5})
    assert page.analysis is not None
    analysis = msgspec.structs.replace(page.analysis, surfaces=("databases",))
    learn(topic, [msgspec.structs.replace(page, analysis=analysis)])
    assert "databases" in {k.label for k in topic.table.keywords}


def test_silent_log_leaves_the_table_alone() -> None:
    topic = EvolvingTopic(BASE, QueryLogExpansion(interval=1))
    learn(topic, [outcome(PAGE)])
    assert topic.table is BASE


@pytest.mark.parametrize("after", range(5))
def test_restored_topic_goes_on_as_if_never_stopped(after: int) -> None:
    straight, stopped = EvolvingTopic(BASE, periodic()), EvolvingTopic(BASE, periodic())
    pages = [outcome({"wren": 2, f"word{i}": 3, "song": 1}) for i in range(5)]
    learn(straight, pages)
    learn(stopped, pages[:after])
    resumed = EvolvingTopic(WeightTable())
    resumed.restore(stopped.snapshot())
    learn(resumed, pages[after:])
    assert resumed.table == straight.table and resumed.version == straight.version


class CountedPages(Expansion, tag="counted"):
    """An expansion as a plug-in defines it."""

    pages: int = 0

    def add_page(self, counts: Counts, score: float, background: Idf | None = None) -> None:
        del counts, score, background
        self.pages += 1


def test_expansion_of_a_plugin_is_restored_by_its_own_type() -> None:
    topic = EvolvingTopic(BASE, CountedPages())
    learn(topic, [outcome(PAGE)] * 3)
    resumed = EvolvingTopic(WeightTable(), CountedPages())
    resumed.restore(topic.snapshot())
    assert (resumed.expansion, resumed.table) == (CountedPages(pages=3), BASE)


def test_table_of_an_unknown_expansion_can_be_read_and_stays() -> None:
    reader = EvolvingTopic(WeightTable())
    reader.restore(EvolvingTopic(BASE, CountedPages()).snapshot())
    learn(reader, [outcome(PAGE)] * 3)
    assert (reader.expansion, reader.table) == (FrozenExpansion(), BASE)


def test_shown_words_survive_growth() -> None:
    base = table_from_weights({"databas": 1.0}, shown={"databas": "database"})
    topic = EvolvingTopic(base, PeriodicExpansion(base=base.weights, period=1, weighing=SMOOTH))
    learn(topic, [outcome({"databas": 2, "wren": 1})])
    assert topic.table.keywords[0].label == "database"


@pytest.mark.parametrize(
    "make",
    [
        lambda: PeriodicExpansion(base={}, period=0),
        lambda: PeriodicExpansion(base={}, trust=1.5),
        lambda: PagewiseExpansion(base={}, threshold=2.0),
        lambda: QueryLogExpansion(interval=0),
    ],
)
def test_impossible_options_are_refused(make: type[FrozenExpansion]) -> None:
    with pytest.raises(TopicError):
        make()


def test_idf_grows_with_the_pages_when_asked_s3_11() -> None:
    start = ExpansionStart({"wren": 1.0})
    kinds: tuple[Literal["online", "background"], ...] = ("online", "background")
    online, general = (
        pagewise_expansion(start, threshold=0.0, share=0.2, min_documents=1, period=1, idf=idf) for idf in kinds
    )
    for page in ({"nest": 3, "owl": 1}, {"nest": 3, "egg": 1}, {"nest": 3, "song": 2}):
        for expansion in (online, general):
            expansion.add_page(page, 1.0, lambda _: 1.0)
    tables = [e.next_table(WeightTable(), lambda _: 1.0).weights for e in (online, general)]
    # `nest` is in all three pages, `song` in one: ln(1 + 3/3) against ln(1 + 3/1).
    expected = (2 / 5 * math.log(4)) / ((3 / 4 + 3 / 4 + 3 / 5) * math.log(2))
    assert tables[0]["song"] / tables[0]["nest"] == pytest.approx(expected)
    assert tables[1]["song"] / tables[1]["nest"] == pytest.approx((2 / 5) / (3 / 4 + 3 / 4 + 3 / 5))
