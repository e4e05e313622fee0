"""Disambiguation: S3-09, S3-35's contexts, S3-E12, S3-F2, S2-F4, S4-F1."""

import numpy as np
import pytest

from opilio.core.errors import TopicError
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, Verdict
from opilio.judge.senses import ContextJudge, SenseJudge, WordCompany
from opilio.judge.similarity import CosineJudge
from opilio.testing.conformance import check_judge, check_learner, lead_to, reading_of, terms_of
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.page_terms import PageTerms
from opilio.topic.topic import OTHER_SENSE, ContextRule
from opilio.topic.weights import table_from_weights

CONTEXTS = ("cat", "animal", "jungle", "cheetah", "tiger", "leopard", "football", "hat", "watches", "soccer")
TOPIC = EvolvingTopic(table_from_weights({"jaguar": 1.0, "car": 0.8, "engine": 0.6, "speed": 0.4, "dealer": 0.4}))
WORDS = PageTerms(terms_of)
CAR = "the jaguar car has an engine of great speed says the dealer who watches it"
CAT = "the jaguar is a cat of the jungle an animal like the leopard with great speed"


def context(**rule: object) -> ContextJudge:
    return ContextJudge(CosineJudge(TOPIC, WORDS), TOPIC, CONTEXTS, WORDS, ContextRule(**rule))  # type: ignore[arg-type]


def sense(**options: object) -> SenseJudge:
    inner = CosineJudge(TOPIC, WORDS)
    return SenseJudge(inner, TOPIC, CONTEXTS, WORDS, ambiguous="jaguar", **options)  # type: ignore[arg-type]


def birds() -> ContextJudge:
    topic = EvolvingTopic(table_from_weights({"wren": 1.0, "nest": 0.5}))
    return ContextJudge(CosineJudge(topic, WORDS), topic, ("church",), WORDS)


def test_wrapped_judges_pass_the_checks() -> None:
    check_judge(birds)


def test_learned_company_is_a_learner() -> None:
    samples = [np.array([at, at % 3], dtype=np.uint32).tobytes() for at in range(60)]
    pages = [Analysis(verdict=Verdict(score=0.5, relevant=at % 2 == 0), sample_terms=s) for at, s in enumerate(samples)]
    check_learner(WordCompany, [Outcome(lead=lead_to(), fetched=FetchResult(url=""), analysis=page) for page in pages])


def test_any_context_word_puts_the_page_aside_s3_09() -> None:
    for text in (CAR, CAT):
        verdict = context().judge(reading_of(text))
        assert (verdict.score, verdict.relevant, verdict.reasons[0].name) == (0.0, False, OTHER_SENSE)
    assert context().judge(reading_of("the jaguar car")).relevant


def test_context_of_several_words_is_met_where_they_stand_together_s3_09() -> None:
    judge = ContextJudge(CosineJudge(TOPIC, WORDS), TOPIC, ("jaguar cat", "football club"), WORDS)
    assert judge.judge(reading_of("the jaguar car club and its cat")).relevant
    assert not judge.judge(reading_of("the jaguar car and the jaguar cat")).relevant


@pytest.mark.parametrize("rule", [{"minimum": 2}, {"ratio": 0.5}, {"where": "title"}])
def test_switches_spare_the_true_page_s3_e12(rule: dict[str, object]) -> None:
    judge = context(**rule)
    assert judge.judge(reading_of(CAR, title="Jaguar cars")).relevant
    assert not judge.judge(reading_of(CAT, title="Jaguar the cat")).relevant


def test_title_switch_looks_at_anchors_too_s3_e12() -> None:
    assert not context(where="title").judge(reading_of("[the cat](http://x.example/) jaguar car")).relevant


def test_part_of_a_word_counts_where_whole_words_are_off_s3_e12() -> None:
    page = reading_of("the jaguar car and its chatty dealer")
    assert context().judge(page).relevant
    assert not context(whole_word=False).judge(page).relevant
    assert not context(whole_word=False, where="title").judge(reading_of("jaguar car", title="Hats")).relevant


def test_company_decides_the_sense_s3_f2() -> None:
    assert sense().judge(reading_of(CAR)).relevant
    verdict = sense().judge(reading_of(CAT))
    assert (verdict.relevant, verdict.reasons[0].name) == (False, OTHER_SENSE)


def test_only_words_near_the_ambiguous_one_keep_it_company_s4_f1() -> None:
    far = " ".join(f"filler{i}" for i in range(40))
    assert sense().judge(reading_of(f"jaguar car engine {far} cat jungle animal tiger")).relevant


def test_words_near_the_ambiguous_one_are_learnt_from_pages_s4_f1() -> None:
    """Without words of other senses from the user, the judge learns them from irrelevant pages with the word."""
    judge = SenseJudge(CosineJudge(TOPIC, WORDS), TOPIC, (), WORDS, ambiguous="jaguar")
    mixed = reading_of("the jaguar of great speed in its jungle and forest")
    assert judge.judge(mixed).relevant
    lessons = [(CAR, True)] * 5 + [("a jaguar in the jungle hunts deer by the forest river", False)] * 5
    outcomes = [_visit(judge, text, relevant) for text, relevant in lessons]
    judge.company.apply_lesson(judge.company.make_lesson(outcomes))
    again = SenseJudge(CosineJudge(TOPIC, WORDS), TOPIC, (), WORDS, ambiguous="jaguar")
    again.company.restore(judge.company.snapshot())
    verdict = again.judge(mixed)
    assert (verdict.relevant, verdict.reasons[0].name) == (False, OTHER_SENSE)
    assert again.judge(reading_of(CAR)).relevant
    # It was rejected because of what was learned, so it is no lesson; nor is a page without the word.
    assert again.company.make_lesson([_visit(again, "", False, verdict), _visit(again, "a river", False)]) == b""


def _visit(judge: SenseJudge, text: str, relevant: bool, verdict: Verdict | None = None) -> Outcome:
    sample = judge.sample(reading_of(text or CAT)).astype(np.uint32).tobytes()
    lead = Lead(url="http://a.example/", key=1, host="a.example")
    verdict = verdict or Verdict(score=float(relevant), relevant=relevant)
    return Outcome(
        lead=lead, fetched=FetchResult(url=lead.url), analysis=Analysis(verdict=verdict, sample_terms=sample)
    )


def test_page_without_the_ambiguous_word_is_weighed_whole() -> None:
    assert sense().judge(reading_of("a fast car engine")).relevant
    assert not sense().judge(reading_of("speed of the cheetah and tiger")).relevant


def test_margin_moves_the_scale() -> None:
    page = reading_of("jaguar speed cat")
    assert not sense().judge(page).relevant
    assert sense(margin=3.0).judge(page).relevant


def test_missing_contexts_and_impossible_rules_are_refused() -> None:
    inner = CosineJudge(TOPIC, WORDS)
    with pytest.raises(TopicError, match="contexts"):
        ContextJudge(inner, TOPIC, (), WORDS)
    with pytest.raises(TopicError, match="minimum"):
        ContextRule(minimum=0)
