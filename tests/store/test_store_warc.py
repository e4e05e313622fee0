"""WARC files: written, rotated, cut, resumed; read back by us, by warcio and by fastwarc."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from warcio.archiveiterator import ArchiveIterator

from checks.killing import urls_in_warc
from opilio.core.errors import CollectionError
from opilio.core.records import FetchResult
from opilio.core.warc import parse_http, parse_member, payload_digest
from opilio.store.warc import (
    WarcWriter,
    read_record,
    response_record,
    warc_name,
)

AT = 1_700_000_000.5


def fetched(n: int = 1, body: bytes = b"<p>wren</p>", headers: tuple[tuple[str, str], ...] = ()) -> FetchResult:
    kind = (("Content-Type", "text/html"),)
    return FetchResult(
        url=f"http://a.example/{n}", status=200, headers=kind + headers, body=body, started_at=AT, address="192.0.2.7"
    )


def writer(folder: Path, number: int = 1, offset: int = 0, rotate: int = 1 << 30) -> WarcWriter:
    made = WarcWriter(folder, "Opilio/test", rotate)
    made.resume(number, offset)
    return made


def test_record_has_the_right_headers_when_read_by_warcio(tmp_path: Path) -> None:
    warc = writer(tmp_path)
    warc.append(response_record(fetched(headers=(("Content-Encoding", "gzip"), ("X-Ümlaut", "é\r\nb")))), AT)
    warc.close()
    with (tmp_path / warc_name(1)).open("rb") as file:
        info, record = list(_entries(file))
    assert info["WARC-Type"] == "warcinfo"
    assert info["WARC-Filename"] == warc_name(1)
    assert record["WARC-Type"] == "response"
    assert record["WARC-Target-URI"] == "http://a.example/1"
    assert record["WARC-Date"] == "2023-11-14T22:13:20.500000Z"
    assert record["WARC-IP-Address"] == "192.0.2.7"
    assert record["WARC-Payload-Digest"] == payload_digest(b"<p>wren</p>")
    assert record["Content-Type"].startswith("application/http")
    assert "content-encoding" not in record  # the stored body is decoded
    assert record["http Content-Length"] == "11"


def _entries(file: object) -> list[dict[str, str]]:
    found = []
    for entry in ArchiveIterator(file, check_digests="raise"):
        http = entry.http_headers.headers if entry.http_headers else []
        found.append(dict(entry.rec_headers.headers) | {f"http {k}": v for k, v in http})
        entry.content_stream().read()
    return found


@given(st.binary(max_size=300), st.lists(st.tuples(st.text(max_size=9), st.text(max_size=30)), max_size=4))
def test_answer_is_read_back_as_it_was(body: bytes, headers: list[tuple[str, str]]) -> None:
    """Whatever strangers send: the record stays whole and the body the same."""
    fields, block = parse_member(response_record(fetched(1, body, tuple(headers))))
    assert parse_http(block).body == body
    assert fields["warc-payload-digest"] == payload_digest(body)


def test_record_is_found_again_where_append_said(tmp_path: Path) -> None:
    warc = writer(tmp_path)
    places = [warc.append(response_record(fetched(n, b"x" * n)), AT) for n in range(1, 20)]
    warc.close()
    for n, place in enumerate(places, 1):
        found = read_record(tmp_path, *place)
        assert (found.url, found.body, found.status, found.started_at, found.address) == (
            f"http://a.example/{n}", b"x" * n, 200, AT, "192.0.2.7"
        )  # fmt: skip


def test_file_is_followed_by_a_new_one_when_it_has_grown(tmp_path: Path) -> None:
    warc = writer(tmp_path, rotate=1500)
    numbers = [warc.append(response_record(fetched(n)), AT)[0] for n in range(12)]
    warc.close()
    assert numbers == sorted(numbers)
    assert numbers[-1] > 2
    assert urls_in_warc(tmp_path) == sorted(f"http://a.example/{n}" for n in range(12))


@pytest.mark.parametrize("kept", [0, 1, 3, 5])
def test_everything_behind_the_commit_is_cut_when_resumed(tmp_path: Path, kept: int) -> None:
    warc = writer(tmp_path, rotate=1000)
    position = warc.position
    for n in range(6):
        warc.append(response_record(fetched(n)), AT)
        if n + 1 == kept:
            position = warc.position
    warc.close()
    again = writer(tmp_path, *position, rotate=1000)
    again.append(response_record(fetched(99)), AT)
    again.close()
    assert urls_in_warc(tmp_path) == sorted(f"http://a.example/{n}" for n in [*range(kept), 99])


def test_resume_is_refused_when_the_file_is_shorter_than_the_commit(tmp_path: Path) -> None:
    (tmp_path / warc_name(2)).write_bytes(b"later")
    with pytest.raises(CollectionError, match="10 bytes are missing"):
        writer(tmp_path, 1, 10)
    assert (tmp_path / warc_name(2)).exists(), "nothing is deleted before it is clear that we may"


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_damaged_record_is_reported(tmp_path: Path, damage: str) -> None:
    warc = writer(tmp_path)
    number, offset, length = warc.append(response_record(fetched()), AT)
    warc.close()
    path = tmp_path / warc_name(1)
    data = bytearray(path.read_bytes())
    data[offset + length // 2] ^= 0xFF
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(data if damage == "flipped" else data[: offset + 20])
    with pytest.raises(CollectionError, match="run 'opilio maintain verify'"):
        read_record(tmp_path, number, offset, length)
