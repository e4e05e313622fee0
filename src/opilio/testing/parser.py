"""What every Parser must do. Run by tests that provide a `parser` fixture."""

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opilio.core.errors import ParseError
from opilio.core.protocols import Parser
from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START, FetchResult, Page, url_key
from opilio.core.urls import canonicalize_url, host_of

URL = "http://example.org/birds/wren.html"
CONTENT_TYPES = ("text/html", "text/html; charset=utf-8", "application/xhtml+xml", "text/plain", "", "image/png")

_SCRAPS = (
    b"<a href=x>|</a>|<a href='http://other.example/?q=1#f'>|<p>|</p>|<table>|<tr>|<td>|<li>|<h1>|</h1>|<h3>|<nav>|</nav>|"
    b"<header>|<b>|</b>|<font color=1>|<i>|</i>|<script>|</script>|<!--|-->|<title>|</title>|<textarea>|<select>|<svg>|"
    b"<math>|<template>|<iframe src=f>|</iframe>|<frameset>|<frame src=g>|<area href=m alt=map>|<img alt=i>|"
    b"<base href=/b/>|<meta charset=utf-16>|<plaintext>|<xmp>|<br>|<pre>|<noscript>|<object>|wren |song|\x00|\x02|"
    b"\x03\x04|&#2;|&lt;a&gt;|&nbsp;|\xe9|\xc3\xa9|\xff\xfe|<|>|\"|'|<![CDATA[|<?xml?>|http://bare.example/x|<marquee>|<dd>|<o:p>|"
    b"<a\x00b>|</"
).split(b"|")
bodies = st.lists(st.sampled_from(_SCRAPS) | st.binary(max_size=12), max_size=60).map(b"".join)


def answer(
    body: bytes | str, content_type: str = "text/html; charset=utf-8", url: str = URL, **headers: str
) -> FetchResult:
    """An answer of a server; header names are given with underscores."""
    raw = body.encode() if isinstance(body, str) else body
    more = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return FetchResult(url=url, status=200, headers=(("Content-Type", content_type), *more), body=raw)


def check_page(page: Page) -> None:
    """The promises of the record, whatever was parsed."""
    blocks = page.flow.split(BLOCK_BREAK)
    assert len(page.boilerplate) == len(blocks)
    for block in blocks:
        assert re.fullmatch("(?:[^\x02\x03]|\x02[^\x02\x03]*\x03)*", block), "link marks neither nest nor cross blocks"
    anchors = re.findall(f"{LINK_START}([^{LINK_END}]*){LINK_END}", page.flow)
    assert [link.index for link in page.links] == list(range(len(anchors)))
    assert [link.anchor for link in page.links] == [anchor.strip() for anchor in anchors]
    for link in page.links:
        assert canonicalize_url(link.url) == link.url != page.url
        assert (link.key, link.host) == (url_key(link.url), host_of(link.url))
        assert len(link.tag_path) < 400
    own = (page.title, page.description, page.keywords, page.text, *(text for _, text in page.headings))
    assert not any(mark in text for mark in "\x00\x02\x03\x04\x05\x06" for text in own)


class ParserChecks:
    def test_empty_body_gives_empty_page(self, parser: Parser) -> None:
        page = parser.parse(answer(b""))
        assert (page.url, page.text, page.links) == (URL, "", ())

    @pytest.mark.parametrize("content_type", ["image/png", "video/mp4", "application/json", "text/css"])
    def test_other_content_types_are_refused_by_name(self, parser: Parser, content_type: str) -> None:
        with pytest.raises(ParseError, match=f"content-type: {content_type}"):
            parser.parse(answer(b"x", content_type))

    def test_page_is_the_same_when_parsed_twice(self, parser: Parser) -> None:
        fetched = answer("<title>Wren</title><p>A <a href=song.html>song</a>.")
        assert parser.parse(fetched) == parser.parse(fetched)

    def test_text_and_links_of_small_page(self, parser: Parser) -> None:
        page = parser.parse(answer("<title>Wren</title><p>A <a href=song.html>song</a>."))
        check_page(page)
        assert (page.title, page.text, page.links[0].url) == ("Wren", "A song.", "http://example.org/birds/song.html")

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=300)
    @given(bodies, st.sampled_from(CONTENT_TYPES))
    def test_any_bytes_give_page_or_parse_error(self, parser: Parser, body: bytes, content_type: str) -> None:
        try:
            page = parser.parse(answer(body, content_type))
        except ParseError:
            return
        check_page(page)
        assert len(page.flow) <= 40 * len(body) + 40  # entities and copied formatting may grow, but not without bound
