"""`verify` finds damage, `why` explains, `export` writes all pages, `status` sums up."""

import csv
import io
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, opilio, page, redirect, robots, served, settings_for, stored, word
from opilio.core.errors import CollectionError, UsageError
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.webs.web import WarcWeb
from opilio.manage.export import FORMATS, export
from opilio.manage.results import Explanation, SeedOrigin
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.store.collection import Collection
from opilio.store.page_selection import PageFilter
from opilio.store.warc import warc_name

ROOT = "http://a.example/"
WEB = {
    ROOT: page(BIRDS, ["/wren", "/copy", "/secret", "/gone", "/moved", "/far"], title="Birds"),
    ROOT + "wren": page(f"{BIRDS} {word(1)}", ["/far"], title="Wren, “small”"),
    ROOT + "copy": page(f"{BIRDS} {word(1)}", ["/never/far"]),
    ROOT + "moved": redirect("/wren"),
    ROOT + "far": RecordedResponse(
        200, (("Content-Type", "text/html; charset=latin-1"),), b"<title>caf\xe9</title>trains"
    ),
    ROOT + "robots.txt": robots("User-agent: *\nDisallow: /secret\n"),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verify") / "c"
    with served(SmallWeb(WEB)) as server:
        crawl(
            folder,
            settings_for(
                server,
                [ROOT],
                strategy="s0",
                order={"kind": "breadth-first"},
                stop={"fetches": 5},
                engine={"connections": 1},
            ),
        )
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "c")
    return tmp_path / "c"


def changed(folder: Path, statement: str) -> None:
    collection = Collection.open_for_writing(folder)
    collection.connection.execute(statement)
    collection.close()


def flip(folder: Path) -> None:
    path = folder / warc_name(1)
    data = bytearray(path.read_bytes())
    data[-40] ^= 0xFF
    path.write_bytes(data)


def swap(folder: Path) -> None:
    place = f"SELECT offset, length FROM page WHERE url = '{ROOT}'"
    changed(folder, f"UPDATE page SET (offset, length) = ({place}) WHERE url LIKE '%wren'")


DAMAGE: dict[str, tuple[Callable[[Path], None], str]] = {
    "flipped byte": (flip, "unreadable record"),
    "flipped info": (lambda f: _patch(f / warc_name(1), 30), "pages-00001.warc.gz at 0"),
    "missing file": (lambda f: (f / warc_name(1)).unlink(), "pages-00001.warc.gz: can't be read: No such file"),
    "short file": (lambda f: _cut(f / warc_name(1)), "bytes are missing at the end"),
    "record elsewhere": (swap, "the record of another page is here"),
    "missing page": (lambda f: changed(f, "DELETE FROM page WHERE url LIKE '%wren'"), "bytes that belong to no page"),
    "orphan links": (lambda f: changed(f, "INSERT INTO links VALUES (5, x'00')"), "links of a missing page: 5"),
    "unknown page": (
        lambda f: changed(f, "UPDATE page SET host = 'x' WHERE url LIKE '%wren'"),
        "page without a finished URL",
    ),
    "no answer": (lambda f: changed(f, "DELETE FROM answer"), "finished URL without an answer"),
    "counters": (
        lambda f: changed(f, "UPDATE meta SET value = '{' WHERE name = 'counts'"),
        "has a row that can't be read",
    ),
    "page counter": (lambda f: _count(f, "pages", 99), "counter of pages is 99, there are 3"),
    "relevant counter": (lambda f: _count(f, "relevant", 99), "counter of relevant is 99"),
    "fetch counter": (lambda f: _count(f, "fetched", 99), "counter of fetched is 99, there are 5"),
    "failure counter": (lambda f: _count(f, "failed", 99), "counter of failed is 99"),
    "size counter": (lambda f: _count(f, "size_bytes", 1), "counter of size_bytes is 1, there are"),
    "queue counter": (lambda f: changed(f, "UPDATE frontier_count SET done = done + 1"), "counter of done URLs is"),
    "host counter": (
        lambda f: changed(f, "UPDATE frontier_host SET queued = 77"),
        "counter of queued URLs of a.example is 77",
    ),
}


