"""Archives as a web: WARC files, compressed or not, and WACZ files, whole or damaged."""

import asyncio
import gzip
import io
import os
import random
import re
import struct
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from checks.killing import write_archive
from checks.small_webs import BIRDS, crawl, grid, opilio, page, redirect, robots, rows, stored, word
from opilio.core.errors import OfflineWebError
from opilio.core.events import BatchCommitted
from opilio.core.records import FetchResult
from opilio.core.settings import BrowserSettings, FetchSettings, Settings, Tree
from opilio.core.warc import scan_records
from opilio.engine.wiring.fetcher import build_browser, build_fetcher
from opilio.fetch.archive import ArchiveFetcher, ArchiveWeb
from opilio.manage.status import collection_status
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.store.warc import info_record, response_record

ROOT = "http://a.example/"
AT = 1_600_000_000.0
WEB = {
    ROOT: page(BIRDS, ["/wren", "/old", "/absent", "/secret/x"]),
    f"{ROOT}wren": page(f"{BIRDS} {word(1)}"),
    f"{ROOT}old": redirect("/new"),
    f"{ROOT}new": page(f"{BIRDS} {word(2)}"),
    f"{ROOT}secret/x": page(f"{BIRDS} {word(3)}"),
    f"{ROOT}robots.txt": robots("User-agent: *\nDisallow: /secret/\nCrawl-delay: 20\n"),
}


def records(extra: bytes = b"") -> bytes:
    members = [info_record("x.warc.gz", "test", AT)]
    for url, r in WEB.items():
        members.append(
            response_record(FetchResult(url=url, status=r.status, headers=r.headers, body=r.body, started_at=AT))
        )
    return b"".join([*members[:3], extra, *members[3:]])


def uncompressed() -> bytes:
    return gzip.decompress(records())


def wacz(compression: int) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        archive.writestr("pages/pages.jsonl", "{}")
        archive.writestr("archive/data.warc.gz", records())
    return out.getvalue()


FORMS: dict[str, Callable[[], bytes]] = {
    "x.warc.gz": records,
    "x.warc": uncompressed,
    "stored.wacz": lambda: wacz(zipfile.ZIP_STORED),
    "packed.wacz": lambda: wacz(zipfile.ZIP_DEFLATED),
    "damaged.warc.gz": lambda: records(b"\x1f\x8b\x08 damaged"),
}


@pytest.mark.parametrize("name", FORMS)
def test_responses_are_found_in_every_form_of_archive(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMS[name]())
    web = ArchiveWeb([tmp_path / name])
    assert len(web) == len(WEB)
    found = web.find(f"{ROOT}wren")
    assert found is not None
    assert (found.status, found.body, found.started_at) == (200, WEB[f"{ROOT}wren"].body, AT)
    moved = web.find(f"{ROOT}old")
    assert moved is not None
    assert moved.location == f"{ROOT}new"
    assert asyncio.run(ArchiveFetcher(web).fetch(f"{ROOT}absent")).status == 404
    assert web.home_pages(2) == [ROOT, f"{ROOT}new"]


