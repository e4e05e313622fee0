"""What must hold whatever comes: who may change a table, what judges and rankers may say, what expiry forbids."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.scored_links import scored_links
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, UrlResult, UrlState, Verdict, url_key
from opilio.core.registry import build_component, complete_section, section_kinds
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.policy import Expiring, FrontierPolicy
from opilio.judge.similarity import CosineJudge, CosineNorm
from opilio.rank.baselines import LinkScoreRanker
from opilio.testing.conformance import lead_to, reading_of, terms_of, url_terms, verdict_of
from opilio.topic.evolving import EvolvingTopic, TopicLearner
from opilio.topic.expansion import ExpansionStart
from opilio.topic.page_terms import PageTerms, TermWeighting
from opilio.topic.weights import table_from_weights

BASE = table_from_weights({"wren": 1.0, "nest": 0.5})
STEMS = ["wren", "nest", "song", "hedge", "tax", "law"]
counts = st.dictionaries(st.sampled_from(STEMS), st.integers(1, 9), min_size=1)
texts = st.lists(st.sampled_from(STEMS), max_size=30).map(" ".join)


def outcome(stems: dict[str, int], score: float, relevant: bool, duplicate_of: int = 0) -> Outcome:
    lead = Lead(url="http://a.example/", key=1, host="a.example", depth=1)
    analysis = Analysis(verdict=Verdict(score=score, relevant=relevant), counts=tuple(stems.items()))
    return Outcome(lead=lead, fetched=FetchResult(url=lead.url), analysis=analysis, duplicate_of=duplicate_of)


@pytest.mark.parametrize("kind", [kind for kind in section_kinds("expansion") if kind != "query-log"])
@given(st.lists(st.tuples(counts, st.floats(0, 1), st.booleans(), st.integers(0, 1)), max_size=20))
def test_table_depends_on_relevant_pages_alone_s0_21_s3_15(
    kind: str, visits: list[tuple[dict[str, int], float, bool, int]]
) -> None:
    every, relevant = (
        EvolvingTopic(
            BASE,
            build_component("expansion", complete_section("expansion", {"kind": kind}), ExpansionStart(BASE.weights)),
        )
        for _ in range(2)
    )
    TopicLearner(every).learn([outcome(*visit) for visit in visits])
    TopicLearner(relevant).learn([outcome(*visit) for visit in visits if visit[2] and not visit[3]])
    assert every.table == relevant.table
    assert every.table.keywords[0].weight == 1.0


@pytest.mark.parametrize("norm", ["page", "topic"])
@pytest.mark.parametrize("weights", ["damped", "tfidf"])
@given(texts, texts)
def test_page_scores_stay_within_range_s0_23(norm: CosineNorm, weights: TermWeighting, text: str, title: str) -> None:
    judge = CosineJudge(EvolvingTopic(BASE), PageTerms(terms_of, weights=weights), norm=norm)
    verdict = judge.judge(reading_of(text, title=title))
    assert 0.0 <= verdict.score <= 1.0
    assert verdict.relevant is (verdict.score >= judge.threshold)


@given(texts, st.floats(0, 1))
def test_link_scores_stay_within_0_and_4_s0_25(text: str, relevance: float) -> None:
    page = reading_of(f"{text} [{text[:20]}](http://b.example/{text[:4].strip() or 'x'}) {text}")
    for ranked in scored_links(LinkScoreRanker(EvolvingTopic(BASE), url_terms), page, verdict_of(relevance), lead_to()):
        assert 0.0 <= ranked.score <= 4.0 + 1e-9
        assert all(0.0 <= part.value <= 1.0 for part in ranked.parts)


steps = st.lists(st.tuples(st.integers(0, 30), st.floats(0, 4), st.floats(0.0, 8.0)), max_size=60)


@given(steps)
def test_expired_entries_are_never_requested_s3_27_s3_28(moves: list[tuple[int, float, float]]) -> None:
    lifetime = 10.0
    frontier = MemoryFrontier(FrontierPolicy(order=Expiring(lifetime_s=lifetime), delay_s=0.0))
    now, stamped = 0.0, dict[int, float]()
    for number, score, passes in moves:
        url = f"http://a.example/{number}"
        lead = Lead(url=url, key=url_key(url), host="a.example", score=score, parent=number + 1)
        added = frontier.add([lead], now)
        if added.new or added.promoted:
            stamped[lead.key] = now
        now += passes
        for lease in frontier.lease(now, 1, 1, 60.0) if number % 3 == 0 else ():
            assert all(now - stamped[leased.key] <= lifetime for leased in lease.leads)
            results = [UrlResult(key=leased.key, host=leased.host, state=UrlState.DONE) for leased in lease.leads]
            assert frontier.complete(lease, results, now)
