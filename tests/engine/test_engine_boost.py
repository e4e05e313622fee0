"""Boosts around any ranker: what the best hubs link to comes sooner, PageRank orders, and nothing is lost."""

from pathlib import Path
from typing import Any

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine, states
from checks.small_webs import one_line, opilio, rows

SITE = "http://a.example/"
BIRDS = "wrens and other small birds sing where small wrens nest"
TRAINS = "freight locomotive timetable boiler"


def page(path: str, text: str, links: list[str]) -> tuple[str, str]:
    anchors = "".join(f"<p><a href='/{link}'>more</a></p>" for link in links)
    return path, f"<html><body><p>{text} {path}zum</p>{anchors}</body></html>"


def web() -> dict[str, str]:
    """A list of birds, one of which lists all the others and two more; and a list of trains."""
    birds = [f"b{n}" for n in range(8)]
    made = [page("0", f"{BIRDS} list", ["h", "t"]), page("h", f"{BIRDS} hub", birds)]
    made += [page("t", TRAINS, [f"c{n}" for n in range(10)])]
    made += [page(name, f"{BIRDS} {n * 'wren '}", ["h"]) for n, name in enumerate(birds) if n]
    made += [page("b0", BIRDS, ["h", *birds[1:], "x1", "x2"])]
    made += [page(name, BIRDS, []) for name in ("x1", "x2")]
    made += [page(f"c{n}", TRAINS, []) for n in range(10)]
    return dict(made)


def order(folder: Path, strategy: str, **more: Any) -> list[str]:
    answers = {SITE + path: html(SITE + path, body) for path, body in web().items()}
    tree = plain_tree([SITE + "0"], strategy=strategy, engine={"workers": 0, "batch": 1, "connections": 1}, **more)
    run_engine(folder, tree, PageFetcher(answers))
    return [url.removeprefix(SITE) for (url,) in rows(folder, "SELECT url FROM page ORDER BY seq")]


@pytest.mark.parametrize("strategy", ["pagerank", "distiller"])
def test_whole_web_is_fetched_once_in_any_order(tmp_path: Path, strategy: str) -> None:
    found = order(tmp_path / "c", strategy, boost={"every": 2})
    assert sorted(found) == sorted(web())
    assert {state for state, _ in states(tmp_path / "c").values()} == {2}


def test_links_of_a_hub_are_raised_above_others(tmp_path: Path) -> None:
    plain = order(tmp_path / "plain", "breadth", order={"kind": "best-first"})
    raised = order(
        tmp_path / "raised",
        "breadth",
        order={"kind": "best-first"},
        boost={"kind": "hubs", "same_host": True, "every": 3},
    )
    assert max(map(plain.index, ("x1", "x2"))) > max(map(raised.index, ("x1", "x2")))


def test_boost_goes_with_a_model_that_learns(tmp_path: Path) -> None:
    found = order(tmp_path / "c", "opilio", boost={"kind": "pagerank", "share": 0.3, "every": 2})
    assert sorted(found) == sorted(web())


@pytest.mark.parametrize("setting", ["boost.share=2", "boost.every=0", "boost.damping=1"])
def test_boost_that_makes_no_sense_is_refused(tmp_path: Path, setting: str) -> None:
    done = opilio(
        "crawl", "birds", "--strategy", "pagerank", "--seed", SITE, "--into", "c", "--set", setting, cwd=tmp_path
    )
    assert done.returncode == 2
    assert "boost." in one_line(done)
    assert not (tmp_path / "c").exists()
