"""Every page's data as HTML, JSON and CSV at the same address."""

import csv
import html
import io
import re
from pathlib import Path

import pytest

from checks.page_addresses import addresses
from checks.page_server import Client, crawled, pages_of
from opilio.web.context import csv_response, parse_params
from opilio.web.pages import new_crawl


@pytest.mark.parametrize("address", addresses())
def test_page_is_html_for_a_browser(client: Client, address: str) -> None:
    answer = client.get(address, Accept="text/html")
    assert answer.status == 200, answer.text
    assert answer.text.lstrip().startswith("<!doctype html>")


@pytest.mark.parametrize("address", addresses(".json"))
def test_page_is_json_with_a_version_when_asked_by_suffix(client: Client, address: str) -> None:
    assert client.get(address).data["schema"] == 1


@pytest.mark.parametrize("address", addresses())
def test_page_is_json_when_that_is_accepted(client: Client, address: str) -> None:
    answer = client.get(address, Accept="application/json")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Vary"] == "Accept"


@pytest.mark.parametrize("address", addresses(".csv"))
def test_table_of_a_page_is_csv_when_asked_by_suffix(client: Client, address: str) -> None:
    answer = client.get(address)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    rows = list(csv.reader(io.StringIO(answer.text)))
    assert len({len(row) for row in rows if row}) <= 1


def test_csv_says_the_same_as_json(client: Client) -> None:
    rows = list(csv.DictReader(io.StringIO(client.get("/c/birds/hosts.csv").text)))
    assert [row["host"] for row in rows] == [row["host"] for row in client.get("/c/birds/hosts.json").data["hosts"]]


def test_collections_are_sorted_by_activity_pages_size_or_name(birds: Path, tmp_path: Path) -> None:
    small = crawled(tmp_path / "ants", stop={"pages": 3})
    with pages_of([birds, small], tmp_path) as client:
        names = {sort: [c["name"] for c in client.get(f"/index.json?sort={sort}").data["collections"]]
            for sort in ("activity", "pages", "size", "name")}  # fmt: skip
        shown = client.get("/", Accept="text/html").text
    recent, first = ["ants", "birds"], ["birds", "ants"]
    assert names == {"activity": recent, "pages": first, "size": first, "name": recent}
    assert "active just now" in shown


def test_page_without_collections_offers_the_demo(tmp_path: Path) -> None:
    with pages_of([], tmp_path) as client:
        assert "<button>Try the demo</button>" in client.get("/", Accept="text/html").text


def test_csv_cell_that_looks_like_a_formula_is_text() -> None:
    assert b"'=HYPERLINK" in bytes(csv_response([{"title": '=HYPERLINK("http://evil.example")'}]).body)


