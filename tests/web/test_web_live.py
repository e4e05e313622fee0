"""A real crawl over HTTP, watched, paused, resumed and stopped in a browser; and the stream that keeps pages live."""

import json
import re
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from playwright.sync_api import Browser, expect

from checks.browsing import WAIT_MS, chromium, tab
from checks.page_server import Client, crawled, mixed_web, pages_of
from checks.search_doubles import KEY, search_double
from checks.small_webs import PATIENCE_S, SmallWeb, flags, rows, served, settings_for, started, until
from opilio.lab.server.server import LabWebServer
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables
from opilio.manage.status import collection_status
from opilio.manage.topic_builder import table_history
from opilio.manage.verify import verify
from opilio.store.collection import Collection, collection_exists
from opilio.store.connection import has_writer

expect.set_options(timeout=WAIT_MS)
SHAPE = WebShape(seed=5, pages=900, hosts=6, topics=1, slow_hosts=0, failing_hosts=0, traps=())


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@contextmanager
def slow_web() -> Iterator[tuple[LabWebServer, dict[str, Any]]]:
    """A synthetic web of the lab that takes a minute, however slow the browser is, and its topic table."""
    web = SyntheticWeb(SHAPE)
    with served(web, slow=dict.fromkeys(web.hosts, 0.2)) as server:
        yield server, topic_tables(web.plan)[0]


def more(server: LabWebServer) -> str:
    polite = "[politeness]\nmax_crawl_delay_s = 0.0\n"
    return f'[fetch]\nproxy = "{server.proxy}"\n{polite}[engine]\nworkers = 0\nconnections = 3'


def test_user_starts_watches_pauses_resumes_and_stops_a_crawl(browser: Browser, tmp_path: Path) -> None:
    with (
        slow_web() as (server, result),
        pages_of([], tmp_path, allow_local=True) as client,
        tab(browser, client.base) as one,
    ):
        page = one.go("/new?all=1")
        page.fill("#n-topic", str(result["name"]))
        page.fill("#n-keywords", "\n".join(result["keywords"]))
        page.fill("#n-seeds", "\n".join(result["seeds"][0]["urls"]))
        page.fill("#n-pages", "0")
        page.click("summary:has-text('Advanced')")
        page.fill("#n-delay", "0")
        page.fill("#n-toml", more(server))
        page.click("text=Start crawl")
        page.wait_for_url("**/c/*")
        folder = tmp_path / str(result["name"])
        chip = page.locator(".controls .chip").first
        expect(chip).to_have_text("running")
        # the harvest curve moves by itself
        curve = page.locator(".by-pages .chart path.line.a")
        first = curve.get_attribute("d")
        page.wait_for_function(
            "d => ![undefined, d].includes(document.querySelector('.by-pages .chart path.line.a')?.getAttribute('d'))",
            arg=first,
        )
        page.check(".across [value=time]")
        expect(page.locator(".by-time svg.chart")).to_be_visible()
        expect(page.locator(".by-pages svg.chart")).to_be_hidden()
        page.click("button:has-text('Pause')")
        expect(chip).to_have_text("paused")
        pages = collection_status(folder).pages
        assert has_writer(folder)
        page.click("button:has-text('Resume')")
        expect(chip).to_have_text("running")
        page.wait_for_function(
            "n => Number(document.querySelector('[data-count=pages]')?.textContent.replaceAll(',', '')) > n", arg=pages
        )
        page.click("button:has-text('Stop')")
        expect(chip).to_have_text("stopped")
        assert one.problems == []
    assert collection_status(folder).stop_reason == "stopped from the browser"
    assert collection_status(folder).relevant > 0
    assert verify(folder) == []


