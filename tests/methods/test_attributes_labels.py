"""Labels of pages retrain S1's learner at once and rescore the queue; a label can be removed."""

from pathlib import Path

import pytest

from checks.attribute_collections import crowded_web
from checks.learning_webs import crawl_and_stop_dead, learner_of, learning_tree
from checks.small_webs import SmallWeb, crawl, rows, served
from opilio.cli.collection import _lines
from opilio.core.protocols import RANK_STATE
from opilio.core.settings import Tree
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.verify import verify
from opilio.methods.attributes.learner import LEARNER_NAMES
from opilio.methods.attributes.ranker import AttributesRanker

pytest.importorskip("sklearn")
SCORES = "SELECT url, score FROM frontier_url WHERE state = 0 ORDER BY url"
RELEVANT = "SELECT url FROM page WHERE relevant ORDER BY seq"


def crawled(folder: Path, strategy: str, pages: int = 48) -> Tree:
    with served(SmallWeb(crowded_web(70))) as server:
        tree = learning_tree(server, strategy=strategy, stop={"pages": pages}, frontier={"per_host": 1})
        crawl(folder, tree)
    return tree


def ranker_of(folder: Path, tree: Tree) -> AttributesRanker:
    ranker = learner_of(crawl_and_stop_dead(folder, tree, 0), RANK_STATE)
    assert isinstance(ranker, AttributesRanker)
    return ranker


def said(urls: list[str], relevant: bool | None) -> list[LabelRequest]:
    return [LabelRequest(url, relevant, "test") for url in urls]


@pytest.mark.parametrize("name", LEARNER_NAMES)
def test_labels_retrain_the_ranker_and_rescore_the_queue(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "c"
    tree = crawled(folder, f"s1-{name}")
    before, scores = ranker_of(folder, tree), rows(folder, SCORES)
    wrong = [url for (url,) in rows(folder, RELEVANT)][1:6]
    report, problems = label_pages(folder, said(wrong, False), 5.0)
    assert (problems, report.verdicts_changed, report.learns) == ([], 5, True)
    assert report.moved > 0
    assert rows(folder, SCORES) != scores
    after = ranker_of(folder, tree)  # from the journal
    assert after.version == before.version + 1
    taught = [len(part) // 32 for part in after.trainer.learner.pack_rows()]
    assert taught[1] == len(rows(folder, RELEVANT))  # the rows have changed sides, none is there twice
    assert sum(taught) == rows(folder, "SELECT count(*) FROM page WHERE duplicate_of = 0")[0][0]
    assert verify(folder) == []


def test_word_taken_back_leaves_the_model_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    tree = crawled(folder, "s1-bayes")
    wrong = [url for (url,) in rows(folder, RELEVANT)][1:4]
    label_pages(folder, said([wrong[0]], False), 5.0)  # what waits for the next fit is fitted too
    label_pages(folder, said([wrong[0]], None), 6.0)
    scores, model = dict(rows(folder, SCORES)), ranker_of(folder, tree).trainer.learner.model
    label_pages(folder, said(wrong, False), 7.0)
    assert dict(rows(folder, SCORES)) != scores
    label_pages(folder, said(wrong, None), 8.0)
    assert dict(rows(folder, SCORES)) == pytest.approx(scores, abs=1e-3)
    assert ranker_of(folder, tree).trainer.learner.model == model


def test_same_word_teaches_nothing_new(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    tree = crawled(folder, "s1-bayes")
    before = ranker_of(folder, tree).snapshot()
    right = [url for (url,) in rows(folder, RELEVANT)][1:3]
    report, _ = label_pages(folder, said(right, True), 5.0)
    assert (report.verdicts_changed, report.moved) == (0, 0)
    assert ranker_of(folder, tree).snapshot() == before


@pytest.mark.parametrize(
    ("strategy", "learns"), [("s1-bayes", True), ("opilio", True), ("best-first", False), ("s2-treasure", False)]
)
@pytest.mark.slow
def test_report_says_truly_whether_labels_are_learnt(tmp_path: Path, strategy: str, learns: bool) -> None:
    crawled(tmp_path / "c", strategy, 6)
    url, word = rows(tmp_path / "c", "SELECT url, relevant FROM page ORDER BY seq")[0]
    report, _ = label_pages(tmp_path / "c", said([url], not word), 5.0)
    assert report.learns is learns
    assert ("this strategy does not learn from labels" in "".join(_lines(report, "stored"))) is not learns
