"""The learned judge: what it learns from, how labels count, and that a resumed one is the same."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from opilio.core.records import Analysis, FetchResult, Outcome, Verdict
from opilio.judge.learned import MIN_LABELS, LabelCalibration, LearnedJudge
from opilio.judge.similarity import CoverageJudge
from opilio.learn.text_model import MAX_TERMS, TextModel
from opilio.testing.conformance import check_judge, check_learner, lead_to, reading_of, terms_of
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.weights import table_from_weights

BIRDS = table_from_weights({"wren": 1.0, "nest": 0.5, "song": 0.25})
ON, OFF = "wren nest song hedge moss", "tax law court judge fee"
BOTH = [ON, OFF] * 12


def coverage() -> CoverageJudge:
    return CoverageJudge(EvolvingTopic(BIRDS), PageTerms(terms_of))


def learned() -> LearnedJudge:
    return LearnedJudge(coverage(), str)


def outcome(judge: LearnedJudge, text: str, duplicate_of: int = 0) -> Outcome:
    reading = reading_of(text)
    sample = judge.sample(reading).astype(np.uint32).tobytes()
    analysis = Analysis(verdict=judge.judge(reading), sample_terms=sample, words=len(reading.terms))
    return Outcome(lead=lead_to(), fetched=FetchResult(url=""), analysis=analysis, duplicate_of=duplicate_of)


def taught(texts: Sequence[str], judge: LearnedJudge | None = None) -> LearnedJudge:
    judge = judge or learned()
    for number, text in enumerate(texts):
        judge.learn([outcome(judge, f"{text} w{number}")])
    return judge


@pytest.mark.parametrize("make", [coverage, learned, lambda: taught(BOTH)])
def test_our_judges_pass_the_checks(make: type[CoverageJudge]) -> None:
    check_judge(make)


def test_learned_judge_is_a_learner() -> None:
    check_learner(learned, [outcome(learned(), f"{text} w{number}") for number, text in enumerate(BOTH)])


def test_coverage_grows_with_the_words_covered_and_is_finite() -> None:
    scores = [coverage().judge(reading_of(text)).score for text in ("court", "song", "nest song", "wren nest song")]
    assert scores == sorted(scores)
    assert coverage().judge(reading_of("wren " * 3000)).score < coverage().judge(reading_of("wren nest song")).score


def test_page_longer_than_the_others_loses_and_a_short_one_gains() -> None:
    judge = taught(BOTH)
    filler = [" ".join(f"{letter}{n}word" for n in range(40)) for letter in "ab"]
    short, long = (judge.judge(reading_of(f"wren nest {more}")) for more in ("", " ".join(filler)))
    before, after = ({reason.name: reason for reason in verdict.reasons}["length"] for verdict in (short, long))
    assert before.value < 0.0 < after.value
    assert after.weight == before.weight < 0.0
    assert {r.name: r for r in learned().judge(reading_of(ON)).reasons}["length"].weight == 0.0


def test_length_does_not_count_with_weight_0() -> None:
    judge = taught(BOTH, LearnedJudge(coverage(), str, length_weight=0.0))
    reasons = {reason.name: reason for reason in judge.judge(reading_of("wren nest")).reasons}
    assert reasons["length"].value < 0.0
    assert reasons["length"].weight == 0.0


def test_link_to_a_page_counts_but_the_page_alone_is_kept() -> None:
    unsure = learned().judge(reading_of("song " * 3))
    judge = LearnedJudge(coverage(), str, link_weight=0.75)
    good, bad = judge.with_link_score(unsure, 0.95), judge.with_link_score(unsure, 0.05)
    assert good.score > 0.5 > bad.score
    assert good.relevant
    assert not bad.relevant
    assert good.page_score == bad.page_score == unsure.score
    assert good.reasons[0] == unsure.reasons[0]
    assert [reason.name for reason in good.reasons[1:3]] == ["page alone", "link to it"]


def test_link_does_not_count_with_weight_0() -> None:
    unsure = learned().judge(reading_of("song " * 3))
    assert learned().with_link_score(unsure, 0.95) is unsure


def test_link_does_not_count_for_a_rejected_page() -> None:
    rejected = Verdict(score=0.0, relevant=False)
    assert LearnedJudge(coverage(), str, link_weight=0.75).with_link_score(rejected, 0.95) is rejected


def test_topic_without_words_has_no_page() -> None:
    judge = CoverageJudge(EvolvingTopic(table_from_weights({})), PageTerms(terms_of))
    assert not judge.judge(reading_of(ON)).relevant


def test_judge_learns_words_that_the_topic_did_not_name() -> None:
    before, after = learned(), taught(BOTH)
    company, other = reading_of("hedge moss song"), reading_of("court fee song")
    assert before.judge(company).score == pytest.approx(before.judge(other).score, abs=0.05)
    assert after.judge(company).score > after.judge(other).score
    assert any("text model" in reason.name for reason in after.judge(company).reasons)


def test_examples_teach_before_anything_is_fetched() -> None:
    """Pages that share no word with the topic's table are separated by the words of the examples."""
    on, off = [f"hedge moss twig w{n}" for n in range(4)], [f"court fee clerk w{n}" for n in range(4)]
    counted = {"hedge": 2, "moss": 1, "twig": 1}
    examples: list[tuple[str | dict[str, int], bool]] = [*((page, True) for page in on[:3]), (counted, True)]
    judge = LearnedJudge(coverage(), str, 0.5, [*examples, *((page, False) for page in off)])
    assert judge.model.is_ready
    like, unlike = judge.judge(reading_of("hedge moss twig")), judge.judge(reading_of("court fee clerk"))
    assert like.score > max(unlike.score, learned().judge(reading_of("hedge moss twig")).score)
    again = learned()
    again.restore(judge.snapshot())
    assert again.judge(reading_of("hedge moss twig")) == like