def test_running_crawl_takes_up_a_topic_that_was_edited(browser: Browser, tmp_path: Path) -> None:
    """What it does to verdicts is tested with the commands of a crawl."""
    with (
        slow_web() as (server, result),
        pages_of([], tmp_path, allow_local=True) as client,
        tab(browser, client.base) as one,
    ):
        given = {"topic": result["name"], "keywords": "\n".join(result["keywords"]), "toml": more(server)}
        seeds = "\n".join(result["seeds"][0]["urls"])
        start = {"seeds": seeds, "strategy": "best-first", "pages": 0, "delay": 0, "do": "start"}
        name = client.post("/new", given | start).data["name"]
        one.go(f"/c/{name}").wait_for_function("() => document.querySelector('[data-count=relevant]')?.textContent > 5")
        page = one.go(f"/c/{name}/topic")
        page.fill("#t-description", "")
        page.fill("#t-keywords", "locomotive")
        page.click('button[value="preview"] >> nth=0')
        page.click("text=Save topic")
        expect(page.locator("[data-note]")).to_contain_text("The running crawl applies it in a moment")
        changed = "async () => (await (await fetch(location.pathname + '.json')).json()).version > 0"
        page.wait_for_function(changed)
        one.go(f"/c/{name}").click("text=Stop")
        expect(page.locator(".controls .chip").first).to_have_text("stopped")
    (_, before), (_, after) = table_history(tmp_path / name)
    assert [k.stem for k in after.keywords] == ["locomot", "bird"]  # the new word, and the topic's name
    assert len(before.keywords) > 2


def test_crawl_that_can_not_begin_is_reported_on_the_form(browser: Browser, tmp_path: Path) -> None:
    with pages_of([], tmp_path) as client, tab(browser, client.base) as one:
        page = one.go("/new?all=1")
        page.fill("#n-topic", "wrens")
        page.fill("#n-seeds", "not an address")
        page.click("text=Start crawl")
        expect(page.locator("[role=alert]")).to_contain_text("not a valid http(s) URL")
        assert page.input_value("#n-topic") == "wrens"
    assert list(tmp_path.iterdir()) == []


def test_engines_are_asked_where_no_seeds_are_given(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S0-11: the form works like `opilio crawl`; the page of seeds names the engines."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TEST_SEARCH_KEY", KEY)
    home = tmp_path / "home"
    home.mkdir()
    with (
        served(mixed_web()) as server,
        search_double(brave=["http://h0.example/0.html", "http://h1.example/1.html"]) as double,
        pages_of([], home, allow_local=True) as client,
        tab(browser, client.base) as one,
    ):
        page = one.go("/new?all=1")
        page.fill("#n-topic", "wrens and other small birds")
        page.locator("details.fold").last.evaluate("details => { details.open = true; }")
        page.fill("#n-toml", "[seeds]\noffline = true")
        page.click("text=Start crawl")
        expect(page.locator("[role=alert]")).to_contain_text("or configure a search engine")
        assert list(home.iterdir()) == []
        write_engine(tmp_path / "config", double.engine("brave"))
        page.fill("#n-pages", "5")
        page.locator("details.fold").last.evaluate("details => { details.open = true; }")
        page.fill("#n-delay", "0")
        page.fill("#n-toml", more(server))
        page.click("text=Check only")
        expect(page.locator("p.note:not([data-note])")).to_contain_text("seeds from mine")
        page.click("text=Start crawl")
        expect(page.locator("[data-note]")).to_contain_text("2 seeds from mine")
        page.goto(f"{page.url.partition('?')[0]}/seeds")
        expect(page.locator("table").nth(1).locator("tbody")).to_contain_text("wrens and other small birds")
        expect(page.locator("table").nth(1).locator(".chip")).to_have_text("mine")
        page.goto(page.url.removesuffix("/seeds"))
        expect(page.locator(".controls .chip").first).to_have_text("stopped")
    (folder,) = home.iterdir()
    assert collection_status(folder).pages == 5


def test_engine_that_fails_is_named_once_beside_the_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TEST_SEARCH_KEY", "wrong")
    with search_double(brave=["http://h0.example/0.html"]) as double, pages_of([], tmp_path) as client:
        write_engine(tmp_path / "config", double.engine("brave"))
        shown = client.form("/new", {"topic": "wrens", "do": "suggest"}, Accept="text/html").text
    assert "No seeds were suggested: mine: " in shown
    assert shown.count("Enter at least one URL to start from.") == 1


def write_engine(config: Path, table: dict[str, object]) -> None:
    path = config / "opilio" / "engines.toml"
    path.parent.mkdir(parents=True)
    path.write_text(tomli_w.dumps({"mine": table}), encoding="utf-8")


