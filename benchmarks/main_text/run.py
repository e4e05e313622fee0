"""Main-text extraction compared with trafilatura and resiliparse, on pages whose main content is known.

    python benchmarks/main_text/run.py --docs /usr/share/doc --pages 15

The hand-made pages of tests/parse/main_content mark their main content with `data-gold`. Of the HTML documentation of
Debian packages, the template of each package says which element is the content. The other extractors are measured if
they are installed.
"""

import argparse
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import turbohtml
from turbohtml import Document, Element

from opilio.core.records import FetchResult
from opilio.parse.extract import extract_content
from opilio.parse.html import HtmlParser

FIXTURES = Path(__file__).parents[2] / "tests" / "parse" / "main_content"
_HTML = (("Content-Type", "text/html; charset=utf-8"),)
# Packages: folder below --docs, selector of the content, selector of what is not content inside it.
TEMPLATES = {
    "python3.11": ("python3.11/html/**/*.html", "div[role=main]", "a.headerlink,.contents,.topic"),
    "git-doc": ("git-doc/*.html", "#header,#content", "#toc"),
    "postgresql-doc-15": ("postgresql-doc-15/html/*.html", "body", ".navheader,.navfooter,.toc,a.indexterm,a.id_link"),
    "sqlite3": ("sqlite3/*.html", "body", ".nosearch,.fancy_toc,.header,.menu,.searchmenu,script"),
    "debian-policy": ("debian-policy/policy.html/*.html", "div[role=main],div.body", "a.headerlink"),
    # Added later. Rules were changed after libglib and sqlalchemy were seen; apache2 changed none.
    "apache2-doc": (
        "apache2-doc/manual/en/**/*.html",
        "#page-content",
        "#quickview,.top,.language,.toplang,.bottomlang,#comments_section,#quickview,.up,.category",
    ),
    "libglib2.0-doc": ("../gtk-doc/html/gio/*.html", "body", "table.navigation,.toc,.footer"),
    "python-sqlalchemy-doc": ("python-sqlalchemy-doc/html/**/*.html", "#docs-body", "a.headerlink,.topic"),
}
_WORD = re.compile(r"\w+")


class GoldPage(NamedTuple):
    """A page and what an extractor should find in it."""

    name: str
    html: bytes
    text: str
    code: list[list[str]]
    rows: list[list[str]]


class Score(NamedTuple):
    f1: float
    code: list[bool]
    rows: list[bool]


def gold_of(name: str, html: bytes, selected: list[Element]) -> GoldPage:
    code = [[line.rstrip() for line in e.text.split("\n") if line.strip()] for s in selected for e in _own(s, "pre")]
    rows = [
        [" ".join(cell.text.split()) for cell in row.select("td,th")]
        for s in selected
        for row in _own(s, "tr")
        # The notes of AsciiDoc are tables of an icon and a text, no data.
        if not row.select("pre,table,ul,ol,br,p") and row.closest(".admonitionblock") is None
    ]
    text = "\n".join(str(s.to_text()) for s in selected)
    return GoldPage(name, html, text, [c for c in code if len(c) > 1], [r for r in rows if len(r) > 1 and all(r)])


def _own(element: Element, tag: str) -> list[Element]:
    return [*([element] if element.tag == tag else []), *element.select(tag)]


def fixtures() -> list[GoldPage]:
    pages = []
    for path in sorted(FIXTURES.glob("*.html")):
        html = path.read_bytes()
        document = turbohtml.parse(html, detect_encoding=True)
        document.remove("a.headerlink,a.anchor")
        pages.append(gold_of(path.name, html.replace(b" data-gold", b""), document.select("[data-gold]")))
    return pages


