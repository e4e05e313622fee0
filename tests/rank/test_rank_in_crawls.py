"""Rankers inside the engine: what they hand on with a link comes back with its page."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine, states
from checks.small_webs import rows
from opilio.core.records import url_key
from opilio.rank.link_scores import unpack

SITE = "http://a.example/"
BIRDS = "wrens and other small birds sing where small wrens nest"
CHAIN = {
    "0": f"<p>{BIRDS}</p><a href='/1'>on</a>",
    "1": "<p>freight locomotive timetable</p><a href='/2'>on</a>",
    "2": "<p>terminus signal box</p><a href='/3'>on</a>",
    "3": "<p>platform whistle</p><a href='/4'>on</a>",
    "4": f"<p>{BIRDS} zumaum</p>",
}


def crawled(folder: Path, strategy: str, **more: Any) -> None:
    answers = {SITE + path: html(SITE + path, f"<html><body>{body}</body></html>") for path, body in CHAIN.items()}
    tree = plain_tree([SITE + "0"], **({"strategy": strategy, "engine": {"workers": 0, "batch": 1}} | more))
    run_engine(folder, tree, PageFetcher(answers))


def part(folder: Path, page: str, name: str) -> float:
    blob = rows(folder, "SELECT columns FROM links WHERE parent = ?", url_key(SITE + page))[0][0]
    columns = unpack(blob)
    return float(np.frombuffer(columns.parts, np.float32).reshape(1, -1)[0][columns.names.index(name)])


def test_inheritance_fades_from_page_to_page_in_shark(tmp_path: Path) -> None:
    crawled(tmp_path / "c", "shark", rank={"delta": 0.5, "depth": 9})
    score = rows(tmp_path / "c", "SELECT score FROM page WHERE url = ?", SITE + "0")[0][0]
    inherited = [part(tmp_path / "c", page, "inherited") for page in "0123"]
    assert inherited == pytest.approx([score / 2, score / 4, score / 8, score / 16], rel=1e-4)


@pytest.mark.parametrize("strategy", ["shark", "fish"])
def test_path_ends_after_a_run_of_irrelevant_pages(tmp_path: Path, strategy: str) -> None:
    crawled(tmp_path / "c", strategy, rank={"depth": 2})
    assert states(tmp_path / "c").keys() == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("normaliser", "found"),
    [("stem", {"mice", "connect"}), ("porter", {"mice", "connect"}), ("lemma", {"mice", "mouse"}), ("none", {"mice"})],
)
def test_words_are_normalised_as_asked_x_07(tmp_path: Path, normaliser: str, found: set[str]) -> None:
    """The topic is written with other forms than the page; `found` says which of its words the page has."""
    if normaliser == "lemma":
        pytest.importorskip("simplemma")
    scores = {}
    for name in ("mice", "mouse", "connect"):
        answers = {SITE: html(SITE, "<html><body><p>Mice and a connection</p></body></html>")}
        tree = plain_tree([SITE], strategy="best-first", topic={"name": name, "normaliser": normaliser})
        run_engine(tmp_path / name, tree, PageFetcher(answers))
        scores[name] = rows(tmp_path / name, "SELECT score FROM page")[0][0]
    assert {name for name, score in scores.items() if score > 0.0} == found


@pytest.mark.parametrize(
    ("around", "counts"),
    [
        ("block", {"item", "before"}),
        ("sentence", {"item"}),
        ("paragraph", {"item", "before", "list"}),
        ("beside", {"item", "before", "list", "next"}),
    ],
)
def test_text_around_links_is_cut_as_asked_x_06(tmp_path: Path, around: str, counts: set[str]) -> None:
    """The topic's word stands in the link's sentence, in the one before, in another item, or after the list."""
    texts = {
        "item": "<ul><li>Rain. A wren <a href='/1'>on</a></li><li>Lake</li></ul><p>Hill</p>",
        "before": "<ul><li>A wren. Rain <a href='/1'>on</a></li><li>Lake</li></ul><p>Hill</p>",
        "list": "<ul><li>Rain <a href='/1'>on</a></li><li>A wren</li></ul><p>Hill</p>",
        "next": "<ul><li>Rain <a href='/1'>on</a></li><li>Lake</li></ul><p>A wren</p>",
    }
    found = set()
    for name, text in texts.items():
        answers = {SITE + "0": html(SITE + "0", f"<html><body>{text}</body></html>")}
        more: dict[str, Any] = {"topic": {"name": "wrens", "around": around}, "rank": {"threshold": 0.0}}
        run_engine(tmp_path / name, plain_tree([SITE + "0"], strategy="s0", **more), PageFetcher(answers))
        if part(tmp_path / name, "0", "around") > 0.0:
            found.add(name)
    assert found == counts


def test_language_of_a_page_that_declares_none_is_found_where_asked(tmp_path: Path) -> None:
    for wanted in (False, True):
        crawled(tmp_path / str(wanted), "best-first", topic={"name": "wrens and small birds", "identify": wanted})
        found = rows(tmp_path / str(wanted), "SELECT language FROM page WHERE url = ?", SITE + "0")
        assert found == [("en" if wanted else "",)]