def test_crawl_that_has_ended_goes_on_from_the_browser(browser: Browser, tmp_path: Path) -> None:
    with (
        served(mixed_web()) as server,
        pages_of([], tmp_path, allow_local=True) as client,
        tab(browser, client.base) as one,
    ):
        seeds = {"seeds": "http://h0.example/0.html", "topic": "wrens and other small birds"}
        values = {"pages": 5, "delay": 0, "toml": more(server), "do": "start", **seeds}
        name = client.post("/new", values).data["name"]
        page = one.go(f"/c/{name}")
        chip = page.locator(".controls .chip").first
        expect(chip).to_have_text("stopped")
        page.fill("input[name=pages]", "20")
        page.click("button[value=resume]")
        page.wait_for_function(
            "() => Number(document.querySelector('[data-count=pages]')?.textContent) >= 20", timeout=WAIT_MS
        )
        expect(chip).to_have_text("stopped")
    assert collection_status(tmp_path / name).pages == 20


@contextmanager
def stream(client: Client, path: str, **headers: str) -> Iterator[Iterator[tuple[str, str, Any]]]:
    """Messages of a stream as (event, id, data)."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with urllib.request.urlopen(
        urllib.request.Request(f"{client.base}{path}", headers=names), timeout=PATIENCE_S
    ) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        yield _messages(answer)


def _messages(lines: Iterator[bytes]) -> Iterator[tuple[str, str, object]]:
    fields: dict[str, str] = {}
    for raw in lines:
        line = raw.decode().rstrip("\n")
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        else:
            if "data" in fields:
                yield fields.get("event", ""), fields.get("id", ""), json.loads(fields["data"])
            fields = {}


def test_results_appear_when_pages_are_indexed_beside_a_crawl(browser: Browser, tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 5})
    collection = Collection.open_for_writing(folder)  # as a crawl does: the index is updated in the background
    try:
        with pages_of([folder], tmp_path) as client, tab(browser, client.base) as one:
            page = one.go("/search?q=wren")
            expect(page.locator("[data-waiting]")).to_contain_text("5 pages of these collections are not indexed yet")
            expect(page.locator(".hit").first).to_be_visible(timeout=4 * WAIT_MS)
    finally:
        collection.close()


def test_subtopics_appear_when_pages_are_indexed(browser: Browser, tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 5})
    collection = Collection.open_for_writing(folder)
    try:
        with pages_of([folder], tmp_path) as client, tab(browser, client.base) as one:
            page = one.go("/c/birds/subtopics")
            expect(page.locator("[data-waiting]")).to_contain_text("5 pages not indexed yet")
            # Without a reload by the user. Five pages have no subtopics.
            expect(page.locator(".empty")).to_contain_text("at least twelve", timeout=4 * WAIT_MS)
            assert one.problems == []
    finally:
        collection.close()


def test_stream_sends_state_and_events_and_resumes(client: Client) -> None:
    with stream(client, "/c/birds/live") as messages:
        kind, _, status = next(messages)
        assert (kind, status["state"]) == ("status", "stopped")
        kind, number, _ = next(messages)
        assert kind == "event"
    with stream(client, "/c/birds/live", Last_Event_ID=number) as messages:
        following = next(m for m in messages if m[0] == "event")
    assert int(following[1]) == int(number) + 1


def test_stream_that_is_opened_later_has_the_newest_curve(tmp_path: Path) -> None:
    """The parts of an earlier stream are shared only while a page is open."""
    with pages_of([crawled(tmp_path / "birds")], tmp_path) as client:
        with stream(client, "/c/birds/live?parts=1") as messages:
            before = next(parts for kind, _, parts in messages if kind == "parts")
        assert "<title>label</title>" not in before["curve"]
        client.post("/c/birds/label", {"url": "http://h0.example/0.html", "is": "irrelevant"})
        with stream(client, "/c/birds/live?parts=1") as messages:
            after = next(parts for kind, _, parts in messages if kind == "parts")
        assert "<title>label</title>" in after["curve"]


def test_header_and_tables_of_a_crawl_agree(client: Client) -> None:
    """What the tables do not list is a row of its own, and both read the same totals."""
    data = client.get("/c/birds.json").data
    status, rest = data["status"], data["other_hosts"]
    for name in ("pages", "relevant"):
        assert sum(host[name] for host in data["hosts"]) + rest[name] == status[name]
    assert sum(error["count"] for error in data["errors"]) == status["failed"]
    shown = client.get("/c/birds/errors.json").data
    assert (sum(error["count"] for error in shown["errors"]), shown["fetched"]) == (status["failed"], status["fetched"])


def test_pages_just_fetched_are_listed_with_verdict_and_reason(client: Client) -> None:
    recent = client.get("/c/birds.json").data["recent"]
    newest = client.get("/c/birds/pages.json?sort=newest&relevant=all").data["pages"]
    assert newest[0]["url"] in {page["url"] for page in recent}
    assert all(page["reason"].startswith("Kept: " if page["relevant"] else "Not kept: ") for page in recent)


def test_chart_shows_values_under_the_pointer_and_marks_labels(browser: Browser, tmp_path: Path) -> None:
    with pages_of([crawled(tmp_path / "birds")], tmp_path) as client, tab(browser, client.base) as one:
        client.post("/c/birds/label", {"url": "http://h0.example/0.html", "is": "irrelevant"})
        page = one.go("/c/birds")
        page.locator(".by-pages svg.chart").hover()
        expect(page.locator(".by-pages [data-value]").first).to_have_text(re.compile(r"^[\d.]+ %$"))
        expect(page.locator(".by-pages [data-at]")).to_have_text(re.compile(r"^at \d+$"))
        expect(page.locator(".by-pages .mark title")).to_have_text("label")
        assert "Pages fetched" in (page.locator(".by-pages svg.chart").text_content() or "")
        page.locator("h1").hover()
        expect(page.locator(".by-pages [data-at]")).to_have_text("")
        assert one.problems == []


def test_picture_is_offered_only_if_it_can_be_drawn(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "curve.png" in client.get("/c/birds").text
    monkeypatch.setattr("opilio.web.pages.crawl.find_spec", lambda _name: None)
    assert "curve.png" not in client.get("/c/birds").text


def test_stream_of_an_unknown_collection_is_refused(client: Client) -> None:
    assert client.get("/c/nobody/live", Accept="application/json").status == 404


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection whose crawl was killed."""
    folder = tmp_path_factory.mktemp("crashed") / "crashed"
    source = SmallWeb(mixed_web(3, 200).answers)
    with served(source, slow={f"h{n}.example": 0.02 for n in range(3)}) as server:
        tree = settings_for(server, ["http://h0.example/0.html"], strategy="opilio")
        process = started("crawl", *flags(tree), "--into", folder, "--pages", 0)
        until(lambda: collection_exists(folder) and collection_status(folder).pages > 20, process)
        process.kill()
        process.communicate()
    return folder


