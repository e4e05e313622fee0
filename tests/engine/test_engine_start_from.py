"""`--start-from DIR`: what was learned about links goes over, queue and hosts do not; clear words where it can't."""

from pathlib import Path

import numpy as np
import pytest

from checks.learning_webs import crawl_and_stop_dead, judge_of, learning_tree, memory_of, mixed_web, restored
from checks.small_webs import SmallWeb, crawl, flags, one_line, opilio, rows, served
from opilio.core.errors import ConfigError
from opilio.engine.wiring.session import create_crawl
from opilio.topic.setup import resolve_settings


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learnt") / "first"
    with served(SmallWeb(mixed_web())) as server:
        crawl(folder, learning_tree(server))
    return folder


def test_weights_go_over_and_places_do_not(learnt: Path, tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        committer = crawl_and_stop_dead(tmp_path / "c", learning_tree(server, rank={"model": str(learnt)}), 0)
    begun, first = memory_of(committer).committee, restored(learnt).committee
    assert (begun.words.weights == first.words.weights).all()
    assert (begun.dense.weights == first.dense.weights).all()
    assert np.abs(begun.words.weights).max() > 0.0
    assert begun.visits_learned == 0
    assert len(begun.pool) == 0
    assert judge_of(committer).version > 0  # the topic has the same name


def test_judge_stays_behind_when_the_topic_is_another(learnt: Path, tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        tree = learning_tree(server, rank={"model": str(learnt)}, topic={"name": "steam railways"})
        committer = crawl_and_stop_dead(tmp_path / "c", tree, 0)
    assert judge_of(committer).version == 0
    assert np.abs(memory_of(committer).committee.words.weights).max() > 0.0


def test_crawl_that_began_with_a_model_goes_on_and_keeps_one_state(learnt: Path, tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        tree = learning_tree(server, rank={"model": str(learnt)}, stop={"pages": 10})
        crawl(tmp_path / "c", tree)
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 20}})
    assert rows(tmp_path / "c", "SELECT count(*) FROM snapshot WHERE name = 'committee'") == [(1,)]
    assert restored(tmp_path / "c").committee.visits_learned >= 20


def test_start_from_is_a_flag(learnt: Path, tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web())) as server:
        more = flags(learning_tree(server))
        done = opilio("crawl", *more, "--start-from", learnt, "--pages", 3, "--into", tmp_path / "c", "-q")
        assert done.returncode == 0, done
        again = opilio("crawl", *more, "--start-from", tmp_path, "--into", tmp_path / "c", "-q")
    assert again.returncode == 2
    assert "has been started already" in one_line(again)


def test_start_from_is_refused_when_there_is_nothing_to_start_from(tmp_path: Path) -> None:
    with served(SmallWeb(mixed_web(2))) as server:
        crawl(tmp_path / "breadth", learning_tree(server, strategy="breadth", stop={"pages": 2}))
        create_crawl(tmp_path / "new", resolve_settings(learning_tree(server)))._collection.close()
        cases = {
            tmp_path / "gone": "not a collection",
            tmp_path / "breadth": "was crawled by strategy 'breadth', which stores no link model",
            tmp_path / "new": "has not learned anything yet",
        }
        for folder, result in cases.items():
            with pytest.raises(ConfigError, match=f"--start-from .*{result}"):
                create_crawl(tmp_path / "c", resolve_settings(learning_tree(server, rank={"model": str(folder)})))
        with pytest.raises(ConfigError, match="strategy 's0' does not learn"):
            create_crawl(
                tmp_path / "c", resolve_settings(learning_tree(server, strategy="s0", rank={"model": str(tmp_path)}))
            )
    assert not (tmp_path / "c").exists()
