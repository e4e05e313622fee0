"""What a crawl learns is in its collection with every visit: killed at any moment, it resumes with the same models."""

import signal
import time
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.learning_webs import (
    HUB,
    crawl_and_stop_dead,
    crawl_and_tell,
    digest,
    judge_of,
    learner_of,
    learning_tree,
    memory_of,
    mixed_web,
    restored,
)
from checks.link_visits import found, url_of
from checks.small_webs import BIRDS, CONTEXT, TOPIC, SmallWeb, crawl, known, page, redirect, rows, served, stored, word
from opilio.core.clock import VirtualClock
from opilio.core.events import BatchCommitted, Event
from opilio.core.protocols import RANK_STATE, TOPIC_STATE
from opilio.core.records import Analysis, FetchResult, Outcome, Verdict, url_key
from opilio.engine.commit import BatchCommitter
from opilio.engine.link_memory import CommitteeLearner
from opilio.engine.link_scoring import CommitteeLinkScorer
from opilio.engine.wiring.settings import complete_settings
from opilio.learn.committee import Committee
from opilio.learn.link_pool import MAX_CONTEXTS, LinkPool
from opilio.learn.logistic import FEATURE_NAMES
from opilio.learn.scoring import CommitteeOptions
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.methods.attributes.ranker import AttributesLinkScorer
from opilio.store import learner_states
from opilio.store.collection import Collection
from opilio.testing.conformance import check_learner, lead_to
from opilio.topic.setup import resolve_settings


def test_committee_is_a_learner() -> None:
    def make() -> CommitteeLearner:
        committee = Committee(CommitteeOptions(capacity=200))
        for at in range(4):
            found(committee, 1000 + at, [5 * at + place + 1 for place in range(5)])
        return CommitteeLearner(committee, Collection.in_memory())

    def visit(number: int) -> Outcome:
        analysis = Analysis(verdict=Verdict(score=0.5, relevant=number % 2 == 0))
        lead = msgspec.structs.replace(lead_to(url_of(number)), key=number)
        return Outcome(lead=lead, fetched=FetchResult(url=lead.url, status=200), analysis=analysis)

    check_learner(make, [visit(number) for number in range(1, 21)])


@pytest.mark.parametrize("after", [1, 7, 23])
def test_model_on_disk_is_the_one_in_memory_when_a_crawl_ends_without_a_word(
    tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_states, "SNAPSHOT_MIN_LESSONS", 10)
    with served(SmallWeb(mixed_web())) as server:
        committer = crawl_and_stop_dead(tmp_path / "c", learning_tree(server), after)
    memory = memory_of(committer)
    again = restored(tmp_path / "c")
    assert again.committee.snapshot() == memory.committee.snapshot()
    assert (again.committee.dense.weights == memory.committee.dense.weights).all()
    assert again.yield_estimate.calibration == memory.yield_estimate.calibration
    assert memory.committee.visits_learned >= after