def test_archive_that_did_not_change_is_not_scanned_again(tmp_path: Path) -> None:
    path, cache = tmp_path / "x.warc.gz", tmp_path / "cache"
    pages = [FetchResult(url=f"{ROOT}{n}", status=200, body=b"<p>wren", started_at=AT) for n in range(600)]
    path.write_bytes(b"".join(map(response_record, pages)))
    before, data = path.stat(), path.read_bytes()
    found = ArchiveWeb([path], cache).find(f"{ROOT}599")
    assert found is not None
    (index,) = cache.iterdir()
    # The same size and time, so the index is valid although the first records are not.
    path.write_bytes(b"x" * 9_000 + data[9_000:])
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (len(again := ArchiveWeb([path], cache)), again.find(f"{ROOT}599")) == (600, found)
    saved = index.read_bytes()
    flipped = (saved[:at] + bytes([saved[at] ^ 1]) + saved[at + 1 :] for at in (3, len(saved) // 3, len(saved) - 5_000))
    for damage in (b"damaged", saved[:-4], *flipped):
        index.write_bytes(damage)
        assert 0 < len(ArchiveWeb([path], cache)) < 600
    index.unlink()
    os.utime(path)
    # The second time from the index of the first.
    twice = ArchiveWeb([path, path], cache)
    assert 0 < len(twice) < 600
    assert twice.problems == [f"{path}: damaged (unreadable from byte 0); the other records are read"] * 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "can't be read as WARC or WACZ: the file is empty"),
        (b"hello", "no response"),
        (b"PK broken", "can't be read"),
        (None, "can't be read"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "x.warc.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(OfflineWebError, match=message):
        ArchiveWeb([path])


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_damaged_wacz_is_read_or_refused(tmp_path: Path, compression: int) -> None:
    whole, path, refused = wacz(compression), tmp_path / "x.wacz", 0
    rng = random.Random(compression)
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(rng.choice((1, 3, 20))):
            damaged[rng.choice((rng.randrange(len(whole)), -rng.randrange(1, 250)))] ^= rng.randrange(1, 256)
        path.write_bytes(damaged)
        try:
            ArchiveWeb([path])
        except OfflineWebError as error:
            refused += str(path) in str(error)
    assert refused


def test_wacz_that_unpacks_to_very_much_is_refused(tmp_path: Path) -> None:
    """The size is changed where the archive states it."""
    size, path = len(records()).to_bytes(4, "little"), tmp_path / "x.wacz"
    path.write_bytes(wacz(zipfile.ZIP_DEFLATED).replace(size, (3 << 30).to_bytes(4, "little")))
    with pytest.raises(OfflineWebError, match=r"data\.warc\.gz is packed and larger than 1 GB: store it unpacked"):
        ArchiveWeb([path])


class CountedBytes:
    """Bytes that count how many of them were read."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.read = 0

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, part: slice) -> bytes:
        found = self.data[part]
        self.read += len(found)
        return found

    def find(self, sub: bytes, start: int) -> int:
        return self.data.find(sub, start)


def stored_block(length: int) -> bytes:
    """The header of a block of a gzip member that is not compressed (RFC 1951, 3.2.4)."""
    return struct.pack("<BHH", 0, length, length ^ 0xFFFF)


def nested_members(groups: int) -> bytes:
    """Every 20 bytes a gzip member begins that contains all bytes behind it, up to the damage at the end."""
    size = 60_000
    members = (gzip.compress(b"")[:10] + stored_block(rest - 15) + b"WARC/" for rest in range(size, 0, -20))
    return groups * (stored_block(size) + b"".join(members)) + b"\xff" * 20


@pytest.mark.parametrize("groups", [1, 4])
def test_search_behind_damage_reads_in_proportion_to_the_file(groups: int) -> None:
    data = CountedBytes(nested_members(groups) + records())
    found = [record.kind for record in scan_records(data)]
    assert found[0] == "damaged"
    assert found.count("response") == len(WEB)
    assert data.read < 10 * len(data) + (8 << 20)


@pytest.mark.parametrize("length", ["9" * 5_000, "9" * 18, "-5", ""])
def test_wrong_length_of_a_record_hides_no_other(tmp_path: Path, length: str) -> None:
    wrong = re.sub(rb"(?<=\r\nContent-Length: )\d+(?=\r\n\r\nHTTP/1.1 200)", length.encode(), uncompressed(), count=1)
    (tmp_path / "x.warc").write_bytes(wrong)
    web = ArchiveWeb([tmp_path / "x.warc"])
    assert len(web) == len(WEB) - 1
    assert len(web.problems) == 1


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (records()[:-9], "truncated from byte "),
        (records(b"\x1f\x8b\x08 damaged"), "unreadable from byte "),
        (uncompressed()[:-20], "is shorter than its Content-Length"),
    ],
)
def test_damaged_archive_is_crawled_and_reported(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "x.warc").write_bytes(content)
    ended = opilio("crawl", "small birds", "--into", "c", "--quiet", "--from", "x.warc", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "x.warc: damaged (" in ended.stderr
    assert problem in ended.stderr
    assert "; the other records are read" in ended.stderr


def test_crawl_runs_over_an_archive_and_resumes(tmp_path: Path) -> None:
    (tmp_path / "x.wacz").write_bytes(wacz(zipfile.ZIP_STORED))
    run = ["crawl", "small birds", "--into", "c", "--strategy", "breadth", "--workers", "0", "--quiet"]
    first = opilio(*run, "--from", "x.wacz", "--pages", "2", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    again = opilio(*run, "--pages", "0", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    # Delays of robots.txt do not apply, its rules do.
    assert set(stored(tmp_path / "c")) == {ROOT, f"{ROOT}wren", f"{ROOT}new"}
    # Links that lead out of the archive are not queued.
    assert why(tmp_path / "c", f"{ROOT}absent").reason == "not in the archive"
    assert collection_status(tmp_path / "c").fetched == 4
    outside = opilio(*run[:3], "e", *run[4:], "--from", "x.wacz", "--seed", f"{ROOT}absent", cwd=tmp_path)
    assert (outside.returncode, "not in the archive" in outside.stderr) == (3, True), outside.stderr
    missing = opilio("crawl", "small birds", "--into", "d", "--from", "none.warc.gz", cwd=tmp_path)
    assert (missing.returncode, "none.warc.gz: can't be read" in missing.stderr) == (2, True), missing.stderr
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize(("connections", "largest"), [(1, range(1, 5)), (64, range(25, 65))])
def test_pages_of_many_hosts_are_committed_together(tmp_path: Path, connections: int, largest: range) -> None:
    """As in archives of Common Crawl: few pages of each host. A commit for each of them would take most of the time."""
    web = grid(hosts=64, pages=1)
    write_archive(tmp_path / "x.warc.gz", web)
    tree: Tree = {
        "strategy": "breadth",
        "topic": {"name": "small birds"},
        "seeds": {"urls": list(web)},
        "fetch": {"archives": [str(tmp_path / "x.warc.gz")]},
        "engine": {"workers": 0, "connections": connections},
    }
    sizes: list[int] = []
    crawl(tmp_path / "c", tree, lambda e: sizes.append(len(e.outcomes)) if isinstance(e, BatchCommitted) else None)
    assert (sum(sizes), max(sizes) in largest) == (64, True), sizes
    assert rows(tmp_path / "c", "SELECT count(*) FROM robots") == [(64,)]
    assert len(rows(tmp_path / "c", "SELECT 1 FROM event WHERE kind = 'RobotsRead'")) == 64


def test_requests_of_a_browser_are_answered_from_the_archive(tmp_path: Path) -> None:
    (tmp_path / "x.warc.gz").write_bytes(records())
    settings = Settings(fetch=FetchSettings(archives=[str(tmp_path / "x.warc.gz")]))
    with_browser = replace(settings, browser=BrowserSettings(on=True, path=sys.executable))
    fetcher = build_fetcher(with_browser)
    assert build_browser(with_browser, fetcher).fetcher is fetcher


def test_records_are_copied_as_they_are_unless_their_body_is_encoded(tmp_path: Path) -> None:
    body = WEB[ROOT].body
    record = response_record(FetchResult(url=ROOT, status=200, headers=WEB[ROOT].headers, body=body, started_at=AT))
    packed = gzip.compress(body)
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n\r\n" + packed
    head = f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {ROOT}packed\r\nContent-Type: application/http\r\n"
    other = gzip.compress(head.encode() + f"Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n")
    (tmp_path / "x.warc.gz").write_bytes(record + other)
    web = ArchiveWeb([tmp_path / "x.warc.gz"])
    found = {url: web.find(url) for url in (ROOT, f"{ROOT}packed")}
    assert [(r.body, response_record(r) == record) for r in found.values() if r is not None] == [
        (body, True),
        (body, False),
    ]
    run = ["crawl", "small birds", "--into", "c", "--workers", "1", "--quiet", "--from", "x.warc.gz"]
    assert opilio(*run, "--seed", ROOT, cwd=tmp_path).returncode == 0
    assert record in (tmp_path / "c" / "pages-00001.warc.gz").read_bytes()
    assert verify(tmp_path / "c") == []