@pytest.mark.parametrize("sign", ["\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_csv_cell_that_looks_like_a_full_width_formula_is_text(sign: str) -> None:
    assert f"'{sign}1" in bytes(csv_response([{"title": f"{sign}1"}]).body).decode()


LOCAL = [
    ("fetch.allow_private", "[fetch]\nallow_private = true"),
    ("fetch.proxy", '[fetch]\nproxy = "http://127.0.0.1:9"'),
    ("engine.sandbox", "[engine]\nsandbox = false"),
    ("engine.workers", "[engine]\nworkers = 0"),
    ("engine.analysis_s", "[engine]\nanalysis_s = 1e9"),
    ("browser.path", '[browser]\npath = "/bin/true"'),
    ("fetch.resolve", '[fetch.resolve]\n"*" = "127.0.0.1"'),
    ("seeds.proxy", '[seeds]\nproxy = "http://127.0.0.1:9"'),
    ("seeds.wiki", '[seeds]\nwiki = "http://127.0.0.1:9/api.php"'),
    ("seeds.engines", '[seeds.engines.mine]\nkind = "file"\npath = "FILE"'),
    ("topic.examples", '[topic]\nexamples = ["https://a.example/", "FILE"]'),
    ("topic.counterexamples", '[topic]\ncounterexamples = ["FILE"]'),
    ("topic.genre_file", '[topic]\ngenre_file = "FILE"'),
    ("topic.lexicon_file", '[topic]\nlexicon_file = "FILE"'),
    ("agents.each.topic.examples", '[[agents.each]]\ntopic = {examples = ["FILE"]}'),
    ("agents.each.topic.lexicon_file", '[[agents.each]]\ntopic = {lexicon_file = "FILE"}'),
    ("expansion.log", '[expansion]\nkind = "query-log"\nlog = "FILE"'),
    ("rank.model", '[rank]\nmodel = "FILE"'),
    ("rank.graph", '[rank]\nkind = "tgraph"\ngraph = "FILE"'),
    ("rank.trained", '[rank]\ntrained = "FILE"'),
]


@pytest.mark.parametrize(("key", "toml"), LOCAL, ids=[key for key, _ in LOCAL])
@pytest.mark.parametrize("do", ["check", "start"])
def test_new_crawl_form_refuses_local_settings(tmp_path: Path, key: str, toml: str, do: str) -> None:
    home, secret = tmp_path / "home", tmp_path / "secret.html"
    home.mkdir()
    secret.write_text("<p>heliotrope heliotrope", encoding="utf-8")
    values = {"topic": "wrens", "seeds": "http://h0.example/", "toml": toml.replace("FILE", str(secret)), "do": do}
    with pages_of([], home) as client:
        answer = client.post("/new", values)
    assert (answer.status, f"more settings: {key}: not allowed" in answer.text) == (400, True), answer.text
    assert "heliotrope" not in answer.text
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("toml", "reason"),
    [
        ("a = " + "[" * 90_000, "is not valid TOML: it is nested too deeply"),
        ("a = " + "{a = " * 5_000 + "1" + "}" * 5_000, "is not valid TOML: it is nested too deeply"),
        ("a = " + "9" * 5_000, "is not valid TOML: a number has too many digits"),
        (".".join(["a"] * 90_000) + " = 1", "a key has more than 100 parts"),
        ("[" + " . ".join(["a"] * 40_000) + "]", "a key has more than 100 parts"),
    ],
    ids=["arrays", "tables", "digits", "key", "name of a table"],
)
def test_new_crawl_form_refuses_settings_without_end(tmp_path: Path, toml: str, reason: str) -> None:
    with pages_of([], tmp_path) as client:
        answer = client.post("/new", {"topic": "wrens", "seeds": "http://h0.example/", "toml": toml, "do": "check"})
    assert (answer.status, f"more settings: {reason}" in answer.text) == (400, True), answer.text[:500]


def test_new_crawl_form_takes_local_settings_when_the_server_allows_them(tmp_path: Path) -> None:
    example = tmp_path / "wren.html"
    example.write_text("<title>Wrens</title><p>The wren is a small bird.", encoding="utf-8")
    toml = f'[fetch]\nproxy = "http://127.0.0.1:9"\n[topic]\nexamples = ["{example}"]'
    with pages_of([], tmp_path, allow_local=True) as client:
        answer = client.post("/new", {"topic": "wrens", "seeds": "http://h0.example/", "toml": toml, "do": "check"})
    assert (answer.status, "Settings are valid" in answer.text) == (200, True), answer.text


def test_new_crawl_form_takes_other_settings(tmp_path: Path) -> None:
    toml = '[topic]\nexamples = ["https://a.example/"]\n[fetch]\nproxy = ""\n[rank]\nmodel = ""\nwithout = ["words"]'
    with pages_of([], tmp_path) as client:
        answer = client.post("/new", {"topic": "wrens", "seeds": "http://h0.example/", "toml": toml, "do": "check"})
    assert (answer.status, "Settings are valid" in answer.text) == (200, True), answer.text


def test_new_crawl_form_limits_sites_languages_types_and_depth() -> None:
    given = {"topic": "wrens", "allow": "a.example\n", "languages": "en, de", "types": "text/html", "depth": "3"}
    tree = new_crawl._tree(parse_params(new_crawl.ACTIONS[0].params, [*given.items(), ("do", "check")]))
    assert tree["scope"] == {"allow": ["a.example"], "deny": [], "languages": ["en", "de"], "types": ["text/html"]}
    assert tree["frontier"] == {"max_depth": 3}


def test_new_crawl_form_refuses_private_seeds(tmp_path: Path) -> None:
    with pages_of([], tmp_path) as client:
        answer = client.post("/new", {"topic": "wrens", "seeds": "http://[::ffff:127.0.0.1]/", "do": "check"})
    assert (answer.status, "address of this machine" in answer.text) == (400, True), answer.text


@pytest.mark.parametrize(
    ("address", "status"),
    [("/c/nobody", 404), ("/nowhere", 404), ("/c/birds/pages?page=x", 400), ("/c/birds/page", 400)],
)
def test_error_is_a_page_or_an_object_that_says_what_to_do(client: Client, address: str, status: int) -> None:
    shown = client.get(address, Accept="text/html")
    assert (shown.status, "All collections" in shown.text) == (status, True)
    result = client.get(address, Accept="application/json")
    assert (result.status, result.data["schema"]) == (status, 1)
    assert result.data["error"]


@pytest.mark.parametrize(
    ("path", "values", "problem"),
    [
        ("/new", {"topic": "wrens", "keywords": "wren = much", "do": "start"}, "must be a number"),
        ("/new", {"topic": "wrens", "toml": "this is none", "do": "check"}, "not valid TOML"),
        ("/c/birds/topic", {"description": "wrens", "keywords": "wren = much", "do": "preview"}, "must be a number"),
        ("/c/birds/topic", {"add_positive": "http://h9.example/", "do": "preview"}, "not a page of this collection"),
        ("/c/birds/topic", {"toml": "this is none", "do": "preview"}, "TOML:"),
    ],
)
def test_form_that_can_not_be_used_comes_back_as_it_was_filled_in(
    client: Client, path: str, values: dict[str, str], problem: str
) -> None:
    answer = client.form(path, values, Accept="text/html")
    assert answer.status == 400
    assert re.search(rf'role="alert">[^<]*{problem}', answer.text)
    assert [value for name, value in values.items() if name != "do" and value not in answer.text] == []


def test_another_page_of_a_table_is_of_the_same_table(client: Client) -> None:
    for address in ("/search?q=wren&after=2001-01-01&size=2", "/c/birds/hosts?size=2", "/c/birds/pages?size=2"):
        following = re.search(r'rel="next" href="([^"]+)"', client.get(address, Accept="text/html").text)
        assert following
        assert html.unescape(following[1]) == f"{address}&page=2"
    assert 'name="after" value="2001-01-01"' in client.get("/search?q=wren&after=2001-01-01", Accept="text/html").text