def test_background_stands_for_pages_that_are_not_on_the_topic() -> None:
    """Before any such page was seen, words that are common everywhere mean nothing, rare ones do."""

    def idf(terms: NDArray[np.uint32]) -> NDArray[np.float64]:
        common = np.array(terms_of("people time"), dtype=np.uint32)
        return np.where(np.isin(terms, common), 0.5, 7.0)

    base = CoverageJudge(EvolvingTopic(BIRDS), PageTerms(terms_of, idf))
    judge = LearnedJudge(base, str, 0.5, [(f"hedge people time w{n}", True) for n in range(4)])
    weights = dict(zip(*(part.tolist() for part in judge.model.term_weights), strict=True))
    rare, (often, _) = terms_of("hedge")[0], terms_of("people time")
    assert judge.model.is_ready
    assert weights[rare] > 1.0 > abs(weights[often])


def test_duplicates_and_pages_without_a_sample_teach_nothing() -> None:
    judge = learned()
    before = judge.snapshot()
    judge.learn([outcome(judge, ON, duplicate_of=1), Outcome(lead=lead_to(), fetched=FetchResult(url=""))])
    assert judge.snapshot() == before


@pytest.mark.parametrize("texts", [[ON] * 40, [OFF] * 40, [""] * 20], ids=["only on", "only off", "empty"])
def test_judge_stays_itself_when_all_pages_are_alike(texts: list[str]) -> None:
    judge = taught(texts)
    for text in (ON, OFF, "", "never seen words"):
        verdict = judge.judge(reading_of(text))
        assert 0.0 <= verdict.score <= 1.0
        assert all(math.isfinite(reason.value) for reason in verdict.reasons)


def test_user_outweighs_the_judge_and_the_last_word_wins() -> None:
    judge = taught(BOTH)
    page = reading_of("hedge moss court fee")
    sample = judge.sample(page).astype(np.uint32).tobytes()
    start = judge.judge(page).score
    judge.apply_lesson(judge.label_lesson(sample, relevant=True))
    lifted = judge.judge(page).score
    judge.apply_lesson(judge.label_lesson(sample, relevant=False, before=True))
    assert judge.judge(page).score < start < lifted


def test_contradictory_labels_leave_no_trace_of_the_earlier() -> None:
    one, other = taught(BOTH), taught(BOTH)
    sample = one.sample(reading_of("hedge court")).astype(np.uint32).tobytes()
    one.apply_lesson(one.label_lesson(sample, relevant=True))
    one.apply_lesson(one.label_lesson(sample, relevant=False, before=True))
    other.apply_lesson(other.label_lesson(sample, relevant=False))
    page = reading_of("hedge court song")
    assert one.judge(page).score == pytest.approx(other.judge(page).score)


