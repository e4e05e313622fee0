"""The sums and pictures behind the pages: they say what the collection says, and stay within their bounds."""

from array import array
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checks.page_server import Client, crawled, mixed_web, pages_of
from checks.small_webs import crawl, rows, served, settings_for
from opilio.core.settings import StopSettings
from opilio.store.collection import Collection, open_readonly
from opilio.store.writer import CrawlCounts
from opilio.web.charts import comparison_chart, harvest_curve, line_chart, tick_values
from opilio.web.context import PageRoute
from opilio.web.pages import PAGES
from opilio.web.pages.hosts import layout_graph
from opilio.web.pages.queue import top_queue_rows
from opilio.web.stats import CollectionStats, RemainingWork, remaining_work

SEED = "http://h0.example/0.html"
DOCS = Path(__file__).parents[2] / "docs" / "pages.md"


def _sums(tally: CollectionStats) -> list[tuple[str, int, int]]:
    return sorted((host, one.pages, one.relevant) for host, one in tally.hosts.items())


def test_sums_are_those_of_the_database_when_read_in_pieces(tmp_path: Path) -> None:
    """A running crawl is read bit by bit; so are two runs over one collection."""
    tally = CollectionStats()
    for pages in (3, 9, 0):
        crawled(tmp_path / "birds", stop={"pages": pages})
        with open_readonly(tmp_path / "birds") as collection:
            tally.refresh(collection)
    result = rows(tmp_path / "birds", "SELECT host, count(*), sum(relevant) FROM page GROUP BY host ORDER BY host")
    assert _sums(tally) == result
    assert tally.fetched == rows(tmp_path / "birds", "SELECT count(*) FROM answer")[0][0]
    assert list(tally.relevant) == [r for (r,) in rows(tmp_path / "birds", "SELECT relevant FROM page ORDER BY seq")]


def test_sums_follow_a_label(tmp_path: Path) -> None:
    with pages_of([crawled(tmp_path / "birds")], tmp_path) as client:
        before = client.get("/c/birds/hosts.json?text=h0").data["hosts"][0]["relevant"]
        client.post("/c/birds/label", {"url": SEED, "is": "irrelevant"})
        assert client.get("/c/birds/hosts.json?text=h0").data["hosts"][0]["relevant"] == before - 1


def test_age_counts_from_the_first_fetch_of_a_parent_or_the_start(tmp_path: Path) -> None:
    """Whoever fetches the parent again does not make its links young."""
    folder = tmp_path / "birds"
    with served(mixed_web()) as server:
        crawl(
            folder,
            settings_for(server, [SEED, "http://h2.example/9.html"], stop={"pages": 1}, engine={"connections": 1}),
        )
    ((began,), (fetched,)) = rows(
        folder, "SELECT at FROM event WHERE kind = 'CrawlStarted' UNION ALL SELECT fetched_at FROM page"
    )
    again = Collection.open_for_writing(folder)
    with again.unit_of_work():
        again.connection.execute("INSERT INTO version SELECT *, fetched_at + 50, 2, 'changed' FROM page")
        again.connection.execute("UPDATE page SET fetched_at = fetched_at + 50")
    again.close()
    with open_readonly(folder) as collection:
        ages = {entry["parent"]: entry["waits_s"] for entry in top_queue_rows(collection, 0, 50, fetched + 100.0)}
    assert ages == {"": round(fetched + 100.0 - began, 1), SEED: 100.0}


@pytest.mark.parametrize(
    ("limits", "remaining"),
    [
        ({"pages": 10}, RemainingWork(4, "pages", 2.0)),
        ({"pages": 0, "fetches": 20}, RemainingWork(12, "requests", 6.0)),
        ({"pages": 100, "fetches": 5}, RemainingWork(0, "requests", 0.0)),  # reached
        ({"pages": 0, "relevant": 7}, RemainingWork(2, "relevant pages", None)),
        ({"pages": 0}, None),
    ],
)
def test_remaining_work_is_that_to_the_nearest_limit(limits: dict[str, int], remaining: RemainingWork | None) -> None:
    counts = CrawlCounts(pages=6, fetched=8, relevant=5)
    assert remaining_work(msgspec.convert(limits, StopSettings), counts, 2.0) == remaining


