"""Readers of foreign input never raise an unexpected error, whatever they read.

Inputs are pieces of a small corpus, joined, repeated and damaged. `make fuzz` runs as many as wanted and looks for new
ones each time; the usual test run tries a few, always the same. A failure prints the shortest input that causes it.
"""

import contextlib
import gzip
import os
import random
from collections.abc import Callable

import pytest

from checks.documents import docx, epub, pdf
from opilio.core.clock import parse_date
from opilio.core.errors import OpilioError, ParseError
from opilio.core.files import parse_toml
from opilio.core.records import FetchResult
from opilio.core.settings import HtmlLibrary, validate_tree
from opilio.core.urls import canonicalize_url
from opilio.engine.politeness.robots import rules_from_response
from opilio.fetch.decoding import BodyTooLargeError, Decoder, DecodingError, parse_http_response
from opilio.fetch.http import parse_headers, parse_retry_after, parse_status_line
from opilio.parse.encoding import declared_encoding, decode_text
from opilio.parse.extract import extract_content
from opilio.parse.html import HtmlParser
from opilio.parse.sitemaps import parse_sitemap
from opilio.search.query import parse_query
from opilio.store.warc import parse_response, response_record
from opilio.testing.stages import CONTENT_TYPES, check_page

INPUTS = int(os.environ.get("FUZZ_INPUTS", "1000"))  # of each target
SEED = os.environ.get("FUZZ_SEED", "0")
URL = "http://a.example/dir/page"
DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EPUB_TYPE = "application/epub+zip"
PDF = pdf([["About the wren", "the owl"]], title="Wrens", link=URL, outline="About the wren")
MEMBER = response_record(FetchResult(url=URL, status=200, headers=(("Content-Type", "text/html"),), body=b"<p>wren"))


def fuzz_url(data: bytes) -> None:
    url = canonicalize_url(data.decode("utf-8", "surrogateescape"), URL)
    assert url is None or canonicalize_url(url) == url


def fuzz_robots(data: bytes) -> None:
    rules = rules_from_response(FetchResult(url="http://a.example/robots.txt", status=200, body=data), "opilio", 0.0)
    rules.allows(URL)
    assert rules.delay_s >= 0.0


def fuzz_html(data: bytes, library: HtmlLibrary = "turbohtml") -> None:
    parser = HtmlParser(library=library)
    for kind in CONTENT_TYPES[:2]:
        fetched = FetchResult(url=URL, headers=(("Content-Type", kind),), body=data)
        with contextlib.suppress(ParseError):
            check_page(parser.parse(fetched))
        # What exports and stored copies read.
        with contextlib.suppress(ParseError):
            extract_content(fetched)


def fuzz_html_selectolax(data: bytes) -> None:
    fuzz_html(data, "selectolax")


def fuzz_document(data: bytes) -> None:
    for kind in ("application/xhtml+xml", "text/plain", "text/markdown", ""):
        with contextlib.suppress(ParseError):
            check_page(HtmlParser().parse(FetchResult(url=URL, headers=(("Content-Type", kind),), body=data)))


def fuzz_file(data: bytes, kind: str) -> None:
    with contextlib.suppress(ParseError):
        check_page(HtmlParser().parse(FetchResult(url=URL, headers=(("Content-Type", kind),), body=data)))


def fuzz_pdf(data: bytes) -> None:
    fuzz_file(b"%PDF-1.4\n" + data, "application/pdf")


def fuzz_xml(data: bytes) -> None:
    fuzz_file(b"<article>" + data, "application/xml")


def fuzz_zipped(data: bytes) -> None:
    """As the text of a DOCX and a chapter of an EPUB, and as the bytes of both."""
    text = data.decode("utf-8", "replace")
    for whole, kind in ((docx(text), DOCX_TYPE), (epub(text), EPUB_TYPE)):
        fuzz_file(whole, kind)
        at = len(whole) * (data[0] if data else 0) // 256
        fuzz_file(whole[:at] + data + whole[at + len(data) :], kind)


