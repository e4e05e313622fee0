"""Training and crawling count alike: the rows of `opilio train` are those that a crawl learns by and scores (S1-13)."""

from pathlib import Path

import msgspec
import pytest
from s1_collection import crowded_web

from checks.learning_webs import crawl_and_stop_dead, learning_tree
from checks.small_webs import SmallWeb, rows, served
from opilio.crawl.build import complete, first_state, make_mind, topic_of
from opilio.crawl.config import resolve
from opilio.crawl.ledger import Ledger
from opilio.crawl.s1chooser import S1Chooser
from opilio.crawl.s1kind import MODEL
from opilio.crawl.topics import background
from opilio.crawl.train import train
from opilio.crawl.training import pages_of
from opilio.judge.rarity import CachedIdf
from opilio.learn.rows import matrix
from opilio.rank.s1 import S1Ranker, unpacked
from opilio.text.vocabulary import Vocabulary

pytest.importorskip("sklearn")
LESSONS = "SELECT data FROM lesson WHERE name = 'rank' ORDER BY rowid"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ledger, Ledger]:
    """A collection whose crawl ended without a word, its ledger, and that of a crawl which goes on."""
    folder = tmp_path_factory.mktemp("s1") / "c"
    with served(SmallWeb(crowded_web())) as server:
        tree = learning_tree(server, strategy="s1-bayes", frontier={"per_host": 1})
        return folder, crawl_and_stop_dead(folder, tree, 24), crawl_and_stop_dead(folder, tree, 0)


def test_rows_of_training_are_those_the_crawl_learnt_by_s1_13(crawled: tuple[Path, Ledger, Ledger]) -> None:
    folder, ledger, _ = crawled
    ranker = ledger._learning._learners["rank"]
    assert isinstance(ranker, S1Ranker)
    told = [row for (data,) in rows(folder, LESSONS) for row, *_ in msgspec.msgpack.decode(data)]
    made = pages_of(folder, Vocabulary(), CachedIdf(background().__getitem__))
    again = matrix(made.rows(ranker.links.topic.table.top(7)))[0]
    assert len(told) == len(again) > 20
    assert again == pytest.approx(unpacked(told), abs=1e-6)
    assert (again[:, :4] > 0).sum(axis=0).min() > 0  # each of the four has something to say


def test_resumed_crawl_knows_what_each_parent_said_s1_22(crawled: tuple[Path, Ledger, Ledger]) -> None:
    _, before, again = crawled
    assert isinstance(before._chooser, S1Chooser) and isinstance(again._chooser, S1Chooser)
    held = {key: (link.said, link.row, link.score) for key, link in again._chooser._queued.items()}
    known = before._chooser._queued
    assert held == {key: (known[key].said, known[key].row, pytest.approx(known[key].score)) for key in held}
    assert max(len(said) for said, *_ in held.values()) == 5


def test_crawl_with_a_model_counts_with_its_table_also_when_resumed(
    crawled: tuple[Path, Ledger, Ledger], tmp_path: Path
) -> None:
    trained = train(crawled[0], ("bayes",))
    (tmp_path / MODEL).write_bytes(trained.file())
    tree = {"strategy": "s1-bayes", "topic": {"name": "wrens"}, "rank": {"model": str(tmp_path)}}
    settings = complete(resolve(tree, "test"))
    topic = topic_of(settings)
    states = {"topic": first_state(settings, topic)}
    ranker = make_mind(settings, topic, states).learners["rank"]
    assert isinstance(ranker, S1Ranker)
    assert ranker.links.head.vector == trained.table.vector
    again = make_mind(settings, topic, states | {"rank": ranker.snapshot()}).learners["rank"]
    assert isinstance(again, S1Ranker)
    assert again.links.head.vector == trained.table.vector


def test_state_of_an_earlier_version_is_taken_up(crawled: tuple[Path, Ledger, Ledger]) -> None:
    ranker = crawled[1]._learning._learners["rank"]
    again = crawled[2]._learning._learners["rank"]
    assert isinstance(ranker, S1Ranker) and isinstance(again, S1Ranker)
    again.restore(ranker.teacher.snapshot())  # as it was before a table stood beside it
    assert again.teacher.snapshot() == ranker.teacher.snapshot()
