"""Rankers: S0-25, S0-26, S0-28, S1-11, S4-18…S4-20, X-02, X-05, Fish, Shark."""

import numpy as np
import pytest

from checks.scored_links import links_of, scored_links
from opilio.core.errors import ConfigError
from opilio.core.protocols import Ranker
from opilio.core.records import Reason, Verdict
from opilio.rank.baselines import (
    BreadthRanker,
    FishRanker,
    LinkScoreRanker,
    ParentRanker,
    SharkRanker,
    inherited_potential,
)
from opilio.rank.topic_genre import TopicGenreOptions, TopicGenreRanker
from opilio.testing.conformance import HERE, PAGE, check_ranker, lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.genre import GenreDetector, default_genres
from opilio.topic.topic import OTHER_SENSE
from opilio.topic.weights import table_from_weights

TOPIC = EvolvingTopic(table_from_weights({"wren": 1.0, "nest": 0.5, "song": 0.25}))


def linkscore(**options: object) -> LinkScoreRanker:
    return LinkScoreRanker(TOPIC, url_terms, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "make",
    [
        BreadthRanker,
        ParentRanker,
        linkscore,
        lambda: linkscore(form="topic", threshold=0.5),
        FishRanker,
        lambda: SharkRanker(TOPIC),
        lambda: TopicGenreRanker(TOPIC, url_terms),
        lambda: TopicGenreRanker(
            TOPIC, url_terms, GenreDetector(default_genres(), terms_of), TopicGenreOptions(genre=1.0, scale="rank")
        ),
    ],
)
def test_every_ranker_passes_the_checks(make: type[Ranker]) -> None:
    check_ranker(make)


def test_breadth_prefers_shallow_pages_whatever_they_say() -> None:
    page = reading_of(PAGE)
    near, far = (
        scored_links(BreadthRanker(), page, verdict_of(s, False), lead_to(depth=d)) for s, d in ((0, 0), (1, 1))
    )
    assert near[0].score > far[0].score


def test_best_first_gives_links_the_score_of_their_page_s1_11() -> None:
    ranked = scored_links(ParentRanker(), reading_of(PAGE), verdict_of(0.4), lead_to())
    assert {r.score for r in ranked} == {0.4}


def test_link_score_is_the_sum_of_four_parts_s0_25() -> None:
    ranked = scored_links(linkscore(form="topic"), reading_of(PAGE), verdict_of(0.5), lead_to())
    for r in ranked:
        parts = {p.name: p.value for p in r.parts}
        assert parts.keys() == {"url", "anchor", "parent", "around"}
        assert all(0.0 <= v <= 1.0 for v in parts.values())
        assert r.score == pytest.approx(sum(parts.values())) and r.score <= 4.0
        assert parts["parent"] == 0.5
    wren = {p.name: p.value for p in ranked[2].parts}
    assert min(wren["url"], wren["anchor"], wren["around"]) > 0.5
    assert ranked[2].score == max(r.score for r in ranked)


def test_surrounding_text_does_not_repeat_the_anchor_s0_25() -> None:
    """ω is the text before and after the link: the anchor is already β."""
    alone, beside = "[wren](http://x.example/1)", "a nest [wren](http://x.example/1) in a hedge"
    parts = [
        {
            part.name: part.value
            for part in scored_links(linkscore(), reading_of(text), verdict_of(0.0), lead_to())[0].parts
        }
        for text in (alone, beside)
    ]
    assert [part["around"] > 0.0 for part in parts] == [False, True]
    assert parts[0]["anchor"] == parts[1]["anchor"] > 0.0


def test_parts_may_weigh_differently() -> None:
    only_parent = linkscore(weights={"url": 0, "anchor": 0, "around": 0})
    assert {r.score for r in scored_links(only_parent, reading_of(PAGE), verdict_of(0.5), lead_to())} == {0.5}
    with pytest.raises(ConfigError, match="heading: unknown"):
        linkscore(weights={"heading": 1.0})


def test_division_score_of_hati_and_kumar_is_a_setting() -> None:
    """Relevancy of the parent + Σ w of the topic's words in the link's block / Σ w of the topic."""
    division = linkscore(form="mass", weights={"url": 0})
    ranked = scored_links(division, reading_of("nest [wren](http://x.example/wren)"), verdict_of(0.4), lead_to())
    assert ranked[0].score == pytest.approx(0.4 + 1.5 / 1.75)


def test_link_below_the_threshold_is_dropped_s0_26_x_02() -> None:
    page = reading_of("[tax law](http://law.example/tax)\n[wren](http://birds.example/wren)")
    dropped = [r.dropped for r in scored_links(linkscore(threshold=0.5), page, verdict_of(0.1), lead_to())]
    assert dropped == ["below the threshold", ""]
    at = verdict_of(0.5)
    plain = reading_of("[tax law](http://law.example/tax)")
    assert scored_links(linkscore(threshold=0.5), plain, at, lead_to())[0].dropped == ""
    assert scored_links(linkscore(threshold=0.5, strict=True), plain, at, lead_to())[0].dropped


def test_link_threshold_follows_the_size_of_the_table_where_asked_s0_26_s0_e8() -> None:
    page = reading_of("[tax law](http://law.example/tax)")
    factor = (300 / len(TOPIC.table)) ** 0.1
    for parent, dropped in ((0.5 * factor + 1e-6, ""), (0.5 * factor - 1e-6, "below the threshold")):
        ranker = linkscore(threshold=0.5, threshold_words=300)
        assert scored_links(ranker, page, verdict_of(parent), lead_to())[0].dropped == dropped


