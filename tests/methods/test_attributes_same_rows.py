"""Training and crawling count alike: the rows of `opilio lab train` are those of a crawl (S1-13)."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from checks.attribute_collections import crowded_web
from checks.learning_webs import crawl_and_stop_dead, learner_of, learning_tree
from checks.small_webs import SmallWeb, rows, served
from opilio.core.protocols import RANK_STATE
from opilio.engine.commit import BatchCommitter
from opilio.engine.wiring.assembly import build_analysis_parts
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.topic import build_topic, initial_topic_state
from opilio.manage.train_attributes import train
from opilio.methods.attributes.features import rows_to_arrays
from opilio.methods.attributes.ranker import MODEL_FILE, AttributesLinkScorer, AttributesRanker, unpack_rows
from opilio.methods.attributes.training import load_training_set
from opilio.text.vocabulary import Vocabulary
from opilio.topic.page_terms import CachedIdf
from opilio.topic.setup import background_frequencies, resolve_settings

pytest.importorskip("sklearn")
LESSONS = "SELECT data FROM lesson WHERE name = 'rank' ORDER BY rowid"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, BatchCommitter, BatchCommitter]:
    """A collection whose crawl was killed, its committer, and that of the resumed crawl."""
    folder = tmp_path_factory.mktemp("s1") / "c"
    with served(SmallWeb(crowded_web())) as server:
        tree = learning_tree(server, strategy="s1-bayes", frontier={"per_host": 1, "traps": False})
        return folder, crawl_and_stop_dead(folder, tree, 24), crawl_and_stop_dead(folder, tree, 0)


def test_rows_of_training_are_those_the_crawl_learnt_by_s1_13(
    crawled: tuple[Path, BatchCommitter, BatchCommitter],
) -> None:
    folder, committer, _ = crawled
    ranker = learner_of(committer, RANK_STATE)
    assert isinstance(ranker, AttributesRanker)
    result = [row for (data,) in rows(folder, LESSONS) for row, *_ in msgspec.msgpack.decode(data)]
    made = load_training_set(folder, Vocabulary(), CachedIdf(background_frequencies().__getitem__))
    again = rows_to_arrays(made.rows(ranker.links.topic.table.top(7)))[0]
    assert len(result) == len(again) > 20
    assert again == pytest.approx(unpack_rows(result), abs=1e-6)
    assert (again[:, :4] > 0).sum(axis=0).min() > 0  # each of the four has something to say


def test_resumed_crawl_knows_what_each_parent_said_s1_22(crawled: tuple[Path, BatchCommitter, BatchCommitter]) -> None:
    _, before, again = crawled
    assert isinstance(before._link_scorer, AttributesLinkScorer) and isinstance(
        again._link_scorer, AttributesLinkScorer
    )
    held = {key: (link.evidence, link.row, link.score) for key, link in again._link_scorer._queued.items()}
    known = before._link_scorer._queued
    expected: Any = {key: (known[key].evidence, known[key].row, pytest.approx(known[key].score)) for key in held}
    assert held == expected
    assert max(len(said) for said, *_ in held.values()) == 5


def test_crawl_with_a_model_counts_with_its_table_also_when_resumed(
    crawled: tuple[Path, BatchCommitter, BatchCommitter], tmp_path: Path
) -> None:
    trained = train(crawled[0], ("bayes",))
    (tmp_path / MODEL_FILE).write_bytes(trained.to_model_file())
    tree = {"strategy": "s1-bayes", "topic": {"name": "wrens"}, "rank": {"model": str(tmp_path)}}
    settings = complete_settings(resolve_settings(tree, "test"))
    topic = build_topic(settings)
    states = {"topic": initial_topic_state(settings, topic)}
    ranker = build_analysis_parts(settings, topic, states).learners["rank"]
    assert isinstance(ranker, AttributesRanker)
    assert ranker.links.compiled_table.vector == trained.table.vector
    again = build_analysis_parts(settings, topic, states | {"rank": ranker.snapshot()}).learners["rank"]
    assert isinstance(again, AttributesRanker)
    assert again.links.compiled_table.vector == trained.table.vector


def test_state_of_an_earlier_version_is_taken_up(crawled: tuple[Path, BatchCommitter, BatchCommitter]) -> None:
    ranker = learner_of(crawled[1], RANK_STATE)
    again = learner_of(crawled[2], RANK_STATE)
    assert isinstance(ranker, AttributesRanker) and isinstance(again, AttributesRanker)
    again.restore(ranker.trainer.snapshot())  # as it was before a table stood beside it
    assert again.trainer.snapshot() == ranker.trainer.snapshot()
