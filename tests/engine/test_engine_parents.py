"""All the pages a link was found on count (S3-17, X-11), also when the crawl was stopped and resumed."""

from pathlib import Path

import numpy as np
import pytest

from checks.learning_webs import crawl_and_stop_dead, mixed_web
from checks.small_webs import BIRDS, SmallWeb, crawl, page, rows, served, settings_for
from opilio.core.settings import Tree
from opilio.engine import link_scoring
from opilio.engine.commit import BatchCommitter
from opilio.engine.link_scoring import ParentLinkScorer
from opilio.lab.server.server import LabWebServer
from opilio.rank.link_scores import unpack
from opilio.rank.topic_genre import KnownParents, TopicGenreOptions

SCORES = "SELECT url, round(score, 5) FROM frontier_url"
ONE_BY_ONE = {"batch": 1, "connections": 1}


def tree(server: LabWebServer) -> Tree:
    return settings_for(server, [next(iter(mixed_web()))], strategy="s3-tswt", engine=ONE_BY_ONE)


def known(committer: BatchCommitter) -> KnownParents:
    chooser = committer._link_scorer
    assert isinstance(chooser, ParentLinkScorer)
    return chooser._parents


@pytest.mark.parametrize("after", [1, 9])
def test_parents_are_known_again_when_a_killed_crawl_goes_on(tmp_path: Path, after: int) -> None:
    with served(SmallWeb(mixed_web())) as server:
        before = known(crawl_and_stop_dead(tmp_path / "c", tree(server), after))
        again = known(crawl_and_stop_dead(tmp_path / "c", tree(server), 0))
    assert before.known
    assert again.known == before.known


def test_resumed_crawl_scores_a_link_as_one_that_was_never_stopped(tmp_path: Path) -> None:
    site = "http://a.example/"
    web = {
        site + "a": page(f"{BIRDS} Among hedges.", [site + "x"]),
        site + "b": page(f"{BIRDS} Among reeds.", [site + "x"]),
    }
    with served(SmallWeb(web)) as server:
        seeds = [site + "a", site + "b"]
        setting = settings_for(server, seeds, strategy="s3-tswt", engine=ONE_BY_ONE, stop={"pages": 2})
        setting["frontier"] = {"per_host": 1}
        crawl(tmp_path / "whole", setting)
        crawl_and_stop_dead(tmp_path / "parts", setting, 1)
        crawl(tmp_path / "parts", setting)
    whole, parts = (dict(rows(tmp_path / name, SCORES)) for name in ("whole", "parts"))
    assert whole[site + "x"] > 1.0  # two parents, both known
    assert parts == whole


def test_only_the_newest_pages_are_read_where_there_is_no_more_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(SmallWeb(mixed_web())) as server:
        crawl(tmp_path / "c", tree(server))
        everything = known(crawl_and_stop_dead(tmp_path / "c", tree(server), 0)).known
        monkeypatch.setattr(link_scoring, "MAX_PARENT_LINKS", 3)
        newest = known(crawl_and_stop_dead(tmp_path / "c", tree(server), 0)).known
    assert 0 < len(newest) <= 3 < len(everything)


@pytest.mark.parametrize(("most", "expected"), [(5, 2.5), (0, 4.0)])
def test_all_parents_of_a_link_count_or_the_first_ones_s3_17(most: int, expected: float) -> None:
    chooser = ParentLinkScorer(TopicGenreOptions(parents=most))
    for parent in range(1, 9):
        chooser._parents.add(parent, (0.5,), [77])
    assert chooser._parents.aggregate(77, (0.0,), "sum") == (expected,)


def test_parents_count_in_the_genre_part_too_s3_23(tmp_path: Path) -> None:
    """Two news pages link to x: its score has the cosine of both with the words of news."""
    site, news = "http://a.example/", "Breaking news, report by our press correspondent, headline and journalist."
    web = {
        site + "a": page(f"{BIRDS} {news} Among hedges.", [site + "x"]),
        site + "b": page(f"{BIRDS} {news} Among reeds.", [site + "x"]),
    }
    scores = {}
    with served(SmallWeb(web)) as server:
        for most in (1, 2):
            seeds = [site + name for name in "ab"[:most]]
            setting = settings_for(server, seeds, strategy="s3-tswt", engine=ONE_BY_ONE, stop={"pages": most})
            setting |= {"rank": {"topic": 0.0, "genre": 1.0}, "frontier": {"per_host": 1}}
            crawl(tmp_path / str(most), setting)
            scores[most] = dict(rows(tmp_path / str(most), SCORES))[site + "x"]
            columns = unpack(rows(tmp_path / str(most), "SELECT columns FROM links ORDER BY parent LIMIT 1")[0][0])
    parts = dict(zip(columns.names, np.frombuffer(columns.parts, dtype=np.float32), strict=True))
    assert parts["genre news page"] > 0.2
    assert scores[2] - scores[1] == pytest.approx(parts["genre news page"], abs=0.02)