@pytest.mark.parametrize(
    ("tunnel_depth", "tunnel", "kept"), [(0, 0, False), (3, 2, True), (3, 3, False), (-1, 99, True)]
)
def test_links_of_irrelevant_pages_by_focus_x_05(tunnel_depth: int, tunnel: int, kept: bool) -> None:
    page = reading_of("[wren](http://birds.example/wren)")
    for ranker in (linkscore(tunnel_depth=tunnel_depth), ParentRanker(tunnel_depth)):
        ranked = scored_links(ranker, page, verdict_of(0.0, relevant=False), lead_to(tunnel=tunnel))
        assert (ranked[0].dropped == "") is kept
        assert scored_links(ranker, page, verdict_of(0.6), lead_to(tunnel=tunnel))[0].dropped == ""


def test_good_link_of_an_irrelevant_page_passes_the_threshold_s0_28() -> None:
    hub = reading_of("[tax](http://law.example/)\n[wren song](http://birds.example/wren)")
    ranked = scored_links(linkscore(threshold=0.5, tunnel_depth=-1), hub, verdict_of(0.0, relevant=False), lead_to())
    assert [r.link.url for r in ranked if not r.dropped] == ["http://birds.example/wren"]


def test_page_of_another_sense_takes_its_links_with_it_s3_09() -> None:
    verdict = Verdict(score=0.0, relevant=False, reasons=(Reason(OTHER_SENSE, 3.0),))
    for ranker in (linkscore(tunnel_depth=-1), TopicGenreRanker(TOPIC, url_terms), ParentRanker(), BreadthRanker()):
        assert all(r.dropped for r in scored_links(ranker, reading_of(PAGE), verdict, lead_to()))


def test_growing_topic_changes_scores_at_once() -> None:
    topic = EvolvingTopic(table_from_weights({"wren": 1.0}))
    ranker = LinkScoreRanker(topic, url_terms)
    page = reading_of("[heron](http://birds.example/1)")
    assert scored_links(ranker, page, verdict_of(0.0), lead_to())[0].score == 0.0
    grown = EvolvingTopic(table_from_weights({"heron": 1.0}))
    topic.restore(grown.snapshot())
    assert scored_links(ranker, page, verdict_of(0.0), lead_to())[0].score == pytest.approx(1.0)  # the anchor


def test_columns_say_what_ranked_says() -> None:
    page = reading_of(PAGE)
    scores = linkscore().score(page, verdict_of(0.5), lead_to())
    ranked, columns = links_of(scores, page.page.links), scores.columns(page.page.links)
    assert columns.urls == [r.link.url for r in ranked]
    assert np.frombuffer(columns.scores, np.float32) == pytest.approx([r.score for r in ranked])
    parts = np.frombuffer(columns.parts, np.float32).reshape(len(ranked), -1)
    assert parts[2] == pytest.approx([p.value for p in ranked[2].parts])
    assert columns.dropped == {len(ranked) - 1: "nofollow"}
    assert np.frombuffer(columns.keys, np.int64).tolist() == [r.link.key for r in ranked]


def test_columns_of_a_page_without_links_are_empty() -> None:
    scores = linkscore().score(reading_of("wren"), verdict_of(0.5), lead_to())
    assert scores.columns(()).urls == [] and links_of(scores, ()) == []


def test_fish_feeds_the_first_links_only() -> None:
    page = reading_of(" ".join(f"[a](http://b.example/{i})" for i in range(6)))
    fish = FishRanker(width=2, bonus=1.5)
    assert [r.score for r in scored_links(fish, page, verdict_of(0.9), lead_to())] == [1, 1, 1, 0, 0, 0]
    poor = verdict_of(0.0, relevant=False)
    assert [r.score for r in scored_links(fish, page, poor, lead_to())] == [0.5, 0.5, 0, 0, 0, 0]
    assert all(r.dropped for r in scored_links(fish, page, poor, lead_to(tunnel=3)))


def test_shark_inherits_from_the_page_and_looks_around() -> None:
    page = reading_of("[wren](http://a.example/1)\n[tax](http://a.example/2) wren\n[tax](http://a.example/3)")
    ranked = scored_links(SharkRanker(TOPIC), page, verdict_of(0.8), lead_to())
    anchor = 1.0 / TOPIC.compiled.norm
    assert ranked[0].score == pytest.approx(0.5 * 0.4 + 0.5 * (0.8 * anchor + 0.2))
    assert ranked[0].score > ranked[1].score > ranked[2].score == pytest.approx(0.2)


def test_shark_hands_inheritance_through_pages_without_topic() -> None:
    shark, page = SharkRanker(TOPIC), reading_of("[tax](http://a.example/1)")
    first = scored_links(shark, page, verdict_of(0.8), lead_to())[0]
    lead = lead_to(HERE, score=first.score, features=first.features)
    assert inherited_potential(lead) == pytest.approx(0.4)
    assert scored_links(shark, page, verdict_of(0.0, relevant=False), lead)[0].score == pytest.approx(0.5 * 0.2)
    assert inherited_potential(lead_to(score=0.3)) == 0.3
