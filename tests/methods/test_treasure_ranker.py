"""S2's link score: topical focus, T-Graph priority, and what is handed on (S2-12, S2-13, S2-38, S2-E8)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from checks.scored_links import scored_links
from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START, Link, Outcome, Page, Reading, Verdict, url_key
from opilio.methods.dewey.detect import (
    PAPER_RULE,
    RECOMMENDED_RULE,
    GalaxyRule,
    LexiconMatcher,
    link_galaxies,
    parse_lexicon,
)
from opilio.methods.dewey.judge import DeweyTarget
from opilio.methods.treasure.focus import MAX_WINDOW_TERMS, LinkFocusDetector
from opilio.methods.treasure.graph import GraphNode, LinkDestination, TGraph
from opilio.methods.treasure.matching import DC_WEIGHTS, MatchingOptions
from opilio.methods.treasure.ranker import TextFunctions, TreasureRanker
from opilio.methods.treasure.updater import GraphUpdater, GraphUpdaterOptions
from opilio.testing.conformance import check_learner, check_ranker, lead_to, verdict_of
from opilio.text.reading import PageReader, ParagraphContext
from opilio.text.vocabulary import Vocabulary

VOCABULARY = Vocabulary(normalizer="porter")
LEXICON = parse_lexicon(
    """
