"""The judge of kind `dewey`: S2-11, S2-21, S2-38, S2-E6, and topics given as classes."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.small_webs import rows
from opilio.core.clock import VirtualClock
from opilio.core.errors import ConfigError, TopicError
from opilio.core.settings import Settings
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.topic import build_topic
from opilio.methods.dewey.detect import Galaxy, GalaxyRule, LexiconMatcher, ScoredClass, builtin_lexicon, parse_lexicon
from opilio.methods.dewey.judge import DeweyJudge, check_classes, class_names, class_words, load_lexicon, topic_classes
from opilio.testing.conformance import check_judge, reading_of
from opilio.text.vocabulary import Vocabulary
from opilio.topic.setup import resolve_settings
from opilio.topic.topic import make_topic

LEXICON = parse_lexicon(
    "598 | Birds | wren; nest; song\n346 | Private law | law; court\n336 | Taxes | tax; court\n", "small"
)
SITE = "http://a.example/"


@cache
def matcher() -> LexiconMatcher:
    return LexiconMatcher(LEXICON, Vocabulary(normalizer="none"))


def judge(*classes: str, threshold: float = 0.5) -> DeweyJudge:
    return DeweyJudge(matcher(), classes or ("598",), GalaxyRule(), threshold)


def settings(**topic: object) -> Settings:
    return complete_settings(resolve_settings({"strategy": "best-first", "topic": topic, "judge": {"kind": "dewey"}}))


def test_dewey_judge_passes_the_checks() -> None:
    check_judge(judge)


def test_page_is_relevant_where_its_galaxy_is_of_the_topic_s2_11() -> None:
    page = reading_of("wren nest law")
    assert judge("598").judge(page).relevant
    assert not judge("346").judge(page).relevant
    assert judge("346", threshold=0.2).judge(page).relevant  # no outlier: the other reading of S2-E6


def test_topic_class_may_be_a_beginning_of_the_number_s2_e6() -> None:
    assert judge("5").judge(reading_of("wren")).relevant
    assert judge("598.8").judge(reading_of("wren")).relevant


def test_page_without_index_terms_is_unknown_and_off_topic() -> None:
    verdict = judge(threshold=0.0).judge(reading_of("zzyzx qwyjibo"))
    assert (verdict.score, verdict.relevant) == (0.0, False)


def test_reasons_name_the_classes() -> None:
    shown = [reason.name for reason in judge().judge(reading_of("wren nest law")).reasons if reason.weight]
    assert shown == ["dewey", "598 Birds", "346 Private law"]


cells = st.lists(
    st.tuples(st.sampled_from(["598", "346", "336", "590"]), st.floats(0.1, 9.0)), max_size=4, unique_by=lambda c: c[0]
)


@given(cells)
def test_closeness_says_half_or_more_exactly_where_the_best_cell_is_of_the_topic(
    found: list[tuple[str, float]],
) -> None:
    ranked = tuple(ScoredClass(*cell) for cell in sorted(found, key=lambda cell: -cell[1]))
    close = Galaxy(ranked).closeness(["59"])
    best = max((score for _, score in ranked), default=0.0)
    assert 0.0 <= close <= 1.0
    assert (close >= 0.5) == any(code.startswith("59") and score == best for code, score in ranked)


def test_judge_without_classes_or_with_a_wrong_threshold_is_refused() -> None:
    with pytest.raises(TopicError, match=r"topic\.dewey"):
        DeweyJudge(matcher(), ())
    with pytest.raises(ConfigError, match=r"judge\.threshold"):
        judge(threshold=1.5)


@pytest.mark.parametrize("wrong", ["59x", "", "5,9", "777.1"])
def test_class_that_is_invalid_is_refused_by_name(wrong: str) -> None:
    with pytest.raises(TopicError, match=rf'topic\.dewey "{wrong}"'):
        check_classes([wrong], LEXICON)


def test_classes_lend_their_name_and_terms_to_a_topic() -> None:
    topic = build_topic(settings(dewey=["598.8", "598.8 "]))
    assert topic.dewey == ("598.8",)
    assert topic.name == builtin_lexicon().classes["598.8"].name
    assert next(iter(topic.keywords)) == builtin_lexicon().classes["598.8"].terms[0]
    named = build_topic(settings(dewey=["598"], name="my birds", keywords=["dodo"]))
    assert (named.name, named.keywords) == ("my birds", {"dodo": 1.0})


def test_beginning_of_a_number_lends_the_terms_of_all_below_it() -> None:
    words = class_words(["3"], LEXICON)
    assert words["law"] == words["tax"] == 1.0
    assert words["court"] == pytest.approx(1 / 1.1 / 2)  # second in line, and under two numbers
    assert class_names(["3", "598"], LEXICON) == "Private law; Birds"
    assert list(class_words(["598.85"], LEXICON)) == ["wren", "nest", "song"]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [("birds and their nests", "598"), ("astronomy: planets, stars, comets, galaxies and telescopes", "52")],
)
def test_topic_given_in_words_has_their_classes(sentence: str, expected: str) -> None:
    assert build_topic(settings(name=sentence)).dewey[0] == expected


def test_topic_without_any_index_term_is_refused() -> None:
    with pytest.raises(TopicError, match=r"give classes as topic\.dewey"):
        build_topic(settings(name="zzyzx qwyjibo"))
    example = make_topic("zzyzx", positive=("the wren sings a song",))
    assert topic_classes(example, matcher()) == ("598",)


def test_own_lexicon_comes_on_top_or_instead_or_in_another_scheme_s2_04(tmp_path: Path) -> None:
    own = tmp_path / "own.txt"
    own.write_text("598 | Birds | dodobird\n", encoding="utf-8")
    both = load_lexicon(settings(name="birds", lexicon_file=str(own)))
    assert {"dodobird", "wren"} <= set(both.numbers)
    alone = load_lexicon(settings(name="birds", lexicon_file=str(own), lexicon_use="instead"))
    assert list(alone.numbers) == ["dodobird"]
    own.write_text("59 | Animals | dodobird\n598.279.24 | Buzzards | buzzard\n", encoding="utf-8")
    with pytest.raises(TopicError, match=r"topic\.lexicon_file .*own\.txt, line 1: '59' is not a class number"):
        load_lexicon(settings(name="birds", lexicon_file=str(own)))
    other = build_topic(settings(dewey=["598.279"], lexicon_file=str(own), lexicon_use="other-scheme"))
    assert (other.name, list(other.keywords)) == ("Animals", ["buzzard"])


def test_lexicon_that_is_not_there_is_reported_before_a_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match=r"topic\.lexicon_file .*none\.txt"):
        build_topic(settings(name="birds", lexicon_file=str(tmp_path / "none.txt")))


@pytest.mark.parametrize("kind", ["dewey", "coverage", "learned"])
def test_crawl_goes_by_classes_alone(tmp_path: Path, kind: str) -> None:
    pages = {
        "seed": '<p>Birds: wrens and finches.</p><p><a href="/finch">finches</a></p><p><a href="/law">law</a></p>',
        "finch": "<p>The finch is a songbird; the plumage of the chaffinch, the siskin and the linnet.</p>",
        "law": "<p>The court of appeal decides on contracts, torts and other private law; the judge.</p>",
    }
    tree = plain_tree([SITE + "seed"], topic={"dewey": ["598"]}, judge={"kind": kind})
    answers = {SITE + p: html(SITE + p, f"<html><body>{body}</body></html>") for p, body in pages.items()}
    clock = VirtualClock()
    run_engine(tmp_path / "c", tree, PageFetcher(answers, clock, 0.0), clock=clock)
    assert dict(rows(tmp_path / "c", "SELECT replace(url, ?, ''), relevant FROM page", SITE)) == {
        "seed": 1,
        "finch": 1,
        "law": 0,
    }
