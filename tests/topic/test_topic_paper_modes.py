"""Each paper mode is one strategy, and where the papers disagree the modes differ on one small web (spec: X)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine, states
from checks.small_webs import rows
from opilio.core.clock import VirtualClock
from opilio.core.strategies import strategy_names
from opilio.engine.wiring.settings import complete_settings
from opilio.engine.wiring.topic import build_initial_topic, build_topic
from opilio.topic.setup import resolve_settings

SITE = "http://a.example/"
BIRDS = "wrens and other small birds sing in the hedge where wrens build nests and small birds feed"
OTHER = "freight locomotive terminus timetable signal box"
S0, S3, S4 = ("s0", "s0-earlier"), ("s3-tswt",), ("s4-static", "s4-dynamic")
PAPERS = (*S0, *S3, *S4)
OTHERS = ("s1-bayes", "s1-tree", "s1-neural", "s2-treasure", "opilio")


def link(path: str, anchor: str = "here") -> str:
    return f'<p><a href="/{path}">{anchor}</a></p>'


WEB = {
    "seed": f"<p>{BIRDS} zumaum</p>" + link("trains") + link("brief") + link("birds") + link("shared"),
    "trains": f"<p>{OTHER}</p>" + link("hidden"),
    "hidden": f"<p>{BIRDS} zumbum</p>",
    "brief": f"<p>wrens {OTHER} {OTHER} platform whistle engine</p>",
    "birds": f"<p>{BIRDS} zumcum</p>" + link("shared", "small birds: wrens") + link("late"),
    "shared": f"<p>{BIRDS} zumdum</p>",
    "late": f"<p>{BIRDS} zumeum</p>",
}


def crawled(folder: Path, mode: str, web: Mapping[str, str] = WEB, takes_s: float = 0.0, **more: Any) -> None:
    engine = {"workers": 0, "connections": 1, "batch": 1}
    frontier = {"per_host": 1}
    tree = plain_tree([SITE + "seed"], **({"strategy": mode, "engine": engine, "frontier": frontier} | more))
    answers = {SITE + path: html(SITE + path, f"<html><body>{body}</body></html>") for path, body in web.items()}
    clock = VirtualClock()
    run_engine(folder, tree, PageFetcher(answers, clock, takes_s), clock=clock)


def verdict(folder: Path, path: str) -> tuple[float, bool]:
    score, relevant = rows(folder, "SELECT score, relevant FROM page WHERE url = ?", SITE + path)[0]
    return score, bool(relevant)


def queued(folder: Path, path: str) -> float:
    score: float = rows(folder, "SELECT score FROM frontier_url WHERE url = ?", SITE + path)[0][0]
    return score


@pytest.mark.parametrize("mode", strategy_names())
def test_mode_loads_and_crawls(tmp_path: Path, mode: str) -> None:
    complete_settings(resolve_settings({"strategy": mode}))
    crawled(tmp_path / "c", mode)
    assert states(tmp_path / "c")["birds"][0] == 2


@pytest.mark.parametrize("mode", PAPERS)
def test_one_topic_word_is_enough_only_by_the_norm_over_topic_words_x_01(tmp_path: Path, mode: str) -> None:
    crawled(tmp_path / "c", mode)
    score, _ = verdict(tmp_path / "c", "brief")
    assert (score > 0.3) is (mode in S0)
    assert verdict(tmp_path / "c", "birds")[0] > 0.3


@pytest.mark.parametrize("mode", PAPERS)
def test_score_at_the_threshold_passes_only_where_the_test_is_not_strict_x_02(tmp_path: Path, mode: str) -> None:
    crawled(tmp_path / "c", mode, judge={"threshold": 0.0})
    score, relevant = verdict(tmp_path / "c", "trains")
    assert score == 0.0
    assert relevant is (mode not in S4)


@pytest.mark.parametrize("mode", [*PAPERS, *OTHERS])
def test_page_behind_an_irrelevant_one_is_found_unless_focus_is_hard_x_05_s0_28_s1_10_s2_13(
    tmp_path: Path, mode: str
) -> None:
    every_link: dict[str, Any] = {"rank": {"threshold": 0.0}} if mode in S0 else {}  # s0-earlier keeps few of any page
    crawled(tmp_path / "c", mode, **every_link)
    assert not verdict(tmp_path / "c", "trains")[1]
    assert ("hidden" in states(tmp_path / "c")) is (mode not in S4)


@pytest.mark.parametrize("mode", S0)
def test_good_links_of_an_irrelevant_page_enter_and_others_do_not_s0_28(tmp_path: Path, mode: str) -> None:
    """With the thresholds of the paper's modes."""
    web = {
        "seed": f"<p>{OTHER}</p>" + link("hidden", "wrens and other small birds") + link("late"),
        "hidden": f"<p>{BIRDS} zumbum</p>",
        "late": f"<p>{BIRDS} zumeum</p>",
    }
    crawled(tmp_path / "c", mode, web)
    assert not verdict(tmp_path / "c", "seed")[1] and verdict(tmp_path / "c", "hidden")[1]
    assert states(tmp_path / "c").get("late", (0, ""))[0] != 2  # below the threshold of links


def best_first(mode: str) -> dict[str, Any]:
    """Two pages and no more: the seed and the one with the best anchor, which both link to `shared`."""
    return {"stop": {"fetches": 2}, "order": {"kind": "best-first"}, "strategy": mode}


TWICE = {
    "seed": f"<p>{BIRDS} zumaum</p>" + link("birds", "wrens: small birds") + link("shared"),
    "birds": f"<p>{BIRDS} zumcum</p>" + link("shared", "small birds: wrens"),
}


