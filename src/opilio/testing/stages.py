"""What every `Fetcher`, `Parser`, `DuplicateDetector` and `SeedSource` does: suites to subclass in tests.

A fetcher serves SITE, and its tests give a way to run a coroutine with the fetcher and the site's root. A parser is the
fixture `parser`. A detector gives the fixtures `exact` and `near`: fresh, empty sets. A seed source that knows KNOWN on
any query is given by a way to ask it. `MemoryFetcher` serves pages from memory.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from opilio.core.errors import ParseError
from opilio.core.protocols import DuplicateDetector, Fetcher, Parser
from opilio.core.records import BLOCK_BREAK, LINK_END, LINK_START, EngineAnswer, FetchResult, Page, url_key
from opilio.core.urls import canonicalize_url, host_of

T = TypeVar("T")
# (fetcher, root of the site without a final slash).
Job = Callable[[Fetcher, str], Awaitable[T]]
Run = Callable[[Job[T]], T]

_HTML = ("Content-Type", "text/html")
SITE = {
    "/": FetchResult(url="/", status=200, headers=(_HTML, ("ETag", '"a1"')), body=b"<p>wren</p>"),
    "/robin": FetchResult(url="/robin", status=200, headers=(_HTML,), body=b"<p>robin</p>"),
    "/moved": FetchResult(url="/moved", status=301, headers=(_HTML, ("Location", "/robin"))),
    "/empty": FetchResult(url="/empty", status=200, headers=(_HTML,)),
}


class FetcherChecks:
    """Subclass it with a fixture `run`."""

    def test_answer_carries_url_status_headers_and_body(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/"))
        assert found.url.endswith("/")
        assert (found.status, found.body, found.failure) == (200, b"<p>wren</p>", None)
        assert found.header("content-type") == "text/html"

    def test_unknown_page_is_an_answer_when_missing(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/nowhere"))
        assert (found.status, found.failure) == (404, None)

    def test_redirect_is_returned_not_followed(self, run: Run[tuple[FetchResult, str]]) -> None:
        async def job(fetcher: Fetcher, root: str) -> tuple[FetchResult, str]:
            return await fetcher.fetch(f"{root}/moved"), root

        found, root = run(job)
        assert (found.status, found.location) == (301, f"{root}/robin")

    def test_body_is_empty_when_the_page_is(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/empty"))
        assert (found.status, found.body, found.failure) == (200, b"", None)

    def test_answer_is_304_when_the_validator_holds(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/", {"If-None-Match": '"a1"'}))
        assert (found.status, found.body, found.failure) == (304, b"", None)

    def test_answer_is_whole_when_the_validator_is_old(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/", {"If-None-Match": '"a0"'}))
        assert (found.status, found.body) == (200, b"<p>wren</p>")

    def test_answers_do_not_mix_when_asked_at_once(self, run: Run[list[FetchResult]]) -> None:
        async def job(fetcher: Fetcher, root: str) -> list[FetchResult]:
            return await asyncio.gather(*(fetcher.fetch(root + path) for path in ("/", "/robin") * 8))

        assert [f.body for f in run(job)] == [b"<p>wren</p>", b"<p>robin</p>"] * 8

    def test_close_is_harmless_when_repeated(self, run: Run[None]) -> None:
        async def job(fetcher: Fetcher, root: str) -> None:
            await fetcher.fetch(f"{root}/")
            await fetcher.close()
            await fetcher.close()

        run(job)


class MemoryFetcher:
    """Serves a mapping of canonical URLs; 404 for other URLs, 304 if a validator matches."""

    def __init__(self, pages: Mapping[str, FetchResult]) -> None:
        self._pages = pages

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        page = self._pages.get(url)
        if page is None:
            return FetchResult(url=url, status=404)
        if _is_unmodified(page, validators or {}):
            return replace(page, url=url, status=304, body=b"")
        return replace(page, url=url)

    async def close(self) -> None:
        """Nothing to close."""


def _is_unmodified(page: FetchResult, validators: Mapping[str, str]) -> bool:
    given = {name.lower(): value for name, value in validators.items()}
    tag = given.get("if-none-match") or given.get("etag")
    # RFC 9110, 13.1.3: the date counts only without a tag.
    if tag:
        return tag == page.header("etag")
    date = given.get("if-modified-since") or given.get("last-modified")
    return bool(date) and date == page.header("last-modified")


BIG = (1 << 63) - 1


class ContentSeenChecks:
    def test_new_text_has_no_original(self, exact: DuplicateDetector) -> None:
        assert exact.find_original(1, 100, 0) is None

    def test_same_fingerprint_names_first_page_s0_08(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0)
        assert exact.find_original(2, 100, 0) == (1, False)
        assert exact.find_original(3, 100, 0) == (1, False)

    def test_page_fetched_again_is_no_duplicate_of_itself(self, near: DuplicateDetector) -> None:
        assert near.find_original(1, 100, 7) is None
        assert near.find_original(1, 100, 7) is None
        assert near.find_original(1, 101, 6) is None

    def test_too_little_text_is_never_a_duplicate(self, near: DuplicateDetector) -> None:
        assert near.find_original(1, 0, 0) is None
        assert near.find_original(2, 0, 0) is None

    def test_near_text_is_not_looked_for_when_off(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0b1111)
        assert exact.find_original(2, 101, 0b1110) is None

    def test_near_text_is_found_up_to_three_bits_s0_e6(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0)
        near.find_original(2, 101, -1)
        # One bit in three of the four bands, the sign among them.
        flipped = BIG ^ (1 << 20) ^ 1
        assert near.find_original(3, 102, flipped) == (2, True)
        assert near.find_original(4, 103, BIG ^ (1 << 40) ^ (1 << 20) ^ 1) is None

    def test_nearest_of_several_is_named(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0xFF00FF00FF)
        near.find_original(2, 101, 0xFF00FF00FF ^ 0b1111)
        assert near.find_original(3, 102, 0xFF00FF00FF ^ 0b1110) == (2, True)

    def test_exact_match_goes_before_near_match(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, BIG)
        near.find_original(2, 200, 12345)
        assert near.find_original(3, 200, BIG) == (2, False)

    def test_changed_page_is_found_by_its_new_text_only(self, near: DuplicateDetector) -> None:
        near.find_original(1, 100, 0x1111_2222_3333_4444)
        near.find_original(1, 101, 0x5555_6666_7777_0008)
        assert near.find_original(2, 102, 0x5555_6666_7777_0009) == (1, True)
        assert near.find_original(3, 103, 0x1111_2222_3333_4445) is None

    def test_extreme_values_are_kept(self, exact: DuplicateDetector) -> None:
        exact.find_original(-BIG - 1, -BIG - 1, 1)
        assert exact.find_original(BIG, -BIG - 1, 1) == (-BIG - 1, False)
        assert exact.find_original(BIG, BIG, 1) is None

    def test_text_of_a_changed_page_belongs_to_the_next_page_that_has_it(self, exact: DuplicateDetector) -> None:
        exact.find_original(1, 100, 0)
        exact.find_original(1, 101, 0)
        exact.forget(1, 100)
        assert exact.find_original(2, 100, 0) is None
        exact.forget(1, 100)
        assert exact.find_original(3, 100, 0) == (2, False)
        assert exact.find_original(3, 101, 0) == (1, False)

    def test_signature_of_a_page_that_went_is_forgotten_that_of_a_changed_one_is_not(
        self, near: DuplicateDetector
    ) -> None:
        near.find_original(1, 100, BIG)
        near.forget(1, 99)
        assert near.find_original(2, 101, BIG) == (1, True)
        near.forget(1, 100, gone=True)
        assert near.find_original(2, 101, BIG) is None


KNOWN = [f"http://h{n}.example/wren-{n}.html" for n in range(6)]
Ask = Callable[..., Sequence[EngineAnswer]]  # (query, limit, genre) -> answers


class SourceChecks:
    """Subclass it with a fixture `ask`."""

    def test_answers_name_their_voter_and_have_no_failure(self, ask: Ask) -> None:
        answers = ask("wren", 6)
        assert answers
        assert all(answer.voter and answer.failure is None and answer.has_answered for answer in answers)

    def test_all_that_is_known_is_found_when_the_limit_allows(self, ask: Ask) -> None:
        found = {hit.url for answer in ask("wren", 6) for hit in answer.hits}
        assert {canonicalize_url(url) for url in found} == set(KNOWN)

    def test_limit_is_kept(self, ask: Ask) -> None:
        # URLs that the user wrote are returned completely.
        answers = [answer for answer in ask("wren", 2) if answer.fixed_priority != 1]
        assert all(len(answer.hits) <= 2 for answer in answers)

    def test_ranks_rise_from_one(self, ask: Ask) -> None:
        for answer in ask("wren", 6):
            ranks = [hit.rank for hit in answer.hits]
            assert ranks == sorted(ranks)
            assert ranks[:1] in ([], [1])

    def test_same_question_has_the_same_answer(self, ask: Ask) -> None:
        assert list(ask("wren", 4)) == list(ask("wren", 4))

    def test_genre_is_taken(self, ask: Ask) -> None:
        assert all(isinstance(answer, EngineAnswer) for answer in ask("wren", 2, "news"))


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
        # Entities and copied formatting may grow, but not without bound.
        assert len(page.flow) <= 40 * len(body) + 40