def _patch(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def _count(folder: Path, name: str, value: int) -> None:
    changed(folder, f"UPDATE meta SET value = json_set(value, '$.{name}', {value}) WHERE name = 'counts'")


def test_nothing_is_wrong_when_nothing_was_done(folder: Path) -> None:
    assert verify(folder) == []


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_found(folder: Path, damage: str) -> None:
    harm, result = DAMAGE[damage]
    harm(folder)
    problems = verify(folder)
    assert any(result in line for line in problems), problems
    assert all("\n" not in line for line in problems)


def test_why_explains_a_fetched_page(folder: Path) -> None:
    facts = why(folder, ROOT + "wren")
    assert (facts.found, facts.state, facts.depth) == (True, "done", 1)
    assert facts.path == [ROOT, ROOT + "wren"]
    (context, *_) = facts.found_on
    assert (context.page, context.anchor) == (ROOT, "wren")
    assert set(context.parts) == {"url", "anchor", "parent", "around"}
    assert facts.page is not None
    assert facts.page.relevant
    assert facts.page.reasons


def test_why_explains_seeds_duplicates_dropped_failed_queued_and_unknown(folder: Path) -> None:
    facts = {path: why(folder, ROOT + path) for path in ("", "copy", "secret", "gone", "far", "nowhere")}
    assert facts[""].seed == SeedOrigin(1, "given")
    copied = facts["copy"].page
    assert copied is not None
    assert copied.duplicate_of == ROOT + "wren"
    assert (facts["secret"].state, facts["secret"].reason) == ("dropped", "robots.txt disallows it")
    assert (facts["gone"].state, facts["gone"].answers[0].status) == ("failed", 404)
    assert facts["nowhere"] == Explanation(url=ROOT + "nowhere", found=False, found_on=[], path=[], answers=[])
    assert (facts["far"].state, facts["far"].times_found) == ("queued", 2)
    assert why(folder, ROOT + "moved").reason == f"redirects to {ROOT}wren"


def test_why_explains_the_redirects_that_led_to_a_page(tmp_path: Path) -> None:
    moved = [f"http://{name}.example/" for name in ("old", "new")]
    last = f"{ROOT}there"
    web = {ROOT: page(links=[moved[0]]), moved[0]: redirect(moved[1]), moved[1]: redirect(last)}
    with served(SmallWeb({**web, last: page("wrens there", ["/on"]), f"{ROOT}on": page("wrens on")})) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    facts = why(tmp_path / "c", last)
    assert facts.redirected_from == moved[::-1]
    assert [context.page for context in facts.found_on] == [ROOT]
    assert why(tmp_path / "c", f"{ROOT}on").path == [ROOT, *moved, last, f"{ROOT}on"]
    result = opilio("why", tmp_path / "c", last).stdout
    assert f"redirected from {moved[1]}, redirected from {moved[0]}\n" in result


def test_why_explains_a_link_that_was_not_followed(tmp_path: Path) -> None:
    web = {
        ROOT: RecordedResponse(200, (("Content-Type", "text/html"),), b"<p>wren</p><a rel=nofollow href=/ad>buy</a>")
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    facts = why(tmp_path / "c", ROOT + "ad")
    assert (facts.found, facts.state, facts.reason) == (True, "skipped", "nofollow")
    assert (facts.found_on[0].page, facts.found_on[0].anchor) == (ROOT, "buy")
    result = opilio("why", tmp_path / "c", ROOT + "ad")
    assert (result.returncode, "skipped: nofollow" in result.stdout) == (0, True)


def test_why_lists_a_repeated_link_of_a_page_once(tmp_path: Path) -> None:
    links = b"<a href=/on>wren</a> <p>more about <a href=/on>wren</a> and <a href=/on>nests</a></p>"
    web = {ROOT: RecordedResponse(200, (("Content-Type", "text/html"),), b"<p>wren</p>" + links)}
    with served(SmallWeb({**web, f"{ROOT}on": page("wrens on")})) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    assert [context.anchor for context in why(tmp_path / "c", f"{ROOT}on").found_on] == ["wren", "nests"]


def test_why_explains_the_shortest_way_when_a_better_link_was_found_later(tmp_path: Path) -> None:
    """The link that counts is the one on the third page; the seed links the wren too."""
    web = {
        ROOT: page("Trains and rails.", ["/a", "/wren"]),
        ROOT + "a": page("Small birds.", ["/b"]),
        ROOT + "b": page("Wrens are small birds.", ["/wren"]),
        ROOT + "wren": page("The wren sings."),
    }
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, [ROOT], strategy="best-first", frontier={"per_host": 1})
        crawl(tmp_path / "c", tree)
    facts = why(tmp_path / "c", ROOT + "wren")
    assert (facts.depth, facts.times_found, facts.path) == (1, 2, [ROOT, ROOT + "wren"])
    assert why(tmp_path / "c", ROOT + "b").path == [ROOT, ROOT + "a", ROOT + "b"]
    assert "1 link from a seed" in opilio("why", tmp_path / "c", ROOT + "wren").stdout


def test_why_explains_what_a_queued_url_waits_for(tmp_path: Path) -> None:
    web = {ROOT + "robots.txt": robots("", 500), ROOT: page()}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    facts = why(tmp_path / "c", ROOT)
    assert facts.host_waits is not None
    assert (facts.state, facts.host_waits.reason) == ("queued", "robots.txt can't be read (status 500)")
    assert "its host waits until" in opilio("why", tmp_path / "c", ROOT).stdout


def test_why_refuses_what_is_no_url(folder: Path) -> None:
    with pytest.raises(UsageError, match="not a valid http"):
        why(folder, "wren")


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_export_gives_every_page_with_its_text(folder: Path, form: str) -> None:
    out = io.BytesIO()
    count = export(folder, form, PageFilter(), out)
    found = {row["url"]: row for row in read_back(form, out.getvalue())}
    assert count == len(found) == len([u for u in stored(folder) if u != ROOT + "copy"])
    assert found[ROOT + "wren"]["title"] == "Wren, “small”"
    assert word(1) in found[ROOT + "wren"]["text"]
    assert float(found[ROOT]["score"]) > 0


def test_export_as_csv_holds_no_formula(folder: Path) -> None:
    changed(folder, f"UPDATE page SET title = '=1+1' WHERE url = '{ROOT}'")
    out = io.BytesIO()
    export(folder, "csv", PageFilter(), out)
    assert {row["url"]: row["title"] for row in read_back("csv", out.getvalue())}[ROOT] == "'=1+1"


def read_back(form: str, data: bytes) -> list[dict[str, str]]:
    if form == "jsonl":
        return [msgspec.json.decode(line) for line in data.splitlines()]
    if form == "csv":
        return list(csv.DictReader(io.StringIO(data.decode(), newline="")))
    from pyarrow import parquet

    return list(parquet.read_table(io.BytesIO(data)).to_pylist())


def test_export_as_warc_is_a_web_again(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "web").mkdir()
    with (tmp_path / "web" / "birds.warc.gz").open("wb") as file:
        count = export(folder, "warc", PageFilter(), file)
    web = WarcWeb.open(tmp_path / "web", tmp_path / "cache")
    assert len(web) == count
    answer = web.find(ROOT + "wren")
    assert answer is not None
    assert answer.body == WEB[ROOT + "wren"].body


def test_export_of_relevant_pages_leaves_the_others_out(folder: Path) -> None:
    out = io.BytesIO()
    count = export(folder, "jsonl", PageFilter(relevant=True), out)
    rows = read_back("jsonl", out.getvalue())
    assert 0 < count == collection_status(folder).relevant == len(rows)
    assert all(row["relevant"] for row in rows)


@pytest.mark.parametrize("form", FORMATS)
def test_export_reports_when_a_file_is_missing(folder: Path, form: str) -> None:
    (folder / warc_name(1)).unlink()
    with pytest.raises(CollectionError, match="run 'opilio maintain verify'"):
        export(folder, form, PageFilter(), io.BytesIO())


@pytest.mark.parametrize("form", FORMATS)
def test_export_reports_when_a_record_is_damaged(folder: Path, form: str) -> None:
    flip(folder)
    with pytest.raises(CollectionError, match=r"unreadable record .*; run 'opilio maintain verify'"):
        export(folder, form, PageFilter(), io.BytesIO())


def test_export_refuses_an_unknown_format(folder: Path) -> None:
    with pytest.raises(UsageError, match="--format xml: unknown"):
        export(folder, "xml", PageFilter(), io.BytesIO())


def test_status_reports_how_far_a_crawl_has_come(folder: Path) -> None:
    status = collection_status(folder)
    assert (status.state, status.stop_reason) == ("stopped", "fetch limit reached (5 fetches)")
    assert (status.fetched, status.pages, status.duplicates, status.hosts) == (5, 3, 1, 1)
    assert status.harvest == status.relevant / status.pages
    assert status.front_hit_rate is not None
    assert 0.0 < status.front_hit_rate < 1.0, "a URL found twice is known, one found first is not (S4-21)"
    held = Collection.open_for_writing(folder)
    assert collection_status(folder).state == "running"
    held.close()