@pytest.mark.parametrize("mode", [*PAPERS, "shark"])
def test_second_finding_changes_the_score_only_where_it_is_not_discarded_x_15(tmp_path: Path, mode: str) -> None:
    once, twice = tmp_path / "once", tmp_path / "twice"
    crawled(once, mode, TWICE, stop={"fetches": 1})
    crawled(twice, mode, TWICE, **best_first(mode))
    assert (queued(twice, "shared") == queued(once, "shared")) is (mode in S4)


def test_all_known_parents_count_in_s3_and_the_one_source_elsewhere_x_11_s3_17(tmp_path: Path) -> None:
    more = {**best_first("s3-tswt"), "frontier": {"per_host": 1, "merge": "max"}}
    scores = {}
    for how in ("sum", "max"):
        crawled(tmp_path / how, "s3-tswt", TWICE, **more, rank={"parent_agg": how})
        scores[how] = queued(tmp_path / how, "shared")
    parents = sorted(verdict(tmp_path / "sum", path)[0] for path in ("seed", "birds"))
    assert scores["sum"] - scores["max"] == pytest.approx(parents[0], abs=1e-4)  # sum of both, against the better one


@pytest.mark.parametrize(("weight", "relevant"), [(0, False), (1, False), (6, True)])
def test_title_counts_as_often_as_set_and_once_in_s0(tmp_path: Path, weight: int, relevant: bool) -> None:
    web = {"seed": f"<title>wrens</title><p>{OTHER}</p>"}
    topic = {"name": "wrens", "keywords": ["wren"]}
    assert complete_settings(resolve_settings({"strategy": "s0"})).topic.title_weight == 1
    judge = {"norm": "page", "threshold": 0.6, "threshold_words": 0}
    crawled(tmp_path / "c", "s0", web, topic=topic | {"title_weight": weight}, judge=judge)
    score, accepted = verdict(tmp_path / "c", "seed")
    assert (score > 0.0, accepted) == (weight > 0, relevant)


@pytest.mark.parametrize(("weight", "changes"), [(0.0, False), (0.5, True)])
def test_name_changes_a_given_table_only_by_its_weight_which_is_0_in_s0(weight: float, changes: bool) -> None:
    assert complete_settings(resolve_settings({"strategy": "s0"})).topic.name_weight == 0.0
    tables = []
    for name in ("wrens", "hedges and lakes"):
        topic = {"name": name, "keywords": {"wren": 1.0, "nest": 0.5}, "name_weight": weight}
        settings = complete_settings(resolve_settings({"strategy": "s0", "topic": topic}))
        tables.append(build_initial_topic(settings, build_topic(settings)).table.weights)
    assert (tables[0] != tables[1]) is changes
    if not changes:
        assert tables[0] == {"wren": 1.0, "nest": 0.5}


@pytest.mark.parametrize("mode", [*PAPERS, *OTHERS])
def test_entry_that_waits_too_long_is_deleted_only_in_s3_x_13_s3_27(tmp_path: Path, mode: str) -> None:
    lifetime: dict[str, Any] = {"order": {"lifetime_s": 15.0}} if mode in S3 else {}
    crawled(tmp_path / "c", mode, takes_s=10.0, stop={"patience_s": 100.0}, **lifetime)
    found = states(tmp_path / "c")
    expired = {path for path, (_, reason) in found.items() if reason == "expired"}
    assert bool(expired) is (mode in S3)
    asked = {url for (url,) in rows(tmp_path / "c", "SELECT url FROM page")}
    assert not {SITE + path for path in expired} & asked  # expired entries are never requested (S3-28)


def test_aging_raises_what_expiry_deletes_x_13_s2_39() -> None:
    from opilio.frontier.policy import Aging, Expiring
    from opilio.frontier.policy import QueueTime as Moment

    assert Expiring(lifetime_s=1.0).drops_expired and not Aging().drops_expired
    aging = Aging(factor=0.05, every=10)
    place = aging.position(0.2, 1, Moment(1, 0.0))
    assert aging.display_priority(place.priority, 50) > aging.display_priority(place.priority, 1)


def test_simple_sum_and_half_weights_fetch_in_the_same_order_s3_39_s3_e2(tmp_path: Path) -> None:
    orders = []
    for weight in (1.0, 0.5):
        folder = tmp_path / str(weight)
        crawled(folder, "s3-tswt", rank={"topic": weight, "genre": weight})
        orders.append([url for (url,) in rows(folder, "SELECT url FROM page ORDER BY seq")])
    assert orders[0] == orders[1] and len(orders[0]) == len(WEB)


def test_genre_of_a_page_is_kept_and_reported_s3_23(tmp_path: Path) -> None:
    news = "breaking news: our reporter and correspondent sent a report, an interview and press coverage"
    crawled(tmp_path / "c", "s3-tswt", {"seed": f"<p>{BIRDS} {news}</p>"})
    assert rows(tmp_path / "c", "SELECT genre FROM page") == [("news",)]


def test_table_grows_by_what_the_main_text_says_only_s0_21(tmp_path: Path) -> None:
    menu = "<nav>" + "".join(f'<a href="/{n}">subscription</a> ' for n in range(9)) + "</nav>"
    web = {"seed": f"{menu}<p>{BIRDS} plumage plumage</p>"}
    crawled(tmp_path / "c", "best-first", web, expansion={"kind": "periodic", "period": 1, "added": 9})
    result = rows(tmp_path / "c", "SELECT data FROM event WHERE kind = 'TopicChanged'")
    assert b"plumage" in result[0][0] and b"subscription" not in result[0][0]
