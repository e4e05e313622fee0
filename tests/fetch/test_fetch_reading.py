"""The pure parts: header lines, Retry-After, content types, content encodings."""

import gzip
import zlib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import pairwise

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import Failure
from opilio.fetch.decoding import ACCEPT_ENCODING, BodyTooLargeError, Decoder, DecodingError
from opilio.fetch.http import (
    ResponseFilter,
    parse_content_length,
    parse_headers,
    parse_retry_after,
    parse_status_line,
    redirect_target,
)

LIMIT = 1 << 20
PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstandard.compress,
}
if "br" in ACCEPT_ENCODING:  # the library is optional
    PACK["br"] = import_module("brotli").compress


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("0", 0.0),
        ("99999999999999999999", 3600.0),
        ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("Thu, 01 Jan 2070 00:00:00 GMT", 3600.0),
        ("soon", 0.0),
        ("-5", 0.0),
        ("", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(value: str, wait_s: float) -> None:
    assert parse_retry_after(value, now=10.0, cap_s=3600.0) == wait_s


@given(st.text(max_size=60))
def test_retry_after_stays_in_bounds_whatever_it_says(value: str) -> None:
    assert 0.0 <= parse_retry_after(value, 0.0, 3600.0) <= 3600.0


def test_header_lines_are_read_when_folded_odd_or_foreign() -> None:
    lines = (b" stray", b"A: 1", b"\tmore", b"no colon", b": no name", b"B:\xe4", b"C: \xc3\xa4")
    assert parse_headers([line + b"\r\n" for line in lines]) == (("A", "1 more"), ("B", "ä"), ("C", "ä"))


def test_location_keeps_its_bytes_when_they_are_no_text_of_ours() -> None:
    lines = ("Location: /жук\r\n".encode("cp1251"), "Location: /жук\r\n".encode())
    assert [value for _, value in parse_headers(lines)] == ["/%E6%F3%EA", "/жук"]


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_header_lines_are_read_whatever_they_hold(lines: list[bytes]) -> None:
    assert len(parse_headers(lines)) <= len(lines)
    assert all(0 <= parse_status_line(line) <= 999 for line in lines)


@pytest.mark.parametrize(
    ("status", "location", "expected"),
    [
        (301, "/b/../c#d", "http://a.example/c"),
        (302, "HTTPS://B.example", "https://b.example/"),
        (302, "javascript:alert(1)", ""),
        (302, "", ""),
        (304, "/b", ""),
        (201, "/b", ""),
    ],
)
def test_location_is_canonical_when_the_answer_is_a_redirect(status: int, location: str, expected: str) -> None:
    assert redirect_target(status, location, "http://a.example/x") == expected


@pytest.mark.parametrize(("value", "size"), [("12", 12), ("", 0), ("-1", 0), ("1e9", 0), ("9" * 30, 0), ("²", 0)])
def test_content_length_is_read_when_it_is_a_number(value: str, size: int) -> None:
    assert parse_content_length(value) == size


@pytest.mark.parametrize(
    ("url", "content_type", "wanted"),
    [
        ("http://a.example/", "text/html; charset=utf-8", True),
        ("http://a.example/", "Application/XHTML+XML", True),
        ("http://a.example/", "text/plain", True),
        ("http://a.example/", "", True),
        ("http://a.example/", "application/pdf", False),
        ("http://a.example/", "text/css", False),
        ("http://a.example/robots.txt", "application/octet-stream", True),
    ],
)
def test_pages_are_wanted_and_little_else(url: str, content_type: str, wanted: bool) -> None:
    assert (ResponseFilter().refusal(url, content_type) is None) is wanted


@pytest.mark.parametrize(
    ("url", "content_type", "kind"),
    [
        ("http://a.example/x", "application/pdf", ""),
        ("http://a.example/x.PDF?v=1", "application/octet-stream", ""),
        ("http://a.example/x", "application/octet-stream", "content-type"),
        ("http://a.example/x.epub", "application/epub+zip", "scope"),
    ],
)
def test_documents_are_wanted_where_they_can_be_read(url: str, content_type: str, kind: str) -> None:
    refused = {"application/epub+zip": Failure("scope", "application/epub+zip is denied")}
    refusal = ResponseFilter(["application/pdf"], ["pdf"], refused).refusal(url, content_type)
    assert (refusal.kind if refusal else "") == kind


def fed(decoder: Decoder, data: bytes, cuts: list[int]) -> bytes:
    places = sorted({0, len(data), *(c % (len(data) + 1) for c in cuts)})
    return b"".join(decoder.feed(data[a:b]) for a, b in pairwise(places))


@given(st.sampled_from(sorted(PACK)), st.binary(max_size=3000), st.lists(st.integers(0, 4000), max_size=5))
def test_decoder_gives_back_the_data_however_it_is_cut(encoding: str, data: bytes, cuts: list[int]) -> None:
    decoder = Decoder(encoding, LIMIT)
    assert fed(decoder, PACK[encoding](data), cuts) == data
    assert decoder.is_complete()


@given(st.sampled_from([*sorted(PACK), "gzip, zstd"]), st.binary(max_size=300))
def test_decoder_fails_in_one_way_when_fed_garbage(encoding: str, data: bytes) -> None:
    with suppress(DecodingError, BodyTooLargeError):
        assert len(Decoder(encoding, 1000).feed(data)) <= 1000


@pytest.mark.parametrize("encoding", PACK)
def test_decoder_stops_when_more_comes_out_than_allowed(encoding: str) -> None:
    packed = PACK[encoding](bytes(1001))
    assert len(Decoder(encoding, 1001).feed(packed)) == 1001
    with pytest.raises(BodyTooLargeError):
        Decoder(encoding, 1000).feed(packed)


def test_decoder_reads_every_gzip_member_and_ignores_padding() -> None:
    decoder = Decoder("x-gzip", LIMIT)
    assert decoder.feed(gzip.compress(b"a") + gzip.compress(b"b") + b"\0\0") + decoder.feed(b"\0") == b"ab"
    assert decoder.is_complete()


def test_decoder_reads_deflate_without_its_wrapper() -> None:
    assert fed(Decoder("deflate", LIMIT), zlib.compress(b"wren" * 50)[2:-4], [1, 2]) == b"wren" * 50


def test_decoder_changes_nothing_when_the_encoding_means_nothing() -> None:
    assert Decoder("identity, UTF-8", LIMIT).feed(b"wren") == b"wren"


@pytest.mark.parametrize("encoding", ["compress", "gzip, gzip, gzip", "gzip;q=1"])
def test_decoder_refuses_what_it_does_not_know(encoding: str) -> None:
    with pytest.raises(DecodingError):
        Decoder(encoding, LIMIT)