def test_crashed_collection_is_shown_and_says_so(crashed: Path, tmp_path: Path) -> None:
    with pages_of([crashed], tmp_path) as client:
        assert client.get("/c/crashed.json").data["status"]["state"] == "crashed"
        assert "Stored pages are safe" in client.get("/c/crashed").text
        assert client.get("/search.json?q=wren").data["total"] > 0
        for part in ("pages", "queue", "hosts", "graph", "topic", "seeds", "errors", "events"):
            assert client.get(f"/c/crashed/{part}").status == 200


def test_damaged_links_are_reported_without_a_traceback(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = crawled(tmp_path / "broken", "breadth", mixed_web(), stop={"pages": 6})
    data = bytearray((broken / "crawl.db").read_bytes())
    for (blob,) in rows(broken, "SELECT columns FROM links"):
        # The last bytes of a blob are its checksum.
        if (at := data.find(blob[-40:])) >= 0:
            data[at + 39] ^= 1
    (broken / "crawl.db").write_bytes(data)
    with pages_of([broken], tmp_path) as client:
        # The search reads links to index the pages.
        answers = [client.get(path) for path in ("/c/broken/queue.json", "/search.json?q=wren")]
    for answer in answers:
        assert answer.status == 503
        assert "crawl.db at" in answer.data["error"]
        assert "maintain verify" in answer.data["error"]
    assert "Traceback" not in capfd.readouterr().err


def test_damaged_collection_does_not_hide_the_others(birds: Path, tmp_path: Path) -> None:
    broken = crawled(tmp_path / "broken", "breadth")
    with pages_of([birds, broken], tmp_path) as client:
        (broken / "crawl.db").write_bytes(b"SQLite format 3\x00 but not really")
        for name in ("crawl.db-wal", "crawl.db-shm"):
            (broken / name).unlink(missing_ok=True)
        cards = {card["name"]: card["problem"] for card in client.get("/index.json").data["collections"]}
        assert cards["birds"] == ""
        assert "damaged" in cards["broken"]
        assert client.get("/c/broken", Accept="text/html").status == 503
        assert 'opilio_up{collection="broken"} 0' in client.get("/metrics").text
