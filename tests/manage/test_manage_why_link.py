"""`opilio why` shows which features and words raised and lowered a link, and how its siblings turned out."""

import json
import shutil
from pathlib import Path

import pytest

from checks.explanations import explained_ranking
from checks.learning_webs import learning_tree, mixed_web
from checks.small_webs import SmallWeb, crawl, opilio, rows, served
from opilio.manage.why import why


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("why") / "c"
    with served(SmallWeb(mixed_web())) as server:
        crawl(into, learning_tree(server, stop={"pages": 30}, engine={"connections": 2, "batch": 1}))
    return into


def queued(folder: Path) -> list[str]:
    found = rows(folder, "SELECT url FROM frontier_url WHERE state = 0 AND features IS NOT NULL ORDER BY score")
    return [str(url) for (url,) in found]


def test_why_names_features_words_and_siblings_of_a_queued_link(folder: Path) -> None:
    ranker = explained_ranking(folder, queued(folder)[0])  # the least promising: there words say more than the page
    assert 0.0 <= ranker.score_now <= 1.0
    assert ranker.learnt_from >= 30
    result = [effect.what for effect in (*ranker.raised_by, *ranker.lowered_by)]
    assert any("the topic" in what or "pages of" in what for what in result)
    assert any("“" in what for what in result)  # a word as it is displayed
    assert not any("can't be read back" in what for what in result)
    assert all(effect.effect > 0 for effect in ranker.raised_by)
    assert all(effect.effect < 0 for effect in ranker.lowered_by)


def test_why_explains_how_the_same_list_turned_out(folder: Path) -> None:
    ranker = explained_ranking(folder, "http://birds.example/birds-1.html")
    (siblings,) = ranker.siblings
    assert siblings.page == "http://birds.example/"
    assert siblings.fetched > 3
    assert siblings.mean_reward > 0.5


def test_why_is_reported_in_words_and_in_json(folder: Path) -> None:
    url = "http://birds.example/birds-1.html"
    text = opilio("why", folder, url).stdout
    assert "the ranker gives it" in text
    assert "raised by" in text
    assert "links of the same list on http://birds.example/ that were fetched" in text
    facts = json.loads(opilio("why", folder, url, "--json").stdout)
    assert {"score_now", "learnt_from", "raised_by", "lowered_by", "siblings"} == set(facts["ranker"])


def test_seeds_and_other_strategies_have_no_ranker_to_explain(folder: Path, tmp_path: Path) -> None:
    assert why(folder, "http://birds.example/").ranker is None
    with served(SmallWeb(mixed_web(2))) as server:
        crawl(tmp_path / "c", learning_tree(server, strategy="breadth", stop={"pages": 4}))
    assert why(tmp_path / "c", "http://birds.example/birds-1.html").ranker is None


def test_why_still_answers_when_the_page_it_stands_on_is_gone(folder: Path, tmp_path: Path) -> None:
    """Words can't be read back then; the rest is explained."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for file in copy.glob("*.warc.gz"):
        file.write_bytes(b"")
    ranker = explained_ranking(copy, "http://birds.example/birds-1.html")
    assert ranker.raised_by
