"""A table that is built from the seeds is built as soon as none of them is open, whatever became of them (S3-12)."""

from pathlib import Path
from typing import Any

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.learning_webs import crawl_and_stop_dead
from checks.small_webs import BIRDS, SmallWeb, crawl, page, redirect, robots, rows, served, settings_for, word
from opilio.core.events import BatchCommitted
from opilio.core.records import Lead, UrlResult, UrlState, url_key
from opilio.core.settings import Tree
from opilio.core.urls import host_of
from opilio.engine.reseeding import SeedProgress
from opilio.fetch.decoding import RecordedResponse
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.schema import create_frontier_tables as create_frontier
from opilio.lab.server.server import LabWebServer
from opilio.store.collection import Collection
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import WeightTable

A, B, C = (f"http://{name}.example/" for name in "abc")
PAGES = {url: page(f"{BIRDS} {word(n)}", [f"{url}more.html"]) for n, url in enumerate((A, B, C))}
MORE = {f"{url}more.html": page(f"{BIRDS} {word(10 + n)}") for n, url in enumerate((A, B, C))}


def tree_for(server: LabWebServer, strategy: str = "s3-tswt", **more: Any) -> Tree:
    """Each seed has a word of its own, which joins the table although no other page has it."""
    one = {"engine": {"workers": 0, "batch": 1, "connections": 1}, "expansion": {"min_documents": 1}}
    return settings_for(server, [A, B, C], strategy=strategy, **one, **more)


def table_of(folder: Path, name: str = "topic") -> WeightTable:
    (state,) = rows(folder, "SELECT state FROM snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", name)[0]
    living = EvolvingTopic(WeightTable())
    living.restore(state)
    return living.table


@pytest.mark.parametrize("strategy", ["s3-tswt", "s4-static", "s3-agents"])
@pytest.mark.parametrize(
    "answers",
    [
        {},
        {f"{B}robots.txt": robots("User-agent: *\nDisallow: /")},
        {f"{B}robots.txt": robots("", 503)},
        {B: redirect(f"{A}target.html"), C: redirect(f"{A}target.html"), f"{A}target.html": PAGES[B]},
        {B: redirect(A)},
        {B: redirect(B), C: robots("", 404)},
        {B: robots("", 503)},
    ],
    ids=["all answer", "refused", "no rules", "two to one page", "to another seed", "to itself, gone", "overloaded"],
)
def test_table_is_built_whatever_became_of_the_seeds_s3_12_s4_02(
    tmp_path: Path, answers: dict[str, RecordedResponse], strategy: str
) -> None:
    with served(SmallWeb({**MORE, **PAGES, **answers})) as server:
        alone = {"agents": {"count": 1}} if strategy == "s3-agents" else {}
        crawl(tmp_path / "c", tree_for(server, strategy, **alone))
    name = "agent-1/topic" if strategy == "s3-agents" else "topic"
    assert word(0) in table_of(tmp_path / "c", name).weights


def test_table_waits_for_the_page_a_seed_redirects_to_s3_12(tmp_path: Path) -> None:
    web = SmallWeb({**MORE, **PAGES, C: redirect(f"{C}new/"), f"{C}new/": page(f"{BIRDS} {word(7)}")})
    with served(web) as server:
        crawl(tmp_path / "c", tree_for(server, "s4-static"))
    assert {word(0), word(1), word(7)} <= table_of(tmp_path / "c").weights.keys()


@pytest.mark.parametrize("after", [1, 2, 3])
def test_table_has_the_words_of_all_seeds_when_a_crawl_was_killed_between_them_s3_12(
    tmp_path: Path, after: int
) -> None:
    with served(SmallWeb({**MORE, **PAGES})) as server:
        tree = tree_for(server, "s4-static")
        crawl(tmp_path / "whole", tree)
        crawl_and_stop_dead(tmp_path / "killed", tree, after)
        crawl(tmp_path / "killed", tree)
    assert {word(0), word(1), word(2)} <= table_of(tmp_path / "whole").weights.keys()
    assert table_of(tmp_path / "killed").weights == table_of(tmp_path / "whole").weights


def test_crawl_learns_words_of_other_senses_and_keeps_them_s4_f1(tmp_path: Path) -> None:
    """Cars first, then animals that the judge finds irrelevant, then one page that only their words can reject."""
    car, cat = "A jaguar car with engine and dealer.", "A jaguar hunts deer in the jungle by the river."
    urls = [f"{A}{n}" for n in range(13)]
    texts = [*[car] * 6, *[cat] * 6, "A jaguar car and engine in the jungle by the river hunts deer."]
    pages = {url: page(f"{text} {word(n)}") for n, (url, text) in enumerate(zip(urls, texts, strict=True))}
    pages[urls[0]] = page(car, urls[1:])
    topic = {"name": "jaguar", "keywords": ["jaguar", "car", "engine", "dealer"], "contexts": []}
    with served(SmallWeb(pages)) as server:
        tree = settings_for(server, urls[:1], topic=topic, judge={"kind": "cosine", "threshold": 0.5})
        tree |= {
            "senses": {"kind": "company"},
            "expansion": {"kind": "none"},
            "frontier": {"per_host": 1},
            "engine": {"workers": 1, "batch": 1, "connections": 1},
        }
        crawl_and_stop_dead(tmp_path / "c", tree, 9)
        crawl(tmp_path / "c", tree)
    verdicts = dict(rows(tmp_path / "c", "SELECT url, relevant FROM page"))
    assert [verdicts[url] for url in urls] == [1] * 6 + [0] * 7
    (reasons,) = rows(tmp_path / "c", "SELECT reasons FROM page WHERE url = ?", urls[-1])[0]
    assert b"learnt company" in bytes(reasons)


def test_seeds_are_settled_in_the_frontier_of_the_lab_too_s3_12() -> None:
    frontier, collection = MemoryFrontier(), Collection.in_memory()
    create_frontier(collection.connection)
    frontier.add([Lead(url=url, key=url_key(url), host=host_of(url)) for url in (A, B)], 0.0)
    watch = SeedProgress((A, B), frontier, collection, max_redirects=5)
    assert not watch.is_finished(0.0)
    for lease, state in zip(frontier.lease(0.0, 2, 1, 60.0), (UrlState.DONE, UrlState.FAILED), strict=True):
        assert not watch.is_finished(0.0)
        frontier.complete(lease, [UrlResult(key=lease.leads[0].key, host=lease.host, state=state)], 0.0)
    assert watch.is_finished(0.0)
    collection.close()


@pytest.mark.parametrize(("share", "counted"), [(0.0, [A]), (0.5, [A, f"{A}more.html"])])
def test_words_of_later_pages_are_counted_only_where_the_table_grows_s3_14(
    tmp_path: Path, share: float, counted: list[str]
) -> None:
    pages = {A: html(A, f'<p>{BIRDS}</p><a href="more.html">more birds</a>')}
    pages[f"{A}more.html"] = html(f"{A}more.html", f"<p>{BIRDS}</p>")
    topic = {"name": "birds", "keywords": ["birds"]}
    tree = plain_tree([A], strategy="s4-static", topic=topic, expansion={"share": share}, judge={"threshold": 0.0})
    _, events = run_engine(tmp_path / "c", tree, PageFetcher(pages))
    outcomes = [outcome for event in events if isinstance(event, BatchCommitted) for outcome in event.outcomes]
    relevant = [o.lead.url for o in outcomes if o.relevant]
    assert sorted(relevant) == sorted(pages)
    assert [o.lead.url for o in outcomes if o.analysis and o.analysis.counts] == counted