def test_word_taken_back_is_forgotten() -> None:
    judge, never = taught(BOTH), taught(BOTH)
    sample = judge.sample(reading_of("hedge court")).astype(np.uint32).tobytes()
    judge.apply_lesson(judge.label_lesson(sample, relevant=True))
    judge.apply_lesson(judge.label_lesson(sample, relevant=None, before=True))
    never.apply_lesson(never.label_lesson(sample, relevant=None))
    page = reading_of("hedge court song")
    assert judge.judge(page).score == pytest.approx(never.judge(page).score, abs=0.02)


@given(st.integers(0, 35))
@settings(max_examples=12, deadline=None)
def test_resumed_judge_is_the_same_wherever_it_was_killed(cut: int) -> None:
    texts = [f"{ON if n % 3 else OFF} x{n}" for n in range(36)]
    judge, state = learned(), b""
    journal: list[Any] = []
    for number, text in enumerate(texts):
        if number <= cut:
            state, journal = judge.snapshot(), []
        lesson = judge.make_lesson([outcome(judge, text)])
        journal.append(lesson)
        judge.apply_lesson(lesson)
    again = learned()
    again.restore(state)
    for lesson in journal:
        again.apply_lesson(lesson)
    assert again.snapshot() == judge.snapshot()
    pages = [reading_of(text) for text in (ON, OFF, "hedge fee")]
    assert [again.judge(page) for page in pages] == [judge.judge(page) for page in pages]


def test_worker_judges_the_same_by_sight_alone() -> None:
    judge, worker = taught(BOTH), learned()
    worker.restore(judge.worker_state())
    pages = [reading_of(text) for text in (ON, OFF, "hedge fee")]
    assert [worker.judge(page) for page in pages] == [judge.judge(page) for page in pages]
    assert len(judge.worker_state()) < len(judge.snapshot())


@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 30), max_size=8), st.booleans(), st.sampled_from([1.0, 8.0, -8.0])),
        max_size=40,
    )
)
@settings(max_examples=40, deadline=None)
def test_text_model_never_gives_nonsense(pages: list[tuple[list[int], bool, float]]) -> None:
    model = TextModel()
    for terms, positive, weight in pages:
        model.add(np.array(terms, dtype=np.int64), positive, weight)
        model.fit()
    assert all(-4.0 <= model.logit(np.arange(n, dtype=np.int64)) <= 4.0 for n in (0, 1, 40))
    assert all(math.isfinite(weight) for _, weight in model.strongest_terms(np.arange(1, 31), 30))


def test_text_model_counts_pages_the_same_whenever_it_is_fitted() -> None:
    rng = np.random.default_rng(3)
    pages = [(np.unique(rng.integers(1, 40, 9)), bool(rng.integers(2)), 1.0) for _ in range(60)]
    pages += [(pages[0][0], pages[0][1], -1.0)]  # one is taken back
    often, once = TextModel(), TextModel()
    for terms, positive, weight in pages:
        for model in (often, once):
            model.add(terms, positive, weight)
        often.fit()
        often.restore(often.state())
    once.fit()
    assert often.state().counts == once.state().counts
    assert often.term_weights[1].tolist() == once.term_weights[1].tolist()
    assert sum(term == 7 for term in often.term_weights[0]) == 1


def test_text_model_is_bounded_when_words_never_end() -> None:
    model = TextModel()
    for start in range(0, 3 * MAX_TERMS, 2000):
        model.add(np.arange(start, start + 2000, dtype=np.int64), True)
    assert len(model.state().counts[0]) // 4 <= 2 * MAX_TERMS


def test_few_labels_correct_no_score() -> None:
    assert LabelCalibration.fit([(0.5, True)] * (MIN_LABELS - 1)) is None


def test_labels_against_the_judge_lower_its_scores_and_move_the_doubtful_ones() -> None:
    found = LabelCalibration.fit([(0.5, False)] * 4 + [(0.6, False), (0.7, True)])
    assert found is not None
    assert found.labels == 6
    assert 0.0 < found.probability(0.2) < found.probability(0.6) < 0.5 < found.probability(0.9)
    assert found.probability(found.doubtful_score) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans()), min_size=MIN_LABELS, max_size=60))
def test_offset_of_labels_is_the_most_likely_one(judged: list[tuple[float, bool]]) -> None:
    found = LabelCalibration.fit(judged)
    assert found is not None
    misses = sum(label - found.probability(score) for score, label in judged)
    assert found.offset == pytest.approx(misses, abs=0.01)
