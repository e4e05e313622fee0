"""Crawlers of other authors: TRES and SB-CLASSIFIER, as rankers, as learners and inside the engine."""

from pathlib import Path

import numpy as np
import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine, states
from opilio.core.records import Analysis, FetchResult, Outcome
from opilio.methods.rivals.groups import MAX_ROUNDS, GroupedQueue
from opilio.methods.rivals.tag_paths import TagPathBandit, TagPathRanker
from opilio.methods.rivals.tree_frontier import (
    BATCH,
    FEATURES,
    DoubleQLearner,
    TresAgent,
    TresRanker,
    best_split,
    read_link,
)
from opilio.testing.conformance import check_learner, check_ranker, lead_to, reading_of, verdict_of
from opilio.text.tokens import UrlTerms
from opilio.text.vocabulary import Vocabulary
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import table_from_weights

LIST, MENU = "body>main>ul.items>li>a", "body>nav>div.menu>span>a"
TEXT = "wrens [wren](http://x.example/wren) tax [tax](http://x.example/tax)"
DONE = (2, "")
STRATEGIES = ["sb-classifier", "tres"]


def tres() -> TresRanker:
    topic = EvolvingTopic(table_from_weights({"wren": 1.0, "song": 0.5}))
    return TresRanker(topic, UrlTerms(Vocabulary()), TresAgent(warm_up=0))


def visit(at: int, features: bytes, relevant: bool, parent: int = 7) -> Outcome:
    url = f"http://{'wren' if relevant else 'tax'}.example/{at}"
    analysis = Analysis(verdict=verdict_of(0.9 if relevant else 0.1, relevant))
    return Outcome(lead=lead_to(url, features=features, parent=parent), fetched=FetchResult(url=url), analysis=analysis)


def test_rankers_keep_to_the_protocol() -> None:
    check_ranker(lambda: TagPathRanker(TagPathBandit()))
    check_ranker(tres)


def test_learners_keep_to_the_protocol() -> None:
    check_learner(TagPathBandit, [visit(at, (LIST if at % 2 else MENU).encode(), at % 2 == 1) for at in range(20)])
    links = tres().score(reading_of(TEXT), verdict_of(0.5), lead_to()).features
    check_learner(lambda: TresAgent(warm_up=0), [visit(at, links[at % 2], at % 2 == 0) for at in range(40)])


def test_alike_tag_paths_are_one_arm() -> None:
    bandit = TagPathBandit()
    assert bandit.arm(LIST) == bandit.arm("body>main>ul.items>li>b>a") != bandit.arm(MENU)


def test_arm_that_brings_relevant_pages_comes_first_and_new_arms_before_it() -> None:
    bandit = TagPathBandit(alpha=0.1)
    bandit.learn([visit(at, (LIST if at % 2 else MENU).encode(), at % 2 == 1) for at in range(40)])
    arms = {bandit.arm(path): at for at, path in enumerate((LIST, MENU, "body>footer>p>a"))}
    of_list, of_menu, of_footer = bandit.values(arms)
    assert of_footer > of_list > of_menu


def test_page_earns_what_its_links_bring() -> None:
    bandit = TagPathBandit(alpha=0.0)
    hub = visit(0, MENU.encode(), relevant=False)
    bandit.learn([hub, visit(1, LIST.encode(), relevant=True, parent=hub.lead.key)])
    assert bandit.values({bandit.arm(MENU): 0}) == [0.5]


def test_classifier_of_urls_learns_in_batches() -> None:
    bandit = TagPathBandit()
    assert bandit.target_probability("http://wren.example/99") == 0.5
    bandit.learn([visit(at, b"", at % 2 == 1) for at in range(200)])
    assert bandit.target_probability("http://wren.example/99") > 0.6
    assert bandit.target_probability("http://tax.example/99") < 0.4


def test_link_of_tres_knows_its_path() -> None:
    ranker, reading = tres(), reading_of(TEXT)
    first = ranker.score(reading, verdict_of(0.8), lead_to()).features[0]
    second = ranker.score(reading, verdict_of(0.1, relevant=False), lead_to(features=first)).features[1]
    values, path = read_link(second)
    assert (path.pages, path.relevant) == (2, 1)
    assert values[:5] == pytest.approx([0.1, 0.5, 0.5, 0.0, 0.0])
    assert read_link(first)[0][3:5].tolist() == [1.0, 1.0]


def test_tree_splits_where_rewards_differ() -> None:
    rows = np.zeros((40, len(FEATURES)))
    rows[20:, 4] = 1.0
    gain, feature, threshold = best_split(rows, np.repeat([0.0, 1.0], 20))
    assert gain == pytest.approx(0.25)
    assert (feature, threshold) == (4, 0.5)
    assert best_split(rows, np.ones(40))[0] == 0.0


def test_leaves_of_the_tree_separate_good_and_bad_links() -> None:
    agent, links = TresAgent(warm_up=0), tres().score(reading_of(TEXT), verdict_of(0.5), lead_to()).features
    agent.learn([visit(at, links[at % 2], at % 2 == 0) for at in range(60)])
    good, bad = (agent.tree.leaf(read_link(link)[0]).group for link in links)
    assert good != bad


def test_value_of_a_link_approaches_its_reward() -> None:
    learner, rows = DoubleQLearner(2, discount=0.0), np.eye(2)
    for _ in range(400 + BATCH):
        learner.learn(rows[0], 1.0, rows[:0])
        learner.learn(rows[1], 0.0, rows[:0])
    assert learner.values(rows) == pytest.approx([1.0, 0.0], abs=0.1)


def test_every_group_has_one_representative_until_it_is_fetched() -> None:
    queue = GroupedQueue()
    for key in range(6):
        queue.add(key, "x.example", key % 2)
    first = {group: key for group, key, _ in queue.representatives()}
    assert {group: key for group, key, _ in queue.representatives()} == first
    queue.remove(first[0])
    second = {group: key for group, key, _ in queue.representatives()}
    assert (second[1], second[0] != first[0]) == (first[1], True)
    for key in (0, 2, 4):
        queue.remove(key)
        queue.add(key, "x.example", 0)
    assert [group for group, _, _ in queue.representatives()] == [1]


def test_representative_that_is_never_fetched_is_replaced() -> None:
    queue = GroupedQueue()
    for key in range(50):
        queue.add(key, "x.example", 0)
    assert len({next(queue.representatives())[1] for _ in range(3 * MAX_ROUNDS)}) > 1


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_crawl_reaches_every_page_also_when_resumed(tmp_path: Path, strategy: str) -> None:
    site = "http://a.example/"
    links = "".join(f"<li><a href='/{n}'>wren {n}</a>" for n in range(40))
    pages = {str(n): f"<p>small wrens sing {'wren ' * n}</p><ul>{links}</ul>" for n in range(40)}
    answers = {site + path: html(site + path, f"<html><body>{body}</body></html>") for path, body in pages.items()}
    tree = plain_tree([site + "0"], strategy=strategy, engine={"workers": 0, "batch": 4}, stop={"pages": 15})
    run_engine(tmp_path / "c", tree, PageFetcher(answers))
    assert 0 < list(states(tmp_path / "c").values()).count(DONE) < 40
    run_engine(tmp_path / "c", tree | {"stop": {"pages": 100}}, PageFetcher(answers))
    assert states(tmp_path / "c") == dict.fromkeys(pages, DONE)
