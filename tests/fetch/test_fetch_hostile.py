"""libcurl's fetcher against servers that lie, stall, flood and break off: always a typed failure."""

import asyncio
import gzip
import zlib
from collections.abc import Callable
from functools import cache

import pytest
import zstandard

from checks.hostile_site import Behaviour, answer, endless, raw, silent, site
from opilio.core.records import FetchResult
from opilio.engine.politeness.robots import rules_from_response
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.curl_transfer import INTERRUPTED, BodyBudget, Transfer
from opilio.fetch.decoding import ACCEPT_ENCODING, Decoder
from opilio.fetch.http import AnyResponse, FetchLimits, NetworkOptions, ResponseFilter
from opilio.store.warc import response_record

OK = b"HTTP/1.1 200 OK\r\n"
HTML = OK + b"Content-Type: text/html\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"
PDF = OK + b"Content-Type: application/pdf\r\n"
LIMITS = FetchLimits(body_bytes=1 << 20, document_bytes=2 << 20, total_s=20, slow_s=10)


def ask(behave: Behaviour, limits: FetchLimits = LIMITS) -> FetchResult:
    async def start() -> FetchResult:
        async with site({"/": behave, "/after": answer()}) as served:
            fetcher = CurlFetcher(
                "Opilio/test",
                limits=limits,
                network=NetworkOptions(allow_private=True, connections=1),
                accept=ResponseFilter(["application/pdf"]),
            )
            try:
                found = await fetcher.fetch(served.url("/"))
                while failed_by_time(after := await fetcher.fetch(served.url("/after"))):
                    pass  # a machine that was busy for as long as the limit
                assert after.body == b"<p>wren</p>"  # the handle is still good
                return found
            finally:
                await fetcher.close()

    return asyncio.run(start())


def failed_by_time(found: FetchResult) -> bool:
    return found.failure is not None and found.failure.kind == "timeout"


def kind_of(found: FetchResult) -> str:
    assert found.failure is not None
    # Of an interrupted response the beginning is kept.
    assert found.body == b"" or found.failure.kind in INTERRUPTED
    return found.failure.kind


BROKEN: dict[str, tuple[Behaviour, str]] = {
    "closes at once": (raw(b""), "empty"),
    "garbage": (raw(b"\x00\x01\xff garbage \r\n\r\n"), "protocol"),
    "no http version": (raw(b"HTTP/x.y 200 OK\r\n\r\n"), "protocol"),
    "absurd status": (raw(b"HTTP/1.1 99999 OK\r\n\r\n"), "protocol"),
    "nul in header": (raw(HTML + b"X: \x00\r\n\r\nhi"), "protocol"),
    "header without colon": (raw(HTML + b"nonsense\r\n\r\nhi"), "protocol"),
    "negative length": (raw(HTML + b"Content-Length: -5\r\n\r\nhi"), "protocol"),
    "two lengths": (raw(HTML + b"Content-Length: 2\r\nContent-Length: 9\r\n\r\nhi"), "protocol"),
    "not modified, unasked": (raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"), "protocol"),
    "chunk size no number": (raw(HTML + CHUNKED + b"ZZ\r\nhi"), "protocol"),
    "chunk cut": (raw(HTML + CHUNKED + b"9\r\nhi"), "truncated"),
    "length too long": (raw(HTML + b"Content-Length: 100\r\n\r\nhi"), "truncated"),
    "head cut": (raw(b"HTTP/1.1 200 OK\r\nContent-Ty"), "truncated"),
    "endless body": (endless(PDF + b"\r\n", b"y" * 65536), "too-large"),
    "endless chunks": (endless(PDF + CHUNKED, b"1000\r\n" + b"y" * 4096 + b"\r\n"), "too-large"),
    "large announced": (raw(PDF + b"Content-Length: 99999999\r\n\r\n"), "too-large"),
    "header flood": (endless(HTML, b"X-A: b\r\n"), "headers"),
    "huge header line": (endless(HTML + b"X-A: ", b"b" * 65536), "headers"),
    "interim flood": (endless(b"", b"HTTP/1.1 102 Wait\r\n\r\n"), "headers"),
    "not a page": (answer(b"\x89PNG", content_type="image/png"), "content-type"),
    "no gzip at all": (answer(b"plain", content_encoding="gzip"), "decode"),
    "gzip cut in its head": (answer(gzip.compress(b"wren" * 99)[:9], content_encoding="gzip"), "decode"),
    "zstd cut in its head": (answer(zstandard.compress(b"wren" * 99)[:5], content_encoding="zstd"), "decode"),
    "chunks of a byte": (endless(HTML + CHUNKED, b"1\r\ny\r\n" * 4096), "protocol"),
    "unknown encoding": (answer(b"x", content_encoding="compress"), "decode"),
    "three layers": (answer(b"x", content_encoding="gzip, gzip, gzip"), "decode"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_failure_is_typed_when_the_server(case: str) -> None:
    behave, kind = BROKEN[case]
    found = ask(behave)
    assert kind_of(found) == kind, found


MOVED = b"HTTP/1.1 302 Found\r\nLocation: /after\r\n"
REDIRECTS: dict[str, Behaviour] = {
    "no gzip at all": answer(b"moved", "301 Moved", location="/after", content_encoding="gzip"),
    "unknown encoding": answer(b"moved", "301 Moved", location="/after", content_encoding="compress"),
    "cut": raw(MOVED + b"Content-Length: 100\r\n\r\nmoved"),
    "endless": endless(MOVED + b"\r\n", b"y" * 65536),
    "large announced": raw(MOVED + b"Content-Length: 99999999\r\n\r\n"),
}


@pytest.mark.parametrize("case", REDIRECTS)
def test_redirect_stands_when_its_body_is(case: str) -> None:
    found = ask(REDIRECTS[case])
    assert (found.failure, found.body, found.location[-6:]) == (None, b"", "/after"), found


@pytest.mark.parametrize("target", ["/", "", "/?utm_source=x#top"])
def test_failure_is_a_loop_when_a_redirect_leads_nowhere_else(target: str) -> None:
    found = ask(answer(b"", "302 Found", location=target or "#"))
    assert (kind_of(found), found.location) == ("redirect-loop", "")


def test_status_and_headers_are_kept_when_the_body_is_not_wanted() -> None:
    found = ask(answer(b"x" * 99, content_type="image/png"))
    assert (found.status, found.header("content-type"), kind_of(found)) == (200, "image/png", "content-type")


@pytest.mark.parametrize("head", [b"", HTML + b"\r\nabc"], ids=["nothing", "half a body"])
def test_failure_is_timeout_when_the_server_falls_silent(head: bytes) -> None:
    assert kind_of(ask(silent(head), FetchLimits(total_s=0.3))) == "timeout"


def test_failure_is_slow_when_the_body_drips() -> None:
    """libcurl counts whole seconds: the one test here that takes more than one."""
    assert kind_of(ask(silent(HTML + b"\r\nabc"), FetchLimits(slow_s=1))) == "slow"


def raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data)[2:-4]


def pack_brotli(data: bytes) -> bytes:
    packed: bytes = pytest.importorskip("brotli").compress(data, quality=5)
    return packed


PACKERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress),
    "deflate": ("deflate", zlib.compress),
    "raw deflate": ("deflate", raw_deflate),
    "br": ("br", pack_brotli),
    "zstd": ("zstd", zstandard.compress),
    "twice": ("gzip, zstd", lambda data: zstandard.compress(gzip.compress(data))),
}


