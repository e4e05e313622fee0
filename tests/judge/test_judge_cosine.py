"""Judges: S0-23, S0-24, S3-16, S3-30, S4-17, X-01, X-02."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.errors import ConfigError, TopicError
from opilio.judge.similarity import BlendJudge, ContainsJudge, CosineJudge
from opilio.testing.conformance import check_judge, reading_of, terms_of
from opilio.text.vocabulary import term_id
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.weights import table_from_weights

WORDS = PageTerms(terms_of)
TF = PageTerms(terms_of, weights="tfidf")
BIRDS = table_from_weights({"wren": 1.0, "nest": 0.5, "song": 0.25})
S0_TABLE_2 = {"int": 1, "code": 0.92, "algorithm": 0.87, "program": 0.81, "database": 0.78, "internet": 0.76}
S0_TABLE_2 |= {"html": 0.69, "computer": 0.61, "hardware": 0.58, "software": 0.53}


def cosine(**options: object) -> CosineJudge:
    return CosineJudge(EvolvingTopic(BIRDS), WORDS, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "judge",
    [
        cosine,
        lambda: cosine(norm="topic"),
        lambda: ContainsJudge("wren song", WORDS),
        lambda: BlendJudge([("cosine", cosine(), 2.0), ("contains", ContainsJudge("wren", WORDS), 1.0)]),
    ],
)
def test_every_judge_passes_the_checks(judge: type[CosineJudge]) -> None:
    check_judge(judge)


@pytest.mark.parametrize(("norm", "score"), [("topic", 0.3219), ("page", 0.0776), ("whole", 0.0776)])
def test_page_score_of_the_paper_by_norm_s0_23_x_01(norm: str, score: float) -> None:
    weights = {term_id("computer"): 0.2, term_id("software"): 0.1, term_id("banana"): 0.9}
    words = PageTerms(terms_of, idf=lambda terms: np.array([weights[t] for t in terms.tolist()]), weights="tfidf")
    judge = CosineJudge(EvolvingTopic(table_from_weights(S0_TABLE_2)), words, norm=norm)  # type: ignore[arg-type]
    assert judge.judge(reading_of("computer software banana")).score == pytest.approx(score, abs=5e-5)


def test_threshold_is_met_at_equality_unless_strict_s0_24_x_02() -> None:
    page = reading_of("wren")
    score = cosine().judge(page).score
    assert cosine(threshold=score).judge(page).relevant
    assert not cosine(threshold=score, strict=True).judge(page).relevant


def test_threshold_follows_the_size_of_the_table_where_asked_s0_e8() -> None:
    """S0's threshold is meant for 300 words; the order of scores, and so Eq. 5, stays."""
    page = reading_of("wren lake")
    small = cosine(norm="topic").judge(page).score
    sized = {"norm": "topic", "threshold_words": 300}
    factor = (300 / len(BIRDS)) ** 0.1
    assert cosine(**sized, threshold=small / factor - 1e-9).judge(page).relevant
    assert not cosine(**sized, threshold=small / factor + 1e-9).judge(page).relevant
    assert cosine(**sized, threshold=small).judge(page).score == small


def test_reasons_name_the_words_with_shares_that_add_up() -> None:
    verdict = cosine().judge(reading_of("wren wren nest lake"))
    words = {r.name: r.value for r in verdict.reasons[2:]}
    assert list(words) == ["wren", "nest"]
    assert sum(words.values()) == pytest.approx(verdict.score)


def test_boiler_plate_does_not_count_and_the_title_does() -> None:
    judge = cosine()
    assert judge.judge(reading_of("~ wren nest\nlake shore")).score == 0.0
    titled = judge.judge(reading_of("lake shore", title="Wren"))
    assert titled.score > judge.judge(reading_of("lake shore", description="wren")).score > 0.0


def test_page_of_boiler_plate_only_is_read_all_the_same() -> None:
    assert cosine().judge(reading_of("~ wren nest")).score > 0.5


def test_damping_keeps_one_repeated_word_from_deciding() -> None:
    once, often = reading_of("wren nest lake"), reading_of("wren nest " + "lake " * 20)
    plain, damped = (CosineJudge(EvolvingTopic(BIRDS), words) for words in (TF, WORDS))
    fall_plain = plain.judge(often).score / plain.judge(once).score
    assert fall_plain < damped.judge(often).score / damped.judge(once).score < 1.0


def test_empty_table_scores_zero_s3_e9() -> None:
    verdict = CosineJudge(EvolvingTopic(table_from_weights({})), WORDS).judge(reading_of("wren"))
    assert (verdict.score, verdict.relevant) == (0.0, False)


def test_unknown_norm_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"judge\.norm"):
        cosine(norm="parent")


vectors = st.dictionaries(st.sampled_from(["wren", "nest", "song", "lake"]), st.integers(1, 9), min_size=1)


@given(vectors, vectors)
def test_cosine_is_symmetric_and_within_range_s3_16(one: dict[str, int], two: dict[str, int]) -> None:
    def score(table: dict[str, int], page: dict[str, int]) -> float:
        text = " ".join(f"{w} " * n for w, n in page.items())
        return CosineJudge(EvolvingTopic(table_from_weights(table)), TF).judge(reading_of(text)).score

    assert 0.0 <= score(one, two) <= 1.0
    assert score(one, two) == pytest.approx(score(two, one))
    assert score(one, one) == pytest.approx(1.0)


def test_containing_the_query_needs_all_words_or_any_s3_30() -> None:
    page = reading_of("the wren in its nest")
    assert ContainsJudge("wren nest", WORDS).judge(page).relevant
    half = ContainsJudge("wren song", WORDS).judge(page)
    assert (half.score, half.relevant) == (0.5, False)
    assert ContainsJudge("wren song", WORDS, need="any").judge(page).relevant


def test_query_without_words_is_refused() -> None:
    with pytest.raises(TopicError, match="contains only stop words"):
        ContainsJudge("...", WORDS)


def test_blend_is_the_weighted_mean() -> None:
    one, half = ContainsJudge("wren", WORDS), ContainsJudge("wren song", WORDS)
    verdict = BlendJudge([("one", one, 1.0), ("half", half, 3.0)], threshold=0.625).judge(reading_of("wren"))
    assert (verdict.score, verdict.relevant) == (0.625, True)
    assert not BlendJudge([("one", one, 1.0)], threshold=1.0, strict=True).judge(reading_of("wren")).relevant


@pytest.mark.parametrize("weights", [(), (0.0,), (1.0, -1.0)])
def test_blend_without_weight_is_refused(weights: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="at least one judge"):
        BlendJudge([("cosine", cosine(), w) for w in weights])