def test_nothing_is_learnt_where_learning_is_off(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        tree = learning_tree(server)
        committer = crawl_and_stop_dead(tmp_path / "c", tree | {"rank": {"learn": False}, "judge": {"share": 0.0}}, 23)
    assert not isinstance(committer._link_scorer, CommitteeLinkScorer)
    judge = judge_of(committer)
    assert judge.version == 0
    assert rows(tmp_path / "c", "SELECT count(*) FROM lesson") == [(0,)]
    assert len(stored(tmp_path / "c")) >= 23


def test_s1_goes_on_with_its_rows_and_its_queue_when_a_crawl_ends_without_a_word(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        tree = {**learning_tree(server), "strategy": "s1-bayes"}
        before = crawl_and_stop_dead(tmp_path / "c", tree, 12)
        again = crawl_and_stop_dead(tmp_path / "c", tree, 0)
    assert learner_of(again, RANK_STATE).snapshot() == learner_of(before, RANK_STATE).snapshot()
    assert isinstance(before._link_scorer, AttributesLinkScorer) and isinstance(
        again._link_scorer, AttributesLinkScorer
    )
    assert set(again._link_scorer._queued) == set(before._link_scorer._queued)


@pytest.mark.parametrize("strategy", ["s0", "s3-tswt", "s3-agents"])
@pytest.mark.parametrize("period", [5, 1000])
def test_topic_on_disk_is_the_one_in_memory_when_a_crawl_ends_without_a_word(
    tmp_path: Path, strategy: str, period: int
) -> None:
    """Also the words of the pages since the last version of the table."""
    with served(SmallWeb(mixed_web())) as server:
        tree = {**learning_tree(server), "strategy": strategy, "expansion": {"period": period}}
        before = crawl_and_stop_dead(tmp_path / "c", tree, 7)
        again = crawl_and_stop_dead(tmp_path / "c", tree, 0)
    was, now = learner_of(before, TOPIC_STATE), learner_of(again, TOPIC_STATE)
    assert now.snapshot() == was.snapshot()
    versions = rows(tmp_path / "c", "SELECT count(*) FROM snapshot WHERE name IN ('topic', 'agent-1/topic')")[0][0]
    lessons = rows(tmp_path / "c", "SELECT count(*) FROM lesson WHERE name IN ('topic', 'agent-1/topic')")[0][0]
    assert versions > 2 if period == 5 else lessons > 2


@pytest.mark.parametrize("after", [3, 40])
def test_judge_on_disk_is_the_one_in_memory_when_a_crawl_ends_without_a_word(tmp_path: Path, after: int) -> None:
    with served(SmallWeb(mixed_web())) as server:
        tree = learning_tree(server)
        before = judge_of(crawl_and_stop_dead(tmp_path / "c", tree, after))
        again = judge_of(crawl_and_stop_dead(tmp_path / "c", tree, 0))
    assert again is not None
    assert again.snapshot() == before.snapshot()
    assert again.model._weights.tolist() == before.model._weights.tolist()
    assert rows(tmp_path / "c", "SELECT count(*) FROM snapshot WHERE name = 'judge'")[0][0] <= 1


# The value of a meaning is known from fifty words on.
MORE_WORDS = {
    True: b"<p>robin heron eagle finch owl sparrow pigeon gull tern falcon hawk swan goose duck crow raven thrush lark "
    b"swallow kestrel pelican penguin ostrich parrot egg feather wing beak flight migration plumage breeding</p>",
    False: b"<p>railway locomotive track station signal tunnel bridge carriage freight passenger timetable platform "
    b"diesel steam boiler gauge sleeper points conductor ticket depot wagon coal engine wheel axle brake driver</p>",
}


@pytest.mark.parametrize("feature", ["words at it", "meaning learned"])
def test_committee_hears_what_words_are_worth_on_pages_also_when_resumed(tmp_path: Path, feature: str) -> None:
    web = {
        url: msgspec.structs.replace(answer, body=answer.body + MORE_WORDS["birds" in url])
        for url, answer in mixed_web(30).items()
    }
    with served(SmallWeb(web)) as server:
        # Both sides of the web in turns, at most one page of each per commit: most links are still queued at the end.
        # Without waste control, which gives up the side without birds.
        frontier = {"per_host": 1, "traps": False}
        tree = learning_tree(server, engine={"batch": 1, "connections": 2}, frontier=frontier)
        before = crawl_and_stop_dead(tmp_path / "c", tree, 40)
        again = crawl_and_stop_dead(tmp_path / "c", tree, 0)
    result, told_again = values_of_words(before, feature), values_of_words(again, feature)
    assert len(result) > 10
    assert any(result.values())
    assert told_again == result


def values_of_words(committer: BatchCommitter, feature: str) -> dict[int, float]:
    """What the words at each queued link, or words of its meaning, are worth, by all that the judge knows."""
    list(committer._link_scorer.rescored())
    queue, at = memory_of(committer).committee.pool, FEATURE_NAMES.index(feature)
    return {key: float(queue.rows["dense"][row, at]) for key, row in queue.row_of.items()}


def held_again(folder: Path) -> LinkPool:
    """The links that a committee holds when it resumes with this collection."""
    collection = Collection.open_for_reading(folder)
    memory = CommitteeLearner(Committee(CommitteeOptions()), collection)
    memory.resume()
    collection.close()
    return memory.committee.pool


def test_links_are_held_again_when_resumed(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        committer = crawl_and_stop_dead(tmp_path / "c", learning_tree(server), 4)
    before = memory_of(committer).committee.pool
    queue = held_again(tmp_path / "c")
    assert set(queue.row_of) == set(before.row_of)
    assert len(queue) > 10
    key = next(iter(queue.row_of))
    row, other = queue.row_of[key], before.row_of[key]
    assert (queue.rows["words"][row] == before.rows["words"][other]).all()
    assert queue.rows["groups"][row, 0] == before.rows["groups"][other, 0]


def test_nothing_is_held_or_expected_of_links_that_were_redirected_or_refused(tmp_path: Path) -> None:
    aim, moved = f"{HUB}aim.html", [f"{HUB}old-{n}.html" for n in range(6)]
    trap = f"{HUB}calendar/2090/01/"
    pages = [f"{HUB}{n}.html" for n in range(4)]
    web = {HUB: page(BIRDS, [aim, *moved, *pages]), aim: page(f"{BIRDS} {word(50)}")}
    web |= {url: redirect(aim) for url in moved}
    web |= {url: page(f"{BIRDS} {word(n)}", [*moved, trap]) for n, url in enumerate(pages)}
    with served(SmallWeb(web)) as server:
        committer = crawl_and_stop_dead(tmp_path / "c", learning_tree(server), 1000)
        again = crawl_and_stop_dead(tmp_path / "c", learning_tree(server), 0)
    committee = memory_of(committer).committee
    assert len(committee.pool) == 0
    assert committee.expected_relevant(recompute=True) == 0.0
    assert digest(memory_of(again).committee) == digest(committee)


def test_link_found_on_many_pages_is_held_as_often_found_when_resumed(tmp_path: Path) -> None:
    home = "http://birds.example/about.html"
    pages = {f"http://birds.example/{n}.html": page(f"{BIRDS} {word(n)}", [home]) for n in range(12)}
    tree = {"stop": {"pages": 12}, "order": {"kind": "breadth-first"}}
    with served(SmallWeb({HUB: page(BIRDS, pages), **pages})) as server:
        committer = crawl_and_stop_dead(tmp_path / "c", learning_tree(server, **tree), 100)
    before = memory_of(committer).committee.pool
    queue = held_again(tmp_path / "c")
    often = [float(q.rows["dense"][q.row_of[url_key(home)], FEATURE_NAMES.index("found")]) for q in (before, queue)]
    assert often[0] == often[1] > np.log1p(MAX_CONTEXTS) * 0.5


def test_killed_process_leaves_the_model_it_had_committed(tmp_path: Path) -> None:
    """A real SIGKILL: what was known after each commit stands in a log that the process wrote until its end."""
    log = tmp_path / "log"
    log.touch()
    with served(SmallWeb(mixed_web()), slow={"birds.example": 0.02}) as server:
        tree = learning_tree(server, frontier={"per_host": 1})  # many commits
        for more in (1, 5, 12, 20, 7):
            process = CONTEXT.Process(target=crawl_and_tell, args=(tmp_path / "c", tree, str(log)))
            enough = len(noted(log)) + more
            process.start()
            while len(noted(log)) < enough:
                assert process.exitcode is None
                time.sleep(0.005)
            process.kill()
            process.join()
            assert process.exitcode == -signal.SIGKILL
            result, again = dict(noted(log)), restored(tmp_path / "c").committee
            if str(again.visits_learned) in result:  # else it died between the commit and its note of it
                assert result[str(again.visits_learned)] == digest(again)
        crawl(tmp_path / "c", tree)
        crawl(tmp_path / "undisturbed", tree)
    assert known(tmp_path / "c") == known(tmp_path / "undisturbed")
    assert stored(tmp_path / "c") == stored(tmp_path / "undisturbed")
    assert verify(tmp_path / "c") == []


def noted(log: Path) -> list[tuple[str, str]]:
    """What a process wrote down so far: how many fetches are in, and what is known."""
    whole = (line.split() for line in log.read_text().splitlines(keepends=True) if line.endswith("\n"))
    return [(fetched, known) for fetched, known in whole]


def test_journal_is_short_and_one_state_is_kept_at_the_end(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        crawl(tmp_path / "c", learning_tree(server))
    assert rows(tmp_path / "c", "SELECT count(*) FROM lesson WHERE name = 'committee'") == [(0,)]
    names = rows(tmp_path / "c", "SELECT name, count(*) FROM snapshot GROUP BY name")
    assert dict(names)["committee"] == 1
    size = rows(tmp_path / "c", "SELECT length(state) FROM snapshot WHERE name = 'committee'")[0][0]
    assert size < 500_000


class Estimate(NamedTuple):
    """What a commit and the status after it expect in the queue, its length, and the relevant pages so far."""

    by_event: float
    by_status: float
    queued: int
    relevant: int


@pytest.fixture(scope="module")
def estimates(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Estimate], Path]:
    """The estimates during a whole crawl, and its folder."""
    folder, result = tmp_path_factory.mktemp("estimates") / "c", list[Estimate]()

    def look(event: Event) -> None:
        if isinstance(event, BatchCommitted) and event.expected is not None:
            status = collection_status(folder)
            assert status.expected_relevant is not None
            result.append(Estimate(event.expected, status.expected_relevant, status.queued, status.relevant))

    with served(SmallWeb(mixed_web(30))) as server:
        crawl(folder, learning_tree(server, stop={"pages": 0}), look)
    return result, folder


def test_expectation_falls_towards_nothing_when_the_relevant_pages_are_found(
    estimates: tuple[list[Estimate], Path],
) -> None:
    """Honest stop: high while the bird pages wait, near nothing when only trains are left."""
    result = [one.by_event for one in estimates[0]]
    assert max(result) > 5.0
    assert result[-1] < 0.2 * max(result)
    left = collection_status(estimates[1]).expected_relevant
    assert left is not None
    assert left < 1.0


def test_estimate_is_at_most_the_queue(estimates: tuple[list[Estimate], Path]) -> None:
    assert [one for one in estimates[0] if max(one.by_event, one.by_status) > one.queued] == []


def test_estimate_is_near_what_the_rest_of_the_crawl_finds(estimates: tuple[list[Estimate], Path]) -> None:
    """A user who was promised 110 pages got 2. An estimate may be wrong for a while when a new kind of page is reached,
    but the next fetches correct it."""
    result, folder = estimates
    total = collection_status(folder).relevant
    too_high = [one for one in result if one.by_event > 2 * (total - one.relevant) + 5]
    assert len(too_high) < 0.15 * len(result)
    assert max(one.by_event - (total - one.relevant) for one in result) < 0.2 * total


def test_crawl_stops_when_little_is_left_to_find(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web(40))) as server:
        tree = learning_tree(server, stop={"pages": 0, "expected_below": 3.0})
        reason = crawl(tmp_path / "c", tree)
    status = collection_status(tmp_path / "c")
    assert "relevant pages are left to find, fewer than 3" in reason
    assert status.stop_reason == reason
    assert status.queued > 0
    assert status.relevant > 100


def test_other_strategies_expect_nothing(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web(3))) as server:
        crawl(tmp_path / "c", learning_tree(server, strategy="breadth", stop={"pages": 5, "expected_below": 3.0}))
    assert collection_status(tmp_path / "c").expected_relevant is None


def test_expected_below_is_a_setting() -> None:
    settings = complete_settings(
        resolve_settings({"topic": {"name": "x"}, "seeds": {"urls": [HUB]}, "stop": {"expected_below": 2}})
    )
    assert settings.stop.expected_below == 2.0


def test_two_crawls_from_one_seed_know_the_same(tmp_path: Path) -> None:
    """On a virtual clock a crawl is a function of its seed, what it learns included."""
    answers = {url: html(url, answer.body.decode()) for url, answer in mixed_web().items()}
    known_after = []
    for name in ("one", "other"):
        clock = VirtualClock()
        fetcher = PageFetcher(answers, clock, takes_s=0.1)
        tree = plain_tree([HUB], strategy="opilio", stop={"pages": 40}, topic={"name": TOPIC})
        run_engine(tmp_path / name, tree, fetcher, clock=clock)
        known_after.append((fetcher.asked, restored(tmp_path / name).committee.snapshot()))
    assert known_after[0] == known_after[1]
