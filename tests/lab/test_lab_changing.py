"""A web that moves on a known schedule, and a collection that is kept of it."""

from pathlib import Path

import pytest

from opilio.core.clock import DAY_S, VirtualClock
from opilio.core.records import FetchResult
from opilio.core.urls import host_of
from opilio.lab.experiments.revisits import (
    START_TIME_S,
    FreshnessMeasures,
    RevisitCase,
    RevisitRun,
    RevisitStudy,
    format_revisit_report,
    revisit_cases,
)
from opilio.lab.experiments.runs import ExperimentRunner
from opilio.lab.synthetic.changing import ChangingWeb, Churn, build_lifetimes
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, write_synthetic_web
from opilio.parse.page_state import stable_words
from opilio.store.collection import Collection

SHAPE = WebShape(seed=5, pages=60, hosts=4, topics=1, slow_hosts=0, failing_hosts=0, traps=())
CHURN = Churn(seed=2, days=20.0, median_days=6.0, vanish_share=0.2, move_share=0.2, appear_share=0.2)


@pytest.fixture(scope="module")
def moving() -> tuple[ChangingWeb, VirtualClock, list[str]]:
    source, clock = SyntheticWeb(SHAPE), VirtualClock(START_TIME_S)
    urls = [url for url, label in source.urls_with_labels() if not label.startswith("_")]
    return ChangingWeb(source, build_lifetimes(urls, CHURN, START_TIME_S, urls[:1]), CHURN, clock), clock, urls


def words(web: ChangingWeb, url: str) -> list[str] | None:
    answer = web.find(url)
    return stable_words(FetchResult(url=url, headers=answer.headers, body=answer.body)) if answer else None


def test_answers_follow_the_schedule(moving: tuple[ChangingWeb, VirtualClock, list[str]]) -> None:
    web, clock, urls = moving
    statuses: dict[int, int] = {}
    for day in range(0, 21, 4):
        clock.advance(until=START_TIME_S + day * DAY_S)
        for url in urls:
            answer = web.find(url)
            there = answer is not None and answer.status == 200 and b"nothing here" not in answer.body
            assert there == web.exists_at(url, clock.now())
            statuses[answer.status if answer else 404] = statuses.get(answer.status if answer else 404, 0) + 1
    assert all(statuses.get(status, 0) > 0 for status in (200, 301, 404))


def test_noise_is_no_change_and_an_edit_is_one() -> None:
    source, clock = SyntheticWeb(SHAPE), VirtualClock(START_TIME_S)
    urls = [url for url, label in source.urls_with_labels() if label.startswith("topic.")]
    still = Churn(seed=2, days=20.0, median_days=6.0, vanish_share=0.0, move_share=0.0, appear_share=0.0)
    web = ChangingWeb(source, build_lifetimes(urls, still, START_TIME_S, ()), still, clock)
    url = max(urls, key=lambda u: len(web.edit_times(u)))
    one, other = web.find(url), web.find(url)
    assert one is not None
    assert other is not None
    assert one.body != other.body, "another advert"
    before = words(web, url)
    assert words(web, url) == before
    clock.advance(until=web.edit_times(url)[0] + 1.0)
    assert words(web, url) != before


def test_link_appears_with_its_target() -> None:
    source, clock = SyntheticWeb(SHAPE), VirtualClock(START_TIME_S)
    urls = [url for url, label in source.urls_with_labels() if not label.startswith("_robots")]
    web = ChangingWeb(source, build_lifetimes(urls, CHURN, START_TIME_S, urls[:1]), CHURN, clock)
    late = [url for url in urls if web.created_at(url) > 0]
    linker, target = next((u, t) for u in urls for _, t in web._links(u) if t in late and web.created_at(u) == 0.0)
    name = target.rpartition("/")[2].encode()
    before = web.find(linker)
    assert before is not None
    assert name not in before.body
    clock.advance(until=web.created_at(target) + 1.0)
    if web.exists_at(linker, clock.now()):
        after = web.find(linker)
        assert after is not None
        assert name in after.body


def test_adaptive_keeps_relevant_pages_truer_than_taking_turns(tmp_path: Path) -> None:
    arena = ExperimentRunner.open(write_synthetic_web(SHAPE, tmp_path / "web"), tmp_path / "cache", 1)
    (keeping,) = revisit_cases(arena, 3, 60, 4.0, [Churn(seed=3, days=12.0, median_days=6.0)])
    case = RevisitStudy(arena, keeping, tmp_path)
    case.build_collection()
    truth = {name: case.run_policy(name, {"policy": name}) for name in ("fixed", "adaptive")}
    means = {name: sum(t.fresh) / len(t.fresh) for name, t in truth.items()}
    assert means["adaptive"] > means["fixed"]
    assert abs(truth["adaptive"].revisits - truth["fixed"].revisits) < 0.25 * truth["fixed"].revisits, "the same budget"


def test_faults_of_hosts_strike_who_keeps_a_collection(tmp_path: Path) -> None:
    """A host that always fails gives nothing; the other hosts are kept as before."""
    folder = write_synthetic_web(SHAPE, tmp_path / "web")
    arena = ExperimentRunner.open(folder, tmp_path / "cache", 1)
    (keeping,) = revisit_cases(
        arena, 1, 60, 2.0, [Churn(seed=3, days=4.0, vanish_share=0.0, move_share=0.0, appear_share=0.0)]
    )
    down = next(h for h in arena.offline.web.hosts if all(h not in u for u in _seeds(arena, keeping)))
    truths: list[set[str]] = []
    for faults in ("", f'[[host]]\nname = "{down}"\nerror_rate = 1.0\n'):
        (folder / "hosts.toml").write_text(faults)
        case = RevisitStudy(arena, keeping, tmp_path / f"place{len(truths)}")
        (tmp_path / f"place{len(truths)}").mkdir()
        case.build_collection()
        assert any(host_of(url) == down for url in case._page_urls)
        held = Collection.open_for_reading(tmp_path / f"place{len(truths)}" / "start")
        truths.append({host_of(url) for (url,) in held.connection.execute("SELECT url FROM page")})
        held.close()
        assert case.run_policy("fixed", {"policy": "fixed"}).revisits
    assert truths[0] - truths[1] == {down}


def _seeds(arena: ExperimentRunner, keeping: RevisitCase) -> tuple[str, ...]:
    return next(s.urls for s in arena.topics[keeping.topic].seed_sets if s.name == keeping.seed_set)


def _kept(policy: str, fresh: float, topic: str = "birds") -> RevisitRun:
    truth = FreshnessMeasures(
        times=(0.0,), fresh=(fresh,), age_days=(0.0,), fetches=9, revisits=9, new_relevant=0, born_relevant=0
    )
    return RevisitRun(web="w", topic=topic, schedule=1, policy=policy, truth=truth)


def test_policies_are_compared_with_one_that_ran() -> None:
    runs = [_kept("fixed", 0.5), _kept("proportional", 0.25), _kept("fixed", 0.7, "chess")]
    result = format_revisit_report([*runs, _kept("proportional", 0.35, "chess")], "adaptive")
    assert "adaptive" not in result
    assert "| `proportional` − `fixed` | -0.300 (" in result


def test_a_single_case_or_policy_claims_no_interval_and_no_difference() -> None:
    result = format_revisit_report([_kept("fixed", 0.5)], "adaptive")
    assert "| `fixed` | 0.500 | 0.000 |" in result
    assert "Paired" not in result