def test_collection_without_a_title_has_its_name_on_the_card(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds")
    with pages_of([folder], tmp_path) as client:
        assert ">birds</a></h3>" in client.get("/").text
        client.form("/c/birds/manage", {"do": "save", "title": "Wrens", "notes": ""})
        assert ">Wrens</a></h3>" in client.get("/").text


def test_page_of_a_dead_seed_names_the_error(tmp_path: Path) -> None:
    """Nothing was fetched, but the crawl did not go well."""
    with served(mixed_web()) as server:
        nowhere = {"proxy": "", "allow_private": True, "resolve": {"dead.example": "127.0.0.1:1"}}
        tree = settings_for(server, ["http://dead.example/"], fetch=nowhere)
        crawl(tmp_path / "dead", tree)
    with pages_of([tmp_path / "dead"], tmp_path) as client:
        blocked = client.get("/c/dead/errors.json").data["blocked"]
        assert [host["host"] for host in blocked] == ["dead.example"]
        for address in ("/c/dead", "/c/dead/errors"):
            text = client.get(address).text
            assert "dead.example" in text
            assert "No errors." not in text


@given(st.lists(st.booleans(), max_size=700), st.integers(2, 50))
def test_curve_ends_with_the_whole_crawl(found: list[bool], points: int) -> None:
    curve = harvest_curve(bytes(found), [float(n) for n in range(len(found))], points)
    assert len(curve) <= points
    assert [p["pages"] for p in curve] == sorted({p["pages"] for p in curve})
    if found:
        assert (curve[-1]["pages"], curve[-1]["relevant"]) == (len(found), sum(found))
        assert curve[-1]["recent"] == pytest.approx(sum(found[-100:]) / len(found[-100:]), abs=1e-4)


@given(st.floats(1e-3, 1e9), st.floats(0.0, 0.99))
def test_ticks_are_few_and_within_the_chart(most: float, share: float) -> None:
    ticks = tick_values(most)
    assert 1 <= len(ticks) <= 8
    assert 0.0 == ticks[0] <= ticks[-1] <= most * 1.001
    closer = tick_values(most, least=most * share)
    assert 1 <= len(closer) <= 8
    assert most * (share - 0.001) <= closer[0] <= closer[-1] <= most * 1.001


def test_chart_of_some_pages_begins_where_they_do() -> None:
    curve = harvest_curve(bytes([0, 1] * 300), [float(n) for n in range(600)], first=500, last=520)
    assert [p["pages"] for p in curve] == list(range(500, 521))
    run = {"name": "birds", "began": 0.0, "curve": curve}
    for x, tick in (("pages", "500"), ("time", "8.33 min")):
        chart = comparison_chart([run], x, "relevant", closer=True)
        assert chart.lines[0].path.startswith(f"M{chart.left},{chart.bottom} ")
        assert chart.lines[0].path.endswith(f" L{chart.right},{chart.top}")
        assert (chart.x_ticks[0].label, chart.y_ticks[0].label) == (tick, "250")
    assert comparison_chart([{**run, "curve": []}], closer=True).lines[0].path == ""


@given(st.floats(1.0, 1e7))
def test_last_label_of_a_chart_is_within_it(most: float) -> None:
    chart = line_chart([("pages", "a", [(0.0, 0.0), (most, 1.0)])])
    last = chart.x_ticks[-1]
    # A digit of the style sheet's 12 pixels is 7 wide; labels are centred.
    assert last.at + 3.5 * len(last.label) <= chart.width


def test_chart_without_a_point_can_be_drawn() -> None:
    assert line_chart([("nothing", "a", [])]).lines[0].path == ""


@given(st.integers(0, 25), st.data())
@settings(max_examples=20, deadline=None)
def test_nodes_stay_in_the_picture_and_where_they_were(count: int, data: st.DataObject) -> None:
    node = st.integers(0, max(0, count - 1))
    edges = data.draw(st.lists(st.tuples(node, node, st.floats(0.01, 1.0)), max_size=40)) if count else []
    places = layout_graph(count, edges)
    assert places.shape == (count, 2)
    assert np.isfinite(places).all()
    assert ((places >= 0) & (places <= 1)).all()
    assert (places == layout_graph(count, edges)).all()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_page_is_documented(page: PageRoute, client: Client) -> None:
    assert f"`{page.path.replace('{name}', 'NAME')}" in DOCS.read_text(encoding="utf-8")
    assert page.about.endswith(".")


def test_speed_is_that_of_the_last_seconds_s4_f2() -> None:
    stats = CollectionStats(times=array("d", [0.0, 1.0, *(100.0 + n / 4 for n in range(40))]))
    assert stats.rate(now=110.0) == pytest.approx(4.0, rel=0.05)
    assert stats.rate(now=115.0) == pytest.approx(40 / 15, rel=0.05)
    assert stats.rate(now=500.0) == 0.0
