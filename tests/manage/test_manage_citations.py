"""Export as citations: BibTeX and RIS, with the statements of the page and hostile text escaped."""

import io
from pathlib import Path

import pytest

from checks.small_webs import BIRDS, SmallWeb, crawl, page, served, settings_for, word
from opilio.manage.export import export
from opilio.manage.formats.citations import Citation, bibtex_entry, ris_record
from opilio.store.page_selection import PageFilter

ROOT = "http://a.example/"
WEB = {
    ROOT: page(BIRDS, ["/wren"], title="Birds"),
    ROOT + "wren": page(f"{BIRDS} {word(1)}", title="Birds"),
}
HOSTILE = Citation(
    url="http://a.example/}{x", title="100% }, evil = {x", author="A & B", published="2026", site="a.example",
    language="en", description="", retrieved="2026-02-01",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("citations") / "birds"
    with served(SmallWeb(WEB)) as server:
        crawl(folder, settings_for(server, [ROOT], strategy="s0", engine={"connections": 1}))
    return folder


def exported(folder: Path, form: str) -> str:
    out = io.BytesIO()
    assert export(folder, form, PageFilter(), out) == len(WEB)
    return out.getvalue().decode()


def test_bibtex_has_an_entry_with_its_own_key_per_page(folder: Path) -> None:
    text = exported(folder, "bibtex")
    keys = [line.split("{")[1].rstrip(",") for line in text.splitlines() if line.startswith("@misc{")]
    assert len(set(keys)) == len(WEB)
    assert "title = {{Birds}}," in text
    assert f"url = {{{ROOT}wren}}," in text


def test_ris_has_a_record_per_page(folder: Path) -> None:
    records = exported(folder, "ris").split("ER  - \r\n")
    assert len(records) == len(WEB) + 1
    assert records[0].startswith("TY  - ELEC\r\nTI  - Birds\r\n")
    assert f"UR  - {ROOT}wren\r\n" in records[1]


def test_text_of_the_web_cannot_end_a_field() -> None:
    entry = bibtex_entry(HOSTILE, "key")
    assert r"title = {{100\% \}, evil = \{x}}," in entry
    assert r"author = {{A \& B}}," in entry
    assert "url = {http://a.example/%7D%7Bx}," in entry
    assert entry.count("{") - entry.count(r"\{") == entry.count("}") - entry.count(r"\}")
    assert "PY  - 2026\r\n" in ris_record(HOSTILE)