def fuzz_sitemap(data: bytes) -> None:
    fetched = FetchResult(url=URL, headers=(("Content-Type", "text/xml"),), body=b"<urlset>" + data)
    assert all(entry.url.startswith(("http://", "https://")) for entry in parse_sitemap(fetched))


def fuzz_feed(data: bytes) -> None:
    fetched = FetchResult(url=URL, headers=(("Content-Type", "application/rss+xml"),), body=b"<rss>" + data)
    assert all(entry.modified_at >= 0.0 for entry in parse_sitemap(fetched))


def fuzz_encoding(data: bytes) -> None:
    header, _, body = data.partition(b"\n")
    content_type = header.decode("latin-1")
    declared_encoding(content_type, body)
    text, _ = decode_text(body, content_type)
    text.encode("utf-8")


def fuzz_content_encoding(data: bytes) -> None:
    name, _, body = data.partition(b"\n")
    with contextlib.suppress(DecodingError, BodyTooLargeError):
        decoder = Decoder(name.decode("latin-1"), 10_000)
        for start in range(0, len(body), 7):
            assert len(decoder.feed(body[start : start + 7])) <= 10_000
        decoder.is_complete()


def fuzz_response_head(data: bytes) -> None:
    lines = data.splitlines(keepends=True)
    for name, value in parse_headers(lines):
        assert name
        assert parse_retry_after(value, 0.0, 3600.0) <= 3600.0
        parse_date(value)
    assert 0 <= parse_status_line(data) <= 999


def fuzz_query(data: bytes) -> None:
    with contextlib.suppress(OpilioError):
        parse_query(data.decode("utf-8", "replace"))


def fuzz_toml(data: bytes) -> None:
    with contextlib.suppress(OpilioError, ValueError):
        validate_tree(parse_toml(data.decode("utf-8", "replace")), "fuzz.toml")


def fuzz_warc(data: bytes) -> None:
    for member in (data, gzip.compress(data)):
        # The documented error for anything that is not a whole record.
        with contextlib.suppress(ValueError):
            parse_response(member)
    with contextlib.suppress(ValueError):
        parse_http_response(data)


