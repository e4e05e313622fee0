"""Crawls that read documents: stored, judged, searched, exported; and what was not read, with the reason."""

import re
import sys
import zlib
from pathlib import Path

import pytest
from warcio.archiveiterator import ArchiveIterator

from checks.documents import DOCBOOK, WREN, docx, epub, pdf
from checks.small_webs import BIRDS, HTML, SmallWeb, crawl, page, rows, served, settings_for, stored
from opilio.engine.workers.pool import CRASHED
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.export import export_to_file
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.parse.html import MAX_TAGS
from opilio.search.indexer import update_index
from opilio.search.searcher import Searcher
from opilio.store.page_selection import PageFilter

ROOT = "http://birds.example/"
NAMES = ("wren.pdf", "wren.docx", "wren.epub", "wren.xml")
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
LINES = ["The wren", "The small brown bird builds a domed nest in the forest.", "owl"]


def document(body: bytes, content_type: str) -> RecordedResponse:
    return RecordedResponse(200, (("Content-Type", content_type),), body)


WEB = {
    ROOT: page(BIRDS, [f"/{name}" for name in NAMES]),
    f"{ROOT}wren.pdf": document(pdf([LINES], title="Wrens in PDF", link=f"{ROOT}owl"), "application/pdf"),
    f"{ROOT}wren.docx": document(docx(), DOCX),
    f"{ROOT}wren.epub": document(epub(f"<h1>Nests</h1><p>{WREN} The book."), "application/epub+zip"),
    f"{ROOT}wren.xml": document(DOCBOOK, "text/xml"),
    f"{ROOT}owl": page("An owl that only the document links to."),
}


@pytest.mark.parametrize("workers", [0, 1])
def test_documents_are_pages(tmp_path: Path, workers: int) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], engine={"workers": workers}))
    folder = tmp_path / "c"
    assert set(stored(folder)) == set(WEB)
    assert verify(folder) == []
    update_index(folder)
    hit = Searcher([folder]).search("domed nest PDF").hits[0]
    assert hit.url == f"{ROOT}wren.pdf"
    export_to_file(folder, tmp_path / "out", "markdown", PageFilter())
    texts = {path.name[:8]: path.read_text() for path in (tmp_path / "out").rglob("*.md")}
    assert f"[owl]({ROOT}owl)" in texts["wren.pdf"] and 'title: "Wrens in PDF"' in texts["wren.pdf"]
    assert "| wren | 9 |" in texts["wren.doc"]


def test_converted_document_is_stored_beside_the_original(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        crawl(tmp_path / "c", settings_for(server, [f"{ROOT}wren.pdf"], stop={"pages": 1}))
    export_to_file(tmp_path / "c", tmp_path / "out.warc.gz", "warc", PageFilter())

    with (tmp_path / "out.warc.gz").open("rb") as file:
        records = [
            (r.rec_type, r.rec_headers["WARC-Refers-To"], r.content_stream().read()) for r in ArchiveIterator(file)
        ]
    (kind, _, body), (converted, origin, html) = records
    assert (kind, converted) == ("response", "conversion") and origin
    assert body.startswith(b"%PDF-") and html.startswith(b"<html>")


def test_missing_reader_is_named_and_its_documents_are_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    web = {**WEB, f"{ROOT}paper": WEB[f"{ROOT}wren.pdf"], ROOT: page(BIRDS, ["/wren.pdf", "/paper"])}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    assert "/wren.pdf" not in [entry.target for entry in server.log]
    expected = "document not fetched: to read PDF, install opilio[documents]"
    assert why(tmp_path / "c", f"{ROOT}wren.pdf").reason == expected
    expected = "content-type application/pdf; to read PDF, install opilio[documents]"
    assert why(tmp_path / "c", f"{ROOT}paper").reason == expected


def test_documents_out_of_scope_are_not_received(tmp_path: Path) -> None:
    web = {**WEB, f"{ROOT}paper": WEB[f"{ROOT}wren.pdf"], ROOT: page(BIRDS, ["/wren.pdf", "/wren.epub", "/paper"])}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], scope={"deny_types": ["application/pdf"]}))
    assert set(stored(tmp_path / "c")) == {ROOT, f"{ROOT}wren.epub"}
    assert why(tmp_path / "c", f"{ROOT}wren.pdf").reason == "document not fetched: application/pdf is denied"
    assert why(tmp_path / "c", f"{ROOT}paper").reason == "scope application/pdf is denied"


def test_page_that_is_too_long_is_kept_in_part(tmp_path: Path) -> None:
    long = RecordedResponse(200, (HTML,), (f"<p>{BIRDS}" + "<p>filler" * 9_000).encode())
    with served(SmallWeb({ROOT: page(BIRDS, ["/long"]), f"{ROOT}long": long})) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], fetch={"max_bytes": 50_000}))
    assert rows(tmp_path / "c", "SELECT truncated FROM page ORDER BY seq") == [("",), ("length",)]
    explained = why(tmp_path / "c", f"{ROOT}long").page
    assert explained is not None and explained.truncated == "length"
    assert collection_status(tmp_path / "c").truncated == 1
    export_to_file(tmp_path / "c", tmp_path / "out.jsonl", "jsonl", PageFilter())
    assert [b'"truncated":"length"' in line for line in (tmp_path / "out.jsonl").read_bytes().splitlines()] == [
        False,
        True,
    ]


def test_page_with_too_many_tags_is_read_in_part(tmp_path: Path) -> None:
    body = f"<p>{BIRDS}" + "<p>wren" * MAX_TAGS + '<p><a href="/never">end</a>'
    web = {ROOT: RecordedResponse(200, (HTML,), body.encode()), f"{ROOT}never": page(BIRDS)}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
    assert rows(tmp_path / "c", "SELECT truncated, words > 100000 FROM page") == [("length", 1)]


def test_pdf_that_unpacks_to_more_than_the_memory_fails_and_the_crawl_goes_on(tmp_path: Path) -> None:
    packed = zlib.compress(b" " * (400 << 20), 1)
    stream = b"<< /Length %d /Filter /FlateDecode >>\nstream\n" % len(packed) + packed + b"\nendstream"
    bomb = re.sub(rb"<< /Length.*?endstream", lambda _: stream, pdf([LINES]), count=1, flags=re.DOTALL)
    web = {
        ROOT: page(BIRDS, ["/bomb.pdf", "/owl"]),
        f"{ROOT}bomb.pdf": document(bomb, "application/pdf"),
        f"{ROOT}owl": page(BIRDS + " The owl."),
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT], engine={"workers": 1, "analysis_mb": 256}))
    assert set(stored(tmp_path / "c")) == {ROOT, f"{ROOT}owl"}
    reasons = rows(tmp_path / "c", "SELECT reason FROM frontier_url WHERE url LIKE '%bomb.pdf'")
    ended = "2 worker processes ended while they analyzed this page (SIGABRT)"
    assert reasons == [(f"{CRASHED} {ended}",)]