def test_every_offered_encoding_is_tried() -> None:
    assert set(ACCEPT_ENCODING.split(", ")) <= {encoding for encoding, _ in PACKERS.values()}


@cache
def zeros() -> bytes:
    return bytes(32 << 20)


@pytest.mark.parametrize("packer", PACKERS)
def test_body_is_decoded_when_the_server_packs_it(packer: str) -> None:
    encoding, pack = PACKERS[packer]
    assert ask(answer(pack(b"<p>wren</p>" * 5000), content_encoding=encoding)).body == b"<p>wren</p>" * 5000


@pytest.mark.parametrize("packer", PACKERS)
def test_failure_is_bomb_when_a_small_body_grows_without_end(packer: str) -> None:
    encoding, pack = PACKERS[packer]
    assert kind_of(ask(answer(pack(zeros()), content_encoding=encoding))) == "bomb"


def zstd_blocks(data: bytes) -> bytes:
    """With small blocks: a block that is cut cannot be decoded at all."""
    encoder = zstandard.ZstdCompressor(write_checksum=True).compressobj()
    packed = b""
    for start in range(0, len(data), 1000):
        packed += encoder.compress(data[start : start + 1000]) + encoder.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    return packed + encoder.flush()


@pytest.mark.parametrize(
    ("name", "encode"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("br", pack_brotli), ("zstd", zstd_blocks)],
)
def test_readable_part_of_a_truncated_encoding_is_a_page(name: str, encode: Callable[[bytes], bytes]) -> None:
    page = b"".join(b"<p>wren %d" % number for number in range(20_000))
    packed = encode(page)
    whole = ask(answer(packed, content_encoding=name))
    assert (whole.failure, whole.truncated, whole.body) == (None, "", page)
    for cut in (len(packed) // 2, len(packed) - 1):
        found = ask(answer(packed[:cut], content_encoding=name))
        assert (found.failure, found.truncated) == (None, "disconnect")
        assert found.body and page.startswith(found.body)
    assert b"WARC-Truncated: disconnect" in gzip.decompress(response_record(found))


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_end_of_a_zstd_stream_is_found_however_it_is_cut(pieces: int) -> None:
    skippable = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    for packed in (
        zstd_blocks(b"wren" * 5000),
        zstandard.compress(b""),
        skippable + zstandard.compress(b"a" * 300_000),
    ):
        decoder = Decoder("zstd", 1 << 20)
        for start in range(0, len(packed), pieces):
            assert start == 0 or not decoder.is_complete() or packed.startswith(skippable)
            decoder.feed(packed[start : start + pieces])
        assert decoder.is_complete()


def raw_zstd_blocks(block: bytes, count: int) -> bytes:
    """A frame with these blocks (RFC 8878, 3.1.1), none of them the last one."""
    return zstandard.compress(b"")[:4] + bytes([0, 0x58]) + block * count


EMPTY_PARTS = {
    "gzip members": ("gzip", gzip.compress(b"") * 5_000),
    "gzip members in gzip": ("gzip, gzip", gzip.compress(gzip.compress(b"") * 40_000)),
    "zstd frames": ("zstd", zstandard.compress(b"") * 20_000),
    "zstd frames in gzip": ("zstd, gzip", gzip.compress(zstandard.compress(b"") * 100_000)),
    "zstd blocks": ("zstd", raw_zstd_blocks(bytes(3), 40_000)),
}


@pytest.mark.parametrize("parts", EMPTY_PARTS)
def test_encoding_in_very_many_empty_parts_is_refused(parts: str) -> None:
    """Each part takes time; of 400,000 gzip members in gzip, 20 KB were decoded for minutes."""
    encoding, packed = EMPTY_PARTS[parts]
    assert kind_of(ask(answer(packed, content_encoding=encoding))) == "decode"


@pytest.mark.parametrize("pieces", [1_000, 100_000])
def test_encoding_in_many_parts_is_decoded(pieces: int) -> None:
    """`bgzip` and servers that flush often."""
    text = b"".join(b"<p>wren %d" % number for number in range(40_000))
    parts = [text[start : start + pieces] for start in range(0, len(text), pieces)]
    assert Decoder("gzip", 1 << 20).feed(b"".join(map(gzip.compress, parts))) == text
    assert Decoder("gzip, zstd", 1 << 20).feed(zstd_blocks(gzip.compress(text, 0))) == text


def test_body_that_decodes_to_nothing_is_received_up_to_the_limit() -> None:
    stored = b"\x00\x00\x00\xff\xff"  # an empty block of deflate
    body = zlib.compress(b"")[:2] + stored * 400_000
    assert kind_of(ask(answer(body, content_encoding="deflate"))) == "too-large"


def test_bytes_in_flight_are_bounded() -> None:
    """Each of four transfers keeps its share; what is beyond that is refused and may be tried again."""
    budget = BodyBudget(1000, 4)
    transfers = [Transfer("http://a.example/", FetchLimits(), AnyResponse(), budget) for _ in range(4)]
    for transfer in transfers:
        transfer.status = 200
        for _ in range(30):
            if transfer.on_body(b"y" * 50) is not None:
                break
    assert budget.used <= 2000
    assert [t.failure is not None and t.failure.retry for t in transfers] == [True] * 4
    for transfer in transfers:
        transfer.finish()
        transfer.release()
    assert budget.used == 0


@pytest.mark.parametrize(
    "behave",
    [
        endless(HTML + b"\r\n", b"y" * 65536),
        endless(HTML + CHUNKED, b"1000\r\n" + b"y" * 4096 + b"\r\n"),
        endless(HTML + b"Content-Length: 99999999\r\n\r\n", b"y" * 65536),
    ],
    ids=["endless", "chunks", "announced"],
)
def test_beginning_of_a_text_that_is_too_long_is_kept(behave: Behaviour) -> None:
    found = ask(behave)
    assert (found.failure, found.truncated) == (None, "length")
    assert found.body == b"y" * LIMITS.body_bytes


# A small page arrives in one piece.
@pytest.mark.parametrize("lines", [1_500, 20_000])
def test_text_before_damaged_bytes_is_kept(lines: int) -> None:
    page = b"".join(b"<p>wren %d" % i for i in range(lines))
    packed = bytearray(gzip.compress(page))
    packed[len(packed) // 2] ^= 255
    found = ask(answer(bytes(packed), content_encoding="gzip"))
    assert (found.failure, found.truncated) == (None, "unspecified")
    assert page.startswith(found.body[:1000]) and found.body


def test_part_that_was_received_is_kept_with_the_failure() -> None:
    found = ask(raw(HTML + b"Content-Length: 100\r\n\r\n<p>wren"))
    assert kind_of(found) == "truncated"
    assert found.body == b"<p>wren"


def test_documents_may_be_longer_than_pages() -> None:
    body = b"%PDF-" + b"y" * (LIMITS.body_bytes + 99)
    found = ask(answer(body, content_type="application/pdf"))
    assert (found.failure, found.truncated, found.size_bytes) == (None, "", len(body))


def test_beginning_of_a_large_robots_txt_is_kept() -> None:
    async def fetch() -> FetchResult:
        large = answer(b"User-agent: *\nDisallow: /private\n" + b"# filler\n" * 1_000_000, content_type="text/plain")
        async with site({"/robots.txt": large}) as served:
            fetcher = CurlFetcher("Opilio/test", network=NetworkOptions(allow_private=True, connections=1))
            try:
                return await fetcher.fetch(served.url("/robots.txt"))
            finally:
                await fetcher.close()

    found = asyncio.run(fetch())
    assert (found.failure, found.truncated) == (None, "length")
    rules = rules_from_response(found, "opilio", 0.0)
    assert rules.allows("http://a.example/") and not rules.allows("http://a.example/private")
