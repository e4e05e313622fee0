"""Libraries that read PDF and DOCX: how much of the text and of the links they find, and the CPU time they take.

    python benchmarks/documents/run.py --docs /usr/share/doc/python3-doc/html/library --pages 20

Chromium prints HTML pages to PDF, so that the right text and links are known. A DOCX is made of the same paragraphs.
Needs playwright, pypdf, pdfminer.six and python-docx.
"""

import argparse
import io
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from html import unescape
from pathlib import Path

import turbohtml

from opilio.core.records import FetchResult
from opilio.parse.documents.docx import docx_to_html
from opilio.parse.documents.formats import HtmlDocument
from opilio.parse.documents.pdf import pdf_to_html
from opilio.parse.html import HtmlParser

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
Reading = tuple[str, set[str]]


def words(text: str) -> Counter[str]:
    return Counter(re.findall(r"\w+", text.lower()))


def f1(found: str, wanted: str) -> float:
    one, other = words(found), words(wanted)
    both = sum((one & other).values())
    return 2 * both / max(1, sum(one.values()) + sum(other.values()))


def read_opilio(body: bytes, content_type: str) -> Reading:
    headers = (("Content-Type", content_type),)
    page = HtmlParser().parse(FetchResult(url="http://a.example/", headers=headers, body=body))
    return page.text, {link.url for link in page.links}


def convert_only(to_html: Callable[[bytes], HtmlDocument], body: bytes) -> Reading:
    """Without parsing the HTML; tags are removed roughly."""
    html = to_html(body).html.partition("<body>")[2]
    return unescape(re.sub("<[^<>]+>", " ", html)), set()


def read_pypdf(body: bytes) -> Reading:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(body))
    links = set()
    for page in reader.pages:
        for note in page.annotations or []:
            action = note.get_object().get("/A", {})
            links |= {str(action["/URI"])} if "/URI" in action else set()
    return "\n".join(page.extract_text() for page in reader.pages), links


def read_pdfminer(body: bytes) -> Reading:
    from pdfminer.high_level import extract_text

    return extract_text(io.BytesIO(body)), set()


def read_python_docx(body: bytes) -> Reading:
    import docx

    document = docx.Document(io.BytesIO(body))
    links = {r.target_ref for r in document.part.rels.values() if r.is_external}
    return "\n".join(p.text for p in document.paragraphs), links


def print_to_pdf(paths: list[Path]) -> list[bytes]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(java_script_enabled=False)
        printed = []
        for path in paths:
            page.set_content(visible_html(path))
            printed.append(page.pdf())
        browser.close()
    return printed


def visible_html(path: Path) -> str:
    """The body without what a printed page does not show; links are absolute."""
    document = turbohtml.parse(path.read_bytes(), detect_encoding=True)
    document.remove("script,style,select,textarea,noscript,input,button")
    body = document.find("body")
    assert body is not None
    for link in body.select("a[href]"):
        href = link.attr("href") or ""
        link.attrs["href"] = href if href.startswith("http") else "http://a.example/" + href.lstrip("./#")
    return f"<html><body>{body.inner_html}</body></html>"


def make_docx(path: Path) -> bytes:
    import docx

    document = docx.Document()
    for block in turbohtml.parse(visible_html(path)).select("h1,h2,h3,p,li,pre"):
        document.add_paragraph(" ".join(block.text.split()))
    out = io.BytesIO()
    document.save(out)
    return out.getvalue()


def measure(name: str, read: Callable[[bytes], Reading], bodies: list[bytes], wanted: list[Reading]) -> None:
    scores, links, known, took = [], 0, 0, 0.0
    for body, (text, urls) in zip(bodies, wanted, strict=True):
        began = time.process_time()
        found, addresses = read(body)
        took += time.process_time() - began
        scores.append(f1(found, text))
        links += len(addresses & urls)
        known += len(urls)
    mean = sum(scores) / len(scores)
    recall = f"{links / known:.2f}" if known else "-"
    print(f"| {name} | {mean:.3f} | {recall} | {1000 * took / len(bodies):.0f} |")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--docs", type=Path, default=Path("/usr/share/doc/python3-doc/html/library"))
    options.add_argument("--pages", type=int, default=20)
    given = options.parse_args()
    paths = sorted(given.docs.glob("*.html"))[:: max(1, len(list(given.docs.glob("*.html"))) // given.pages)]
    pdfs = print_to_pdf(paths)
    html = [visible_html(path).encode() for path in paths]
    wanted = [read_opilio(page, "text/html; charset=utf-8") for page in html]
    print(f"{len(pdfs)} documents, {sum(map(len, pdfs)) / len(pdfs) / 1000:.0f} KB each on average", file=sys.stderr)
    print("| reader | F1 of words | links found | ms per document |\n|---|---|---|---|")
    measure("Opilio (pypdfium2), to a parsed page", lambda body: read_opilio(body, "application/pdf"), pdfs, wanted)
    measure("the same, to HTML only", partial(convert_only, pdf_to_html), pdfs, wanted)
    measure("pypdf", read_pypdf, pdfs, wanted)
    measure("pdfminer.six", read_pdfminer, pdfs, wanted)
    files = [make_docx(path) for path in paths]
    texts: list[Reading] = [(read_python_docx(body)[0], set()) for body in files]
    measure("Opilio (DOCX), to a parsed page", lambda body: read_opilio(body, DOCX), files, texts)
    measure("the same, to HTML only", partial(convert_only, docx_to_html), files, texts)
    measure("python-docx", read_python_docx, files, texts)


if __name__ == "__main__":
    main()