HTML_PIECES = (
    b"<a href=x>",
    b"</a>",
    b"<p>",
    b"<table>",
    b"<rp>",
    b"<svg>",
    b"<!--",
    b"<title>",
    b"\x02",
    b"&#3;",
    b"<b>",
    b"<td colspan=",
    b"<td rowspan=",
)
# `int` refuses numbers of so many digits.
LONG_NUMBER = b"9" * 5_000
# Pieces of input that each target knows; together with damage they reach more than random bytes.
TARGETS: dict[str, tuple[Callable[[bytes], None], tuple[bytes, ...]]] = {
    "url": (
        fuzz_url,
        (b"http://", b"//", b"/../", b"?q=", b"#", b"%", b"%2e", b"[::1]", b":80", b"@", b"xn--", b"\\", b"a.b"),
    ),
    "robots": (
        fuzz_robots,
        (b"User-agent: *\n", b"Disallow: /", b"Allow: ", b"*", b"$", b"\n", b"Crawl-delay: ", b"1e9", b"#"),
    ),
    "html": (fuzz_html, HTML_PIECES),
    "html with selectolax": (fuzz_html_selectolax, HTML_PIECES),
    "document": (
        fuzz_document,
        (
            b"# Wren\n",
            b"[a](b)",
            b"http://a.example/x",
            b"\n\n",
            b"|a|\n|-|\n",
            b"<![CDATA[",
            b"]]>",
            b"<p/>",
            b"> ",
            b"```",
        ),
    ),
    "pdf": (
        fuzz_pdf,
        (PDF[:400], PDF[400:], PDF, b"stream\n", b"endstream", b"/Length 9", b"<<", b">>", b"1 0 R", b"["),
    ),
    "xml": (
        fuzz_xml,
        (
            b"<title>",
            b"</title>",
            b"<para>wren wren ",
            b"<a href='x'>",
            b"&lt;",
            b"<!DOCTYPE a [",
            b"<![CDATA[",
            b"]]>",
        ),
    ),
    "zipped document": (
        fuzz_zipped,
        (
            b"<w:p>",
            b"</w:p>",
            b"<w:t>wren",
            b"</w:t>",
            b"<w:tbl>",
            b"<w:ilvl w:val='",
            b"'/>",
            b"<p>",
            b"<a href='c0.xhtml'>",
            b"PK\x01\x02",
            b"PK",
        ),
    ),
    "sitemap": (
        fuzz_sitemap,
        (b"<url>", b"</url>", b"<loc>", b"</loc>", b"http://a.example/", b"<![CDATA[", b"]]>", b"<lastmod>", b"&#"),
    ),
    "feed": (
        fuzz_feed,
        (b"<item>", b"</item>", b"<link>", b"</link>", b"<pubDate>", b"2026-01-01", b"<link href='/x'/>", b"</"),
    ),
    "encoding": (
        fuzz_encoding,
        (b"text/html; charset=", b"utf-16", b"x-user-defined", b"iso-2022-jp", b"\n", b"\xef\xbb\xbf", b"\x1b$B"),
    ),
    "content encoding": (
        fuzz_content_encoding,
        (b"gzip", b"zstd", b"deflate", b"br", b", ", b"\n", b"\x1f\x8b\x08", b"(\xb5/\xfd", b"x\x9c"),
    ),
    "response head": (
        fuzz_response_head,
        (b"HTTP/1.1 200 OK\r\n", b"Retry-After: ", b"\r\n", b" ", b":", b"Thu, 01 Jan 1970", b"9" * 30),
    ),
    "query": (
        fuzz_query,
        (b"wren", b"AND", b"OR", b"NOT", b"(", b")", b'"', b"~2", b"title:", b"year:", b"*", b"-", b"http://"),
    ),
    "toml": (
        fuzz_toml,
        (b"[fetch]\n", b"timeout_s", b" = ", b"1", b"\n", b"[topic]\n", b"words", b"['a']", b"nan", b"true", b"[["),
    ),
    "warc": (
        fuzz_warc,
        (
            MEMBER,
            MEMBER[:60],
            MEMBER[60:],
            b"WARC/1.1\r\n",
            b"\r\n\r\n",
            b"Content-Length: 5\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"-6\r\n",
        ),
    ),
}


def make_input(rng: random.Random, pieces: tuple[bytes, ...]) -> bytes:
    """Pieces and random bytes in any order, with a few bytes flipped."""
    parts = [
        rng.choice((*pieces, LONG_NUMBER)) if rng.random() < 0.6 else rng.randbytes(rng.randint(0, 8))
        for _ in range(rng.randint(0, 16))
    ]
    data = bytearray(b"".join(parts) * rng.choice((1, 1, 1, 3)))
    for _ in range(rng.randint(0, 3) if data else 0):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def error_of(read: Callable[[bytes], None], data: bytes) -> Exception | None:
    try:
        read(data)
    except Exception as error:  # noqa: BLE001 - any error is a finding
        return error
    return None


def shrink(read: Callable[[bytes], None], data: bytes) -> bytes:
    """The input without the parts that are not needed for an error."""
    size = len(data) // 2
    while size:
        for start in range(0, len(data), size):
            shorter = data[:start] + data[start + size :]
            if error_of(read, shorter) is not None:
                data = shorter
                break
        else:
            size //= 2
    return data


@pytest.mark.parametrize("target", TARGETS)
def test_reader_survives(target: str) -> None:
    read, pieces = TARGETS[target]
    for number in range(INPUTS):
        data = make_input(random.Random(f"{SEED} {target} {number}"), pieces)
        if (error := error_of(read, data)) is not None:
            shortest = shrink(read, data)
            raise AssertionError(f"{target}: {shortest!r} raises; FUZZ_SEED={SEED}, input {number}") from error


def test_shrinking_keeps_the_error() -> None:
    def read(data: bytes) -> None:
        assert b"\x00" not in data

    assert shrink(read, b"wren\x00robin") == b"\x00"
