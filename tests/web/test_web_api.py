"""The API as machines use it: what the description says holds, and nothing that is sent makes the server fail."""

import re
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.routing import Route

from checks.indexed import BIRD_PAGES, Sheet, store
from checks.page_server import Client, crawled, pages_of
from checks.small_webs import PATIENCE_S, SmallWeb, page, rows, served
from opilio.core.clock import SystemClock, parse_http_date, parse_iso_date
from opilio.core.records import url_key
from opilio.manage.status import collection_status
from opilio.store.collection import Collection
from opilio.store.connection import has_writer
from opilio.store.writer import CrawlCounts
from opilio.web import processes
from opilio.web.app import Application
from opilio.web.auth import AccessPolicy, RateLimiter
from opilio.web.collections import ServedCollections
from opilio.web.context import AppContext
from opilio.web.openapi import build_openapi
from opilio.web.pages import ACTIONS, PAGES
from opilio.web.pages.crawl import LIVE
from opilio.web.stats import CollectionStats, alerts

SEED = "http://h0.example/0.html"
WISH = {"do": "ban", "target": "h9.example"}
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Client]:
    with pages_of([crawled(tmp_path / "birds")], tmp_path) as client:
        yield client


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A server that may be asked anything: what it starts are processes that end at once, and it knows no engine."""
    home = tmp_path_factory.mktemp("sandbox")
    with pytest.MonkeyPatch.context() as changes, pages_of([crawled(home / "birds")], home) as client:
        changes.setattr(processes, "COMMAND", (sys.executable, "-c", ""))
        changes.setenv("XDG_CONFIG_HOME", str(home / "config"))
        yield client


TOLD = build_openapi(["birds"])
OPERATIONS = [(path, method) for path, methods in TOLD["paths"].items() for method in methods if path != LIVE.path]


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_server_keeps_its_word_whatever_is_asked(sandbox: Client, path: str, method: str) -> None:
    schema = schemathesis.openapi.from_dict(sandbox.get("/openapi.json").data)
    schema.config.update(base_url=sandbox.base)

    @given(case=schema[path][method].as_strategy())
    @settings(max_examples=8, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    def ask(case: "schemathesis.Case[Any]") -> None:
        case.call_and_validate(checks=[*CHECKS])

    ask()


@given(
    topic=st.text(max_size=40),
    seeds=st.sampled_from(
        ["", "http://127.0.0.1:9/", "https://a.example/\nhttp://b.example:99999/", "//x", "http://["]
    ),
    keywords=st.text(st.characters(codec="utf-8") | st.sampled_from("=\n"), max_size=40),
    toml=st.sampled_from(
        ["", "a", "[stop]", "[stop]\npages = 1e99", "seeds = 1", "[topic]\nname = 3", "strategy = []"]
    ),
    do=st.sampled_from(["check", "start"]),
)
@settings(max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_form_of_a_new_crawl_never_fails(sandbox: Client, **values: str) -> None:
    assert sandbox.post("/new", values, Accept="application/json").status in (200, 400)


def test_runs_are_looked_at_closer(client: Client) -> None:
    whole = client.get("/runs.json").data
    some = client.get("/runs.json?from=5&to=9").data
    assert [point["pages"] for point in some["runs"][0]["curve"]] == [5, 6, 7, 8, 9]
    assert some["rows"] == whole["rows"]
    assert "from=1" in client.get("/c/birds").text
    assert client.get("/runs?from=5&to=9").status == 200
    assert client.get("/runs.json?from=9&to=5").status == 400
    assert "No run has 500000 pages." in client.get("/runs?from=500000").text


def test_description_names_everything_that_is_served(client: Client, tmp_path: Path) -> None:
    result = client.get("/openapi.json").data
    assert result["openapi"].startswith("3.1")
    app = Application(AppContext(ServedCollections([], tmp_path), SystemClock()), AccessPolicy()).asgi()
    served = {route.path for route in app.routes if isinstance(route, Route)}
    for_users = {page.path for page in PAGES} - {action.path for action in ACTIONS} | {"/login", "/favicon.ico"}
    redirects = {"/c/{name}/wish"}
    assert served - for_users - redirects - {"/openapi.json"} == set(result["paths"])
    names = [operation["operationId"] for methods in result["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)
    assert result["paths"]["/c/{name}.json"]["get"]["parameters"][0]["schema"]["enum"] == ["birds"]


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("/c/birds/control", {"do": "dance"}, "known: pause"),
        ("/c/birds/control", {"do": "pause"}, "no crawl is running"),
        ("/c/birds/label", {"url": SEED}, "is: missing"),
        ("/c/birds/label", {"url": "http://h9.example/", "is": "relevant"}, "is not in the collection"),
        ("/c/birds/command", {"do": "exclude", "target": "*"}, "would exclude everything"),
        ("/c/birds/topic", {"do": "preview", "toml": "]"}, "TOML"),
        ("/new", {"do": "start", "topic": "x", "seeds": "ftp://x"}, "not a valid http(s) URL"),
        ("/new", {"do": "check", "topic": "wrens", "seeds": SEED, "toml": "[stop]\npagse = 1"}, "did you mean"),
        ("/c/birds/command", [1], "must be a JSON object"),
    ],
)
def test_bad_request_says_what_is_wrong(client: Client, path: str, body: object, word: str) -> None:
    answer = client.post(path, body, Accept="application/json")
    assert answer.status == 400
    assert word in answer.text


def test_label_is_learnt_and_reported(own: Client, tmp_path: Path) -> None:
    result = own.post("/c/birds/label", {"url": [SEED], "is": "irrelevant"}).data
    assert (result["labels"], result["verdicts_changed"], result["learns"]) == (1, 1, True)
    page_ = own.get(f"/c/birds/page.json?url={SEED}").data
    assert page_["why"]["page"]["relevant"] is False
    assert page_["label"] == "irrelevant"
    result = own.post("/c/birds/label", {"url": [SEED], "is": "undo"}).data
    assert result["message"].startswith("Label removed from 1 page; verdict updated")
    page_ = own.get(f"/c/birds/page.json?url={SEED}").data
    assert (page_["why"]["page"]["relevant"], page_["label"]) == (True, "")
    assert collection_status(tmp_path / "birds").relevant == own.get("/c/birds.json").data["status"]["relevant"]


def test_message_of_a_label_has_no_urls(tmp_path: Path) -> None:
    with pages_of([crawled(tmp_path / "birds", stop={"pages": 10})], tmp_path) as client:
        result = client.post("/c/birds/label", {"url": [SEED], "is": "irrelevant"}).data
    assert result["movers"][0]["url"].startswith("http://h")
    assert re.fullmatch(
        r"Labelled 1 page irrelevant; [^/]+ Model updated; \d+ queued URLs? rescored\.", result["message"]
    )


def test_label_counts_at_once_while_a_crawl_runs(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 20})
    collection = Collection.open_for_writing(folder)
    try:
        with pages_of([folder], tmp_path) as client:
            before = client.get("/c/birds/review.json").data
            first, second = [page["url"] for page in before["pages"] if page["relevant"]][:2]
            done = client.post("/c/birds/label", {"url": first, "is": "relevant"}).data
            assert (done["running"], done["verdicts"][0]["score"]) == (True, 1.0)
            client.post("/c/birds/label", {"url": second, "is": "irrelevant"})
            after = client.get("/c/birds/review.json").data["estimate"]
            client.post("/c/birds/label", {"url": [first, second], "is": "undo"})
            undone = client.get("/c/birds/review.json").data["estimate"]
    finally:
        collection.close()
    assert (after["certain"], after["kept"]) == (before["estimate"]["certain"] + 1, before["estimate"]["kept"] - 1)
    assert undone == before["estimate"]


def test_several_pages_are_labelled_at_once(own: Client) -> None:
    urls = [row["url"] for row in own.get("/c/birds/pages.json").data["pages"][:3]]
    assert own.post("/c/birds/label", {"url": urls, "is": "irrelevant"}).data["verdicts_changed"] == 3


def test_host_is_banned_in_a_collection_without_a_crawl(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 4})
    with pages_of([folder], tmp_path) as client:
        assert client.post("/c/birds/command", {"do": "ban", "target": "h1.example"}).status == 200
        (host,) = [row for row in client.get("/c/birds/hosts.json").data["hosts"] if row["host"] == "h1.example"]
        assert (host["banned"], host["queued"]) == (True, 0)
        assert all("h1.example" not in row["url"] for row in client.get("/c/birds/queue.json").data["queue"])


def test_url_that_is_boosted_comes_next(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 4})
    with pages_of([folder], tmp_path) as client:
        last = client.get("/c/birds/queue.json").data["queue"][-1]["url"]
        client.post("/c/birds/command", {"do": "boost", "target": last})
        assert client.get("/c/birds/queue.json").data["queue"][0]["url"] == last


def test_host_that_is_boosted_goes_first_until_that_is_taken_back(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 4})
    with pages_of([folder], tmp_path) as client:
        before = client.get("/c/birds/queue.json").data["queue"]
        host = before[-1]["host"]
        assert "host boosted" in client.post("/c/birds/command", {"do": "boost_host", "target": host}).data["message"]
        queue = client.get("/c/birds/queue.json").data["queue"]
        assert [row["boosted"] for row in queue] == sorted((row["host"] == host for row in before), reverse=True)
        assert "Remove boost" in client.get(f"/c/birds/host?host={host}", Accept="text/html").text
        assert [row["host"] for row in client.get("/c/birds/hosts.json").data["hosts"] if row["boosted"]] == [host]
        client.post("/c/birds/command", {"do": "unboost_host", "target": host})
        assert [row["url"] for row in client.get("/c/birds/queue.json").data["queue"]] == [row["url"] for row in before]


def test_earlier_url_of_commands_redirects(client: Client) -> None:
    answer = client.post("/c/birds/wish", {"do": "ban", "target": "h1.example"})
    assert (answer.status, answer.headers["Location"]) == (308, "/c/birds/command")


@pytest.mark.parametrize(("rule", "limit"), [("pages", 5), ("fetches", 6), ("relevant", 3)])
def test_resume_needs_limits_that_are_not_reached(tmp_path: Path, rule: str, limit: int) -> None:
    """A crawl that would stop at once is not started; the form shows the stored limit with a higher value."""
    folder = crawled(tmp_path / "birds", stop={rule: limit})
    with pages_of([folder], tmp_path) as client:
        answer = client.post("/c/birds/control", {"do": "resume"})
        assert (answer.status, f"{rule} = {limit}: this limit is already reached" in answer.text) == (400, True)
        shown = re.search(rf'name="{rule}" min="0" max="\d+" value="(\d+)"', client.get("/c/birds").text)
        assert shown
        assert int(shown[1]) > limit
    assert not has_writer(folder)


def test_limit_of_the_harvest_can_be_changed_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, arguments = crawled(tmp_path / "birds", stop={"pages": 5, "harvest_below": 0.02}), tmp_path / "arguments"
    write = f"import pathlib, sys; pathlib.Path({str(arguments)!r}).write_text(' '.join(sys.argv[1:]))"
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", write))
    with pages_of([folder], tmp_path) as client:
        assert 'name="harvest_below" min="0" max="100" step="any" value="2"' in client.get("/c/birds").text
        answer = client.post("/c/birds/control", {"do": "resume", "pages": 0, "harvest_below": 0.5})
        assert answer.data["message"] == "Crawl resumed."
        processes._launches[folder.resolve()].process.wait(PATIENCE_S)
    assert arguments.read_text().endswith("--set stop.pages=0 --set stop.harvest_below=0.005")


def test_crawl_that_was_launched_is_starting_until_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 5})
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", "import time; time.sleep(600)"))
    with pages_of([folder], tmp_path) as client:
        client.post("/c/birds/control", {"do": "resume", "pages": 0})
        try:
            shown = client.get("/c/birds").text
            assert "The crawl starts in a moment." in shown
            assert 'value="resume"' not in shown
            assert "is starting" in client.post("/c/birds/control", {"do": "resume", "pages": 0}).data["error"]
        finally:
            processes._launches[folder.resolve()].process.kill()
        processes._launches[folder.resolve()].process.wait(PATIENCE_S)
        assert client.get("/c/birds.json").data["status"]["state"] == "stopped"
        assert "The crawl did not start." in client.get("/c/birds").text


def test_card_of_a_new_crawl_has_its_topic_as_title(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "COMMAND", (sys.executable, "-c", ""))
    new = {"topic": "wrens and other small birds", "seeds": "http://h0.example/", "do": "start"}
    with pages_of([], tmp_path) as client:
        for name in ("wrens-and-other-small-birds", "wrens-and-other-small-birds-2"):
            assert client.post("/new", new).data["name"] == name
            processes._launches[(tmp_path / name).resolve()].process.wait(PATIENCE_S)
        # The page of the crawl does not repeat the topic below its heading.
        assert '<p class="muted">strategy ' in client.get("/c/wrens-and-other-small-birds", Accept="text/html").text
        titles = {card["name"]: card["title"] for card in client.get("/index.json").data["collections"]}
    # Two cards do not have the same title.
    assert titles == {"wrens-and-other-small-birds": "wrens and other small birds", "wrens-and-other-small-birds-2": ""}


def test_collection_deleted_beside_the_server_is_not_listed(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 2})
    with pages_of([folder], tmp_path) as client:
        shutil.rmtree(folder)
        assert client.get("/index.json").data["collections"] == []


def test_examples_of_a_topic_are_pages_or_texts(own: Client, tmp_path: Path) -> None:
    body = {"do": "save", "keywords": "wren", "add_positive": SEED, "text_negative": "locomotives on rails"}
    assert own.post("/c/birds/topic", body).status == 200
    shown = own.get("/c/birds/topic.json").data
    assert (len(shown["positive"]), shown["negative"]) == (1, ["locomotives on rails"])
    own.post("/c/birds/topic", {"do": "save", "keywords": "wren", "drop_positive": ["0"]})
    assert own.get("/c/birds/topic.json").data["positive"] == []
    assert len(own.get("/c/birds/topic.json").data["history"]) == 3
    assert rows(tmp_path / "birds", "SELECT count(*) FROM command WHERE name = 'topic'") == [(2,)]


def test_metrics_are_what_prometheus_reads(client: Client) -> None:
    answer = client.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    pages = client.get("/c/birds.json").data["status"]["pages"]
    assert f'opilio_pages{{collection="birds"}} {pages}' in answer.text.splitlines()


def test_searches_and_feeds_are_limited_for_each_client(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, searches=RateLimiter(rate_s=0.001, burst=2)) as client:
        answers = [client.get(f"/search.{form}?q=wren") for form in ("json", "rss", "json", "atom")]
    assert [answer.status for answer in answers] == [200, 200, 429, 429]
    assert int(answers[-1].headers["Retry-After"]) >= 1


def test_bucket_fills_with_time() -> None:
    buckets = RateLimiter(rate_s=1.0, burst=2)
    assert [buckets.try_acquire("a", 0.0) for _ in range(3)] == [0.0, 0.0, 1.0]
    assert buckets.try_acquire("a", 1.5) == 0.0


def test_facet_filter_and_hits_name_the_tone_s3_f1(tmp_path: Path) -> None:
    with pages_of([store(tmp_path / "birds", BIRD_PAGES)], tmp_path / "home") as client:
        shown = client.get("/search?q=toy+train&polarity=positive", Accept="text/html").text
    assert "<h3>Tone</h3>" in shown
    assert shown.count("tone: positive") == 2  # the hit and the chosen filter


def test_collections_are_searched_as_one(birds: Path, tmp_path: Path) -> None:
    """S2-F1: several topics merged into one search."""
    other = crawled(tmp_path / "other", source=SmallWeb({SEED: page("birds wren small bird zebra", title="Zebra")}))
    with pages_of([birds, other], tmp_path) as client:
        found = client.get("/search.json?q=wren&size=100").data["hits"]
        assert {name for hit in found for name in hit["collections"]} == {"birds", "other"}
        only = client.get("/search.json?q=wren&in=other").data["hits"]
        assert {name for hit in only for name in hit["collections"]} == {"other"}


def test_runs_are_compared(birds: Path, tmp_path: Path) -> None:
    other = crawled(tmp_path / "other", "breadth")
    with pages_of([birds, other], tmp_path) as client:
        data = client.get("/runs.json?with=birds&with=other&y=recent&x=time").data
        assert [run["name"] for run in data["rows"]] == ["birds", "other"]
        shown = client.get("/runs?y=recent&x=time").text
        assert shown.count('class="line r0"') == shown.count('class="line r1"') == 2  # in the chart and in its legend


@pytest.mark.parametrize(("form", "opens"), [("jsonl", b'{"url"'), ("csv", b"url,host"), ("warc", b"\x1f\x8b")])
def test_collection_is_taken_away_as_a_file(client: Client, form: str, opens: bytes) -> None:
    with urllib.request.urlopen(
        f"{client.base}/c/birds/export?format={form}&relevant=yes", timeout=PATIENCE_S
    ) as answer:
        assert "attachment" in answer.headers["Content-Disposition"]
        assert answer.read().startswith(opens)


@pytest.mark.parametrize(("path", "tag", "least"), [("curve.svg?x=time", "path", 4), ("graph.gexf", "node", 3)])
def test_picture_and_graph_are_files_that_others_read(client: Client, path: str, tag: str, least: int) -> None:
    answer = client.get(f"/c/birds/{path}")
    assert "attachment" in answer.headers["Content-Disposition"]
    found = [part for part in ET.fromstring(answer.text).iter() if part.tag.rpartition("}")[2] == tag]
    assert len(found) >= least
    assert client.get("/c/nobody/curve.svg", Accept="application/json").status == 404
    assert client.get("/c/birds/curve.svg?x=y", Accept="application/json").status == 400


def test_curve_is_a_png_or_says_what_to_install(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with urllib.request.urlopen(f"{client.base}/c/birds/curve.png?x=time", timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"] == "image/png"
        assert answer.read().startswith(b"\x89PNG\r\n")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)  # as where the extra is not installed
    result = client.get("/c/birds/curve.png", Accept="application/json")
    assert (result.status, "pip install 'opilio[lab]'" in result.data["error"]) == (501, True)


def test_state_that_another_version_wrote_is_reported(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds")
    notes = Collection.open_for_append(folder)
    with notes.unit_of_work():
        notes.connection.execute("UPDATE snapshot SET state = x'00' WHERE name = 'topic'")
    notes.close()
    with pages_of([folder], tmp_path) as client:
        answer = client.get("/c/birds/topic.json")
        assert (answer.status, "another version" in answer.data["error"]) == (503, True)
        assert client.get("/c/birds.json").status == 200


def test_user_is_warned_when_little_is_found_or_much_fails() -> None:
    poor = CollectionStats(relevant=bytearray(300))
    assert "none were relevant" in alerts(CrawlCounts(), poor, "running")[0]
    assert "50% of all requests failed" in alerts(CrawlCounts(fetched=400, failed=200), CollectionStats(), "stopped")[0]
    assert alerts(CrawlCounts(fetched=400), CollectionStats(relevant=bytearray(b"\1" * 300)), "running") == []


def test_budget_of_a_resumed_crawl_is_its_own(tmp_path: Path) -> None:
    folder = crawled(tmp_path / "birds", stop={"pages": 5})
    budgets = []
    with pages_of([folder], tmp_path) as client:
        budgets.append(client.get("/c/birds.json").data["status"]["budget"])
        crawled(folder, stop={"pages": 8, "harvest_below": 0.01})
        status = client.get("/c/birds.json").data["status"]
    assert (budgets, status["budget"], status["stops_below"]) == ([5], 8, 0.01)


def test_guessing_the_token_is_slowed_down(birds: Path, tmp_path: Path) -> None:
    with pages_of([birds], tmp_path, token="secret") as client:
        answers = [client.form("/login", {"token": f"guess {n}"}).status for n in range(12)]
    assert (answers[0], answers[-1]) == (403, 429)


def test_agents_of_a_crawl_are_shown(tmp_path: Path) -> None:
    """S3: several crawlers side by side."""
    more: dict[str, Any] = {"agents": {"count": 2}, "order": {"kind": "best-first"}}
    with pages_of([crawled(tmp_path / "birds", "best-first", **more)], tmp_path) as client:
        assert len(client.get("/c/birds/agents.json").data["agents"]) == 2
        for part in ("", "/agents", "/topic", "/queue", "/hosts", "/page?url=http%3A%2F%2Fh0.example%2F0.html"):
            assert client.get(f"/c/birds{part}", Accept="text/html").status == 200


def test_collections_whose_folders_have_the_same_name_are_searched_apart(tmp_path: Path) -> None:
    sheets = [Sheet(url=f"http://{place}.example/", title="Wren", text="wren") for place in "xy"]
    folders = [store(tmp_path / sheet.url[7] / "birds", [sheet]) for sheet in sheets]
    with pages_of(folders, tmp_path) as client:
        for name, sheet in zip(("birds", "birds-2"), sheets, strict=True):
            hits = client.get(f"/search.json?q=wren&in={name}").data["hits"]
            assert [(hit["url"], hit["collections"]) for hit in hits] == [(sheet.url, [name])]
        assert client.get("/search.json?q=wren").data["total"] == 2
        assert client.get("/search.json?q=wren&in=birds-3").status == 404


def test_collection_has_a_name_of_its_own_script(birds: Path, tmp_path: Path) -> None:
    folders = [shutil.copytree(birds, tmp_path / name) for name in ("Vögel", "鳥", "電車")]
    with pages_of(folders, tmp_path) as client:
        assert {one["name"] for one in client.get("/index.json").data["collections"]} == {"vögel", "鳥", "電車"}
        place = "/c/" + quote("鳥")
        for path in (place, f"{place}/pages.csv", f"{place}/curve.svg", f"{place}/export", f"/search?in={quote('鳥')}"):
            assert client.get(path).status == 200
        done = client.form(f"{place}/label", {"url": SEED, "is": "relevant", "back": f"{place}/pages?size=5"})
        assert (done.status, done.headers["Location"].partition("&")[0]) == (303, f"{place}/pages?size=5")
        assert client.form(f"{place}/command", WISH).headers["Location"].startswith(f"{place}/")


def test_collection_that_is_gone_leaves_the_others_to_be_searched_and_compared(birds: Path, tmp_path: Path) -> None:
    shutil.copytree(birds, tmp_path / "lost")
    with pages_of([birds, tmp_path / "lost"], tmp_path) as client:
        assert client.get("/search.json?q=wren").data["hits"][0]["collections"] == ["birds", "lost"]
        shutil.rmtree(tmp_path / "lost")
        found, runs = client.get("/search.json?q=wren").data, client.get("/runs.json").data
        assert found["hits"][0]["collections"] == ["birds"]
        assert [run["name"] for run in runs["runs"]] == ["birds"]
        assert all("lost: not a collection" in " ".join(said) for said in (found["notes"], runs["problems"]))
        assert [client.get(path, Accept="text/html").status for path in ("/search?q=wren", "/runs")] == [200, 200]
    with pages_of([shutil.copytree(birds, tmp_path / "lost")], tmp_path) as client:
        shutil.rmtree(tmp_path / "lost")
        assert client.get("/search.json?q=wren").status == 503
        assert client.get("/runs", Accept="text/html").status == 200


def test_page_that_was_looked_at_often_shows_the_last_answers_first(own: Client, tmp_path: Path) -> None:
    notes = Collection.open_for_append(tmp_path / "birds")
    names = "failure, detail, elapsed_s, size_bytes, address, location"
    more = f"SELECT key, at + 1, 304, {names} FROM answer WHERE key = ? ORDER BY seq DESC LIMIT 1"
    for _ in range(20):
        notes.connection.execute(f"INSERT INTO answer (key, at, status, {names}) {more}", (url_key(SEED),))
    notes.close()
    shown = own.get(f"/c/birds/page?url={quote(SEED)}", Accept="text/html").text
    last, _, earlier = shown.partition("<summary>13 earlier</summary>")
    assert (last.count("HTTP 304"), earlier.count("HTTP 304"), earlier.count("HTTP 200")) == (8, 12, 1)


def test_new_crawl_whose_example_is_gone_is_reported_on_the_form_and_leaves_nothing(tmp_path: Path) -> None:
    with served(SmallWeb({})) as server, pages_of([], tmp_path, allow_local=True) as client:
        toml = f'[fetch]\nproxy = "{server.proxy}"\n[topic]\nexamples = ["{SEED}-gone"]'
        answer = client.post("/new", {"do": "start", "topic": "wrens", "seeds": SEED, "toml": toml})
        assert (answer.status, "can't be fetched (status 404)" in answer.text) == (400, True), answer.text
        assert list(tmp_path.iterdir()) == []


def test_search_is_a_feed_and_a_search_engine_for_browsers(client: Client) -> None:
    feed = ET.fromstring(client.get("/search.atom?q=wren&relevant=all").text)
    atom = "{http://www.w3.org/2005/Atom}"
    entries = feed.findall(f"{atom}entry")
    times = [entry.findtext(f"{atom}updated", "") for entry in entries]
    assert entries
    assert times == sorted(times, reverse=True)
    # Readers show a page again when it was stored again.
    ids = [entry.findtext(f"{atom}id", "").rpartition("#") for entry in entries]
    assert [time for _, _, time in ids] == times
    assert ids[0][0].startswith("http")
    answer = client.get("/search.rss?q=wren%01%0B&relevant=all")
    items = ET.fromstring(answer.text).findall("channel/item")
    assert answer.headers["Content-Type"].startswith("application/rss+xml")
    assert [i.findtext("guid") for i in items] == [e.findtext(f"{atom}id") for e in entries]
    dates = [parse_http_date(item.findtext("pubDate", "")) for item in items]
    assert dates == [parse_iso_date(time) for time in times]
    for path in ("/search?q=wren&relevant=no&sort=newest", "/c/birds", "/c/birds/lists"):
        shown = client.get(path, Accept="text/html").text
        links = re.findall(r'<a href="([^"]+)" rel="alternate" type="application/(atom|rss)', shown)
        assert {form for _, form in links} == {"atom", "rss"}, path
        assert {client.get(unescape(address)).status for address, _ in links} == {200}, path
    described = ET.fromstring(client.get("/opensearch.xml").text)
    urls = described.findall("{http://a9.com/-/spec/opensearch/1.1/}Url")
    assert [url.get("template", "").rpartition("/")[2] for url in urls] == [
        "search?q={searchTerms}",
        "search.json?q={searchTerms}",
        "search.atom?q={searchTerms}",
        "search.rss?q={searchTerms}",
    ]
