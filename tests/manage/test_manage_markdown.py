"""Export of Markdown: files, JSON lines and chunks; pages that ask not to be indexed."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.small_webs import BIRDS, SmallWeb, crawl, opilio, page, served, settings_for
from opilio.api.collection import CollectionView
from opilio.core.errors import UsageError
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.export import export, export_to_file
from opilio.manage.formats.markdown import split_markdown
from opilio.store.page_selection import PageFilter

ROOT = "http://a.example/"
GUIDE = f"""<html lang="en"><head><title>Guide | Birds</title><meta name="author" content="Ada: Finch">
<meta property="article:published_time" content="2026-03-04"><link rel="license" href="/licence">
<link rel="canonical" href="/the-guide"></head><body><nav><a href="/">Home</a></nav><main><h1>Guide</h1><p>{BIRDS}
<pre>def wren():
    return "small"</pre><table><tr><th>Bird<th>Size<tr><td>wren<td>10 cm</table></main></body></html>"""
WEB = {
    ROOT: page(BIRDS, ["/guide?x=1", "/hidden"], title="Birds"),
    ROOT + "guide?x=1": RecordedResponse(
        200,
        (("Content-Type", "text/html; charset=utf-8"), ("Content-Signal", "search=yes, ai-train=no")),
        GUIDE.encode(),
    ),
    ROOT + "hidden": page(f"{BIRDS} hidden", title="Hidden", head='<meta name="robots" content="noindex">'),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("markdown") / "c"
    with served(SmallWeb(WEB)) as server:
        crawl(folder, settings_for(server, [ROOT], strategy="s0", engine={"connections": 1}))
    yield folder


def lines(folder: Path, form: str, wanted: PageFilter, chunk_words: int = 0) -> list[dict[str, object]]:
    out = io.BytesIO()
    export(folder, form, wanted, out, chunk_words=chunk_words)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_lines_have_content_and_metadata(folder: Path) -> None:
    row = {row["url"]: row for row in lines(folder, "markdown", PageFilter())}[ROOT + "guide?x=1"]
    assert (row["title"], row["author"], row["published"]) == ("Guide", "Ada: Finch", "2026-03-04")
    assert (row["canonical"], row["licence"]) == (ROOT + "the-guide", ROOT + "licence")
    assert str(row["content_hash"]).startswith("sha256:")
    markdown = str(row["markdown"])
    assert markdown.startswith("# Guide\n\n")
    assert '```\ndef wren():\n    return "small"\n```' in markdown
    assert "| Bird | Size |\n| --- | --- |\n| wren | 10 cm |" in markdown
    assert "Home" not in markdown


def test_language_is_the_declared_one_or_that_of_the_text(tmp_path: Path) -> None:
    text = "Der Zaunkönig ist ein kleiner brauner Vogel, der in Hecken und Wäldern brütet und laut singt. " * 4
    web = {ROOT: page(text), ROOT + "guide?x=1": WEB[ROOT + "guide?x=1"]}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, list(web), strategy="s0"))
    for form in ("markdown", "jsonl"):
        found = {row["url"]: row["language"] for row in lines(tmp_path / "c", form, PageFilter())}
        assert found == {ROOT: "de", ROOT + "guide?x=1": "en"}, form


def test_files_have_front_matter(folder: Path, tmp_path: Path) -> None:
    assert export_to_file(folder, tmp_path / "pages", "markdown", PageFilter()) == 2
    names = sorted(path.relative_to(tmp_path / "pages").as_posix() for path in (tmp_path / "pages").rglob("*.md"))
    assert [name.rpartition("-")[0] for name in names] == ["a.example/guide", "a.example/index"]
    text = (tmp_path / "pages" / names[0]).read_text(encoding="utf-8")
    assert text.startswith(f'---\nurl: "{ROOT}guide?x=1"\ncanonical: "{ROOT}the-guide"\ntitle: "Guide"\n')
    assert 'author: "Ada: Finch"\n' in text
    assert "\n---\n\n# Guide\n\n" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pages"], "no part is left"


def test_chunks_carry_headings_and_metadata(folder: Path) -> None:
    rows = [row for row in lines(folder, "markdown", PageFilter(), 5) if row["url"] == ROOT + "guide?x=1"]
    assert [row["index"] for row in rows] == list(range(len(rows)))
    assert len({row["id"] for row in rows}) == len(rows) > 2
    assert all(row["headings"] == ["Guide"] and row["title"] == "Guide" and "markdown" not in row for row in rows)


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_pages_that_ask_not_to_be_indexed_are_left_out(folder: Path, form: str) -> None:
    assert ROOT + "hidden" not in {row["url"] for row in lines(folder, form, PageFilter())}
    assert ROOT + "hidden" in {row["url"] for row in lines(folder, form, PageFilter(include_noindex=True))}


@pytest.mark.parametrize("form", ["jsonl", "markdown"])
def test_pages_that_deny_a_purpose_are_left_out(folder: Path, form: str) -> None:
    assert [row["url"] for row in lines(folder, form, PageFilter(allow=("ai-train",)))] == [ROOT]
    assert len(lines(folder, form, PageFilter(allow=("search", "ai-input")))) == 2


def test_signals_are_in_the_export(folder: Path) -> None:
    row = {row["url"]: row for row in lines(folder, "markdown", PageFilter())}[ROOT + "guide?x=1"]
    assert row["signals"] == {
        "content_signal": {"search": True, "ai-train": False},
        "licence": ROOT + "licence",
    }


def test_command_and_api(folder: Path, tmp_path: Path) -> None:
    ended = opilio("export", folder, "--format", "markdown", "--include-noindex", "--out", tmp_path / "all")
    assert (ended.returncode, ended.stderr.strip()) == (0, f"3 pages written to {tmp_path / 'all'}")
    ended = opilio("export", folder, "--out", tmp_path / "some.jsonl")
    assert "2 pages written to " in ended.stderr
    assert "; without 1 that ask not to be indexed (--include-noindex)" in ended.stderr
    view = CollectionView(folder)
    assert view.export(tmp_path / "x.md.jsonl", chunk_words=50) == len(view.pages()) == 2
    assert len(view.pages(include_noindex=True)) == 3
    assert view.export(tmp_path / "trained.warc.gz", allow=["ai-train"]) == 1
    wrong = opilio("export", folder, "--allow", "ai-trian")
    assert (wrong.returncode, "did you mean" in wrong.stderr) == (2, True)


def test_requests_that_make_no_sense_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--chunk-words: not for --format csv"):
        export(folder, "csv", PageFilter(), io.BytesIO(), chunk_words=9)
    with pytest.raises(UsageError, match=r"choose a name that ends in \.jsonl"):
        export_to_file(folder, tmp_path / "pages", "markdown", PageFilter(), chunk_words=9)
    assert not list(tmp_path.iterdir())


def test_headings_of_chunks_are_plain_text() -> None:
    markdown = "# [The *wren*](http://a.example/wren_(bird)) \\[1\\]\n\n## `nest_box`\n\nMoss."
    (chunk,) = split_markdown("http://a.example/", markdown, 100)
    assert chunk.headings == ("The wren [1]", "nest_box")


def test_an_unchanged_chunk_keeps_its_id() -> None:
    before = split_markdown(ROOT, "# A\n\nOne.\n\n## B\n\nTwo.", 3)
    after = split_markdown(ROOT, "# A\n\nOne, changed.\n\n## New\n\nNew.\n\n## B\n\nTwo.", 3)
    assert before[-1].id == after[-1].id
    assert before[0].id != after[0].id


def test_code_is_never_split() -> None:
    code = "```python\n" + "\n\n".join(f"line {n}" for n in range(50)) + "\n```"
    chunks = split_markdown(ROOT, f"Before.\n\n{code}\n\nAfter.", 10)
    assert [chunk.text for chunk in chunks] == ["Before.", code, "After."]


def test_long_table_is_split_between_rows_with_its_header() -> None:
    header = ["| bird | gram |", "| --- | --- |"]
    rows = [f"| wren {n} | {n} |" for n in range(9)]
    chunks = split_markdown(ROOT, "\n".join(["# Weights\n", *header, *rows]), 25)
    assert [chunk.text.splitlines()[-len(rows) :][:2] for chunk in chunks[1:]] == [header] * (len(chunks) - 1)
    assert [line for chunk in chunks for line in chunk.text.splitlines() if "wren" in line] == rows
    assert all(len(chunk.text.split()) <= 25 + len("# Weights".split()) for chunk in chunks)


def test_equal_chunks_of_a_page_have_different_ids() -> None:
    chunks = split_markdown(ROOT, "# A\n\nSame.\n\n# A\n\nSame.", 5)
    assert len({chunk.id for chunk in chunks}) == 2


@given(st.lists(st.sampled_from(["# A", "## B", "Some words here.", "```\nx\n\ny\n```", "- item"])), st.integers(1, 20))
def test_chunks_hold_every_block_in_order(blocks: list[str], limit: int) -> None:
    chunks = split_markdown(ROOT, "\n\n".join(blocks), limit)
    assert "\n\n".join(chunk.text for chunk in chunks) == "\n\n".join(blocks)