415 | Grammar | grammar; verb; sentence
413 | Dictionaries | dictionary; word
385 | Railways | train; railway
598 | Birds | wren; word
598.8 | Perching birds | sparrow
598.9 | Birds of prey | hawk
155.95 | Clothing psychology | clothing
391 | Costume | clothing
746.92 | Fashion | clothing
""",
    "small",
)
TARGET = DeweyTarget(LexiconMatcher(LEXICON, VOCABULARY), ("41",))


def page_of(*blocks: str, title: str = "", url: str = "http://here.example/") -> Reading:
    """Blocks of text; `[words|/path]` is a link under the heading that stands before `#` in its block."""
    flow: list[str] = []
    links: list[Link] = []
    for block in blocks:
        heading, _, text = block.rpartition("#")
        out = ""
        for piece in text.replace("[", "\0[").replace("]", "]\0").split("\0"):
            if piece.startswith("["):
                anchor, _, path = piece[1:-1].partition("|")
                target = f"http://here.example/{path}"
                links.append(
                    Link(
                        url=target, key=url_key(target), host="here.example", anchor=anchor,
                        headings=(heading, "", title), index=len(links),
                    )
                )  # fmt: skip
                out += f"{LINK_START}{anchor}{LINK_END}"
            else:
                out += piece
        flow.append(out)
    page = Page(url=url, title=title, links=tuple(links), flow=BLOCK_BREAK.join(flow), boilerplate=(False,) * len(flow))
    return PageReader(VOCABULARY, ParagraphContext()).read(page)


def graph() -> TGraph:
    target = GraphNode(id="t", url="", level=0, mh="Syntax")
    near = GraphNode(
        id="near", url="", level=1, ish="Grammar", dc="verb sentence", dic=LinkDestination(leads_to=("t",))
    )
    far = GraphNode(id="far", url="", level=2, ish="Words", dc="dictionary", dic=LinkDestination(leads_to=("near",)))
    return TGraph([target, near, far])


def ranker(
    how: MatchingOptions | None = None, rule: GalaxyRule = PAPER_RULE, watchdog: GraphUpdater | None = None
) -> TreasureRanker:
    dog = watchdog or GraphUpdater(GraphUpdaterOptions(period=5), graph())
    return TreasureRanker(
        dog, TextFunctions(VOCABULARY.terms, VOCABULARY.text_of), how, LinkFocusDetector(TARGET, rule)
    )


PAGE = page_of(
    "Grammar#a verb in a [sentence|a]",
    "Words#a [dictionary|b] of words",
    "Trains#the [train|c] and the verb and the railway",
    "Grammar#[clothing|d]",
    title="Language",
)


def scores(made: TreasureRanker, reading: Reading = PAGE, verdict: Verdict | None = None) -> list[float]:
    return [round(r.score, 4) for r in scored_links(made, reading, verdict or verdict_of(0.9), lead_to())]


def test_priority_follows_the_nearest_matching_node_on_topic_s2_32_s2_38() -> None:
    assert scores(ranker()) == [1.0, 0.5, 0.01, 0.01]  # the last two: their focus is 385 and 155, whatever they match


def test_links_of_off_topic_pages_are_kept_at_the_lowest_priority_s2_13_s2_e8() -> None:
    ranked = scored_links(ranker(), PAGE, verdict_of(0.2, relevant=False), lead_to())
    assert [r.score for r in ranked] == [0.01] * 4
    assert [r.dropped for r in ranked] == [""] * 4
    assert [r.features for r in ranked] == [b""] * 4


def test_threshold_decides_s2_40() -> None:
    assert scores(ranker(MatchingOptions(threshold=0.9))) == [0.01] * 4


def test_anchor_impact_changes_the_focus_s2_22_s2_e7() -> None:
    reading = page_of("Grammar#the [verb|a] and the railway")
    for impact, expected in ((1.4, 1.0), (0.5, 0.01)):
        made = ranker(rule=GalaxyRule(anchor_impact=impact, tens_share=0.0, hundreds_share=0.0))
        assert scores(made, reading) == [expected]


def test_link_without_index_terms_is_known_by_its_heading_then_by_the_title() -> None:
    focus = LinkFocusDetector(TARGET, PAPER_RULE)
    assert focus.detect(page_of("Grammar#[click here|a]")).on_topic.tolist() == [True]
    assert focus.detect(page_of("News#[click here|a]", title="All verbs")).on_topic.tolist() == [True]
    assert focus.detect(page_of("News#[click here|a]", title="Trains")).on_topic.tolist() == [False]
    assert focus.detect(page_of("News#[click here|a]")).on_topic.tolist() == [False]  # unknown


words = st.sampled_from(
    "verb grammar word train wren clothing sparrow hawk nothing [word|a] [train|b] [verb|c] [hawk|d]".split()
)


@given(
    st.lists(st.lists(words, max_size=8), max_size=4),
    st.sampled_from([PAPER_RULE, RECOMMENDED_RULE]),
    st.integers(1, 6),
    st.sampled_from([("41",), ("598.9",), ("598", "746.9")]),
)
def test_focus_of_all_links_is_that_of_each_s2_21(
    blocks: list[list[str]], weighing: GalaxyRule, digits: int, classes: tuple[str, ...]
) -> None:
    reading, rule = page_of(*(" ".join(block) for block in blocks)), replace(weighing, max_length=digits)
    found = LinkFocusDetector(DeweyTarget(TARGET.matcher, classes), rule).detect(reading)
    galaxies = link_galaxies(reading, TARGET.matcher, rule)
    assert found.on_topic.tolist() == [galaxy.on_topic(classes) for galaxy in galaxies]
    assert found.closeness.tolist() == pytest.approx([galaxy.closeness(classes) for galaxy in galaxies])


@pytest.mark.parametrize(("digits", "expected"), [(1, [True, True]), (3, [True, True]), (4, [False, True])])
def test_focus_is_as_deep_as_the_digits_used_s2_f11(digits: int, expected: list[bool]) -> None:
    focus = LinkFocusDetector(DeweyTarget(TARGET.matcher, ("598.9",)), GalaxyRule(max_length=digits))
    assert focus.detect(page_of("[sparrow|a]", "[hawk|b]")).on_topic.tolist() == expected


def test_focus_between_equals_is_the_lower_number_s2_21() -> None:
    """Not the one that a rounding error puts ahead: its sum may be that of the same weights in another order."""
    reading = page_of("wren word clothing grammar [word|a] clothing train")
    assert LinkFocusDetector(TARGET, replace(RECOMMENDED_RULE, max_length=1)).detect(reading).on_topic.tolist() == [
        True
    ]


def test_focus_begins_at_the_words_of_the_link_s2_23() -> None:
    reading = page_of("trains, a railway and trains, then a [verb|a] of grammar")
    assert LinkFocusDetector(TARGET, PAPER_RULE).detect(reading).on_topic.tolist() == [True]
    assert LinkFocusDetector(TARGET, RECOMMENDED_RULE).detect(reading).on_topic.tolist() == [
        False
    ]  # by all of the paragraph


def test_link_in_a_long_list_is_plotted_to_its_end_s2_23() -> None:
    """By our own weights the list is cut, but not so that a link is left without its words."""
    reading = page_of(
        "nothing " * (MAX_WINDOW_TERMS - 1) + "[nothing|a] " + "train " * 300 + "[verb|b] " + "grammar " * 400
    )
    target = DeweyTarget(TARGET.matcher, ("385",))
    assert LinkFocusDetector(target, PAPER_RULE).detect(reading).on_topic.tolist() == [False, False]
    assert LinkFocusDetector(target, replace(PAPER_RULE, repeats=0.9)).detect(reading).on_topic.tolist() == [
        True,
        False,
    ]


def test_ranker_keeps_to_the_protocol() -> None:
    check_ranker(
        lambda: TreasureRanker(
            GraphUpdater(GraphUpdaterOptions(), graph()), TextFunctions(VOCABULARY.terms, VOCABULARY.text_of)
        )
    )


def fetched(made: TreasureRanker, place: int, relevant: bool) -> Outcome:
    from opilio.core.records import Analysis
    from opilio.core.records import FetchResult as Fetched

    ranked = scored_links(made, PAGE, verdict_of(0.9), lead_to())[place]
    lead = lead_to(ranked.link.url, features=ranked.features, parent=url_key("http://here.example/"))
    return Outcome(
        lead=lead,
        fetched=Fetched(url=lead.url, status=200),
        analysis=Analysis(title="Deep syntax", verdict=verdict_of(0.9 if relevant else 0.1, relevant)),
    )


def test_ranker_is_a_learner() -> None:
    def make() -> TreasureRanker:
        return ranker(watchdog=GraphUpdater(GraphUpdaterOptions(period=1), graph()))

    check_learner(make, [fetched(make(), at, relevant=True) for at in (1, 2)])


def test_what_a_link_hands_on_teaches_the_watchdog_s2_14() -> None:
    made = ranker(watchdog=GraphUpdater(GraphUpdaterOptions(period=1), graph()))
    made.learn([fetched(made, 1, relevant=True)])
    assert made.version == 1
    assert made.updater.graph.nodes["far"].dic.hits == 1
    grown = next(n for n in made.updater.graph.at_level(1) if n.id != "near")
    assert [*map(VOCABULARY.terms, (grown.ish, grown.mh))] == [*map(VOCABULARY.terms, ("Words", "Language"))]
    assert "dictionary" in grown.dc
    assert [event.added for event in made.take_events(1.0)] == [2]
    assert made.take_events(2.0) == []


def test_nodes_of_the_watchdog_keep_the_words_of_the_link_where_they_count() -> None:
    texts = TextFunctions(VOCABULARY.terms, VOCABULARY.text_of, rarity=lambda terms: np.ones(len(terms)))
    dog = GraphUpdater(GraphUpdaterOptions(period=1), graph())
    made = TreasureRanker(dog, texts, MatchingOptions(weights=DC_WEIGHTS), LinkFocusDetector(TARGET, PAPER_RULE))
    made.learn([fetched(made, 1, relevant=True)])
    grown = next(n for n in made.updater.graph.at_level(1) if n.id != "near")
    assert VOCABULARY.terms(grown.anchor) == VOCABULARY.terms("dictionary")


def test_snapshot_gives_another_process_the_same_scores() -> None:
    made, other = (
        ranker(watchdog=GraphUpdater(GraphUpdaterOptions(period=1), graph())),
        ranker(watchdog=GraphUpdater(GraphUpdaterOptions(period=1))),
    )
    made.learn([fetched(made, 1, relevant=True)])
    assert scores(other) == [0.01] * 4
    other.restore(made.snapshot())
    assert scores(other) == scores(made) == [1.0, 1.0, 0.01, 0.01]


def test_synonyms_find_nodes_where_asked_s2_f3() -> None:
    reading = page_of("Speech part#[here|a]")
    plain = TreasureRanker(
        GraphUpdater(GraphUpdaterOptions(), graph()), TextFunctions(VOCABULARY.terms, VOCABULARY.text_of)
    )
    assert scores(plain, reading) == [0.01]
    synonyms = {"Grammar": "speech part"}
    wider = TextFunctions(
        VOCABULARY.terms, VOCABULARY.text_of, lambda text: VOCABULARY.terms(f"{text} {synonyms.get(text, '')}")
    )
    assert scores(TreasureRanker(GraphUpdater(GraphUpdaterOptions(), graph()), wider), reading) == [1.0]


def test_weights_are_fitted_where_asked_s2_f8() -> None:
    dog = GraphUpdater(GraphUpdaterOptions(period=1_000), graph())
    made = TreasureRanker(dog, TextFunctions(VOCABULARY.terms, VOCABULARY.text_of), fit=True)
    for _ in range(60):
        made.learn([fetched(made, 0, relevant=True), fetched(made, 1, relevant=False)])
    assert sum(dog.weights) == pytest.approx(1.0)
    assert dog.weights != (0.25, 0.25, 0.25, 0.25)