def package_pages(docs: Path, package: str, count: int) -> list[GoldPage]:
    pattern, content, dropped = TEMPLATES[package]
    paths = sorted(p for p in docs.glob(pattern) if p.is_file() and 3_000 < p.stat().st_size < 300_000)
    pages = []
    for path in paths[:: max(1, len(paths) // count)][:count]:
        html = path.read_bytes()
        document: Document = turbohtml.parse(html, detect_encoding=True)
        document.remove(f"script,style,{dropped}")
        selected = document.select(content)
        outer = [e for e in selected if not any(a in selected for a in e.ancestors)]
        page = gold_of(f"{package}/{path.name}", html, outer)
        if len(page.text) > 300:
            pages.append(page)
    return pages


def score(page: GoldPage, found: str) -> Score:
    got, wanted = Counter(_words(found)), Counter(_words(page.text))
    common = sum((got & wanted).values())
    f1 = 2 * common / max(1, sum(got.values()) + sum(wanted.values()))
    lines = [line.rstrip() for line in found.split("\n")]
    # Code inside a list is indented as a whole.
    text = "\n".join(line for line in lines if line.strip(" >"))
    code = [_has_block(text, block) for block in page.code]
    flat = [" ".join(re.sub(r"[|\\`*_]", " ", line).split()) for line in lines]
    rows = [any(_in_order(line, row) for line in flat) for row in page.rows]
    return Score(f1, code, rows)


def _words(text: str) -> list[str]:
    """Words; characters of scripts without spaces."""
    return [w for word in _WORD.findall(text) for w in (word if ord(word[0]) > 0x2E80 else [word])]


def _has_block(text: str, block: list[str]) -> bool:
    pattern = r"(?m)^([ >]*)" + re.escape(block[0].lstrip())
    for start in re.finditer(pattern, text):
        got = text[start.start() :].split("\n")[: len(block)]
        outer = len(got[0]) - len(block[0])
        if outer >= 0 and [line[outer:] for line in got] == block:
            return True
    return False


def _in_order(line: str, cells: list[str]) -> bool:
    position = 0
    for cell in cells:
        cell = " ".join(re.sub(r"[|\\`*_]", " ", cell).split())
        position = line.find(cell, position)
        if position < 0:
            return False
        position += len(cell)
    return True


def extractors() -> dict[str, Callable[[bytes], str]]:
    def opilio(html: bytes) -> str:
        return extract_content(FetchResult(url="http://a.example/", headers=_HTML, body=html), markdown=False).content

    def crawl_parser(html: bytes) -> str:
        return HtmlParser().parse(FetchResult(url="http://a.example/", headers=_HTML, body=html)).main_text

    def native(html: bytes) -> str:
        root = turbohtml.parse(html, detect_encoding=True).root
        found = root.main_content() if root is not None else None
        return str(found.to_markdown()) if found is not None else ""

    known: dict[str, Callable[[bytes], str]] = {"opilio": opilio, "crawl's parser": crawl_parser, "turbohtml": native}
    try:
        import trafilatura
    except ImportError:
        pass
    else:
        known["trafilatura"] = lambda h: trafilatura.extract(h, output_format="markdown", include_tables=True) or ""
    try:
        from resiliparse.extract.html2text import extract_plain_text
        from resiliparse.parse.html import HTMLTree
    except ImportError:
        pass
    else:
        known["resiliparse"] = lambda h: extract_plain_text(HTMLTree.parse_from_bytes(h), main_content=True)
    return known


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--docs", type=Path, default=Path("/usr/share/doc"))
    options.add_argument("--pages", type=int, default=15, help="pages of each package")
    options.add_argument("--worst", action="store_true", help="name the worst pages of opilio")
    arguments = options.parse_args()
    sets = {"hand-made": fixtures()}
    sets |= {name: package_pages(arguments.docs, name, arguments.pages) for name in TEMPLATES}
    print(
        "| extractor | set | pages | F1 | code blocks | table rows | CPU ms per page |\n|---|---|---|---|---|---|---|"
    )
    for name, extract in extractors().items():
        for title, pages in sets.items():
            if not pages:
                continue
            started = time.process_time()
            found = [extract(page.html) for page in pages]
            cost = (time.process_time() - started) / len(pages) * 1000
            scores = [score(page, text) for page, text in zip(pages, found, strict=True)]
            code = [c for s in scores for c in s.code]
            rows = [r for s in scores for r in s.rows]
            f1 = sum(s.f1 for s in scores) / len(scores)
            shares = [f"{sum(x)}/{len(x)}" if x else "–" for x in (code, rows)]
            print(f"| {name} | {title} | {len(pages)} | {f1:.3f} | {shares[0]} | {shares[1]} | {cost:.1f} |")
            if arguments.worst and name == "opilio":
                for s, page in sorted(zip(scores, pages, strict=True), key=lambda pair: pair[0].f1)[:4]:
                    print(f"    {page.name} {s.f1:.3f} code {s.code.count(False)} rows {s.rows.count(False)} lost")


if __name__ == "__main__":
    main()
