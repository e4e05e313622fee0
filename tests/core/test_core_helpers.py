"""The helpers that every package shares: files, dates, bounded mappings, URLs of users."""

from pathlib import Path

import pytest

from opilio.core.caches import evict_oldest
from opilio.core.clock import parse_date, parse_http_date
from opilio.core.errors import ConfigError, TopicError, UsageError
from opilio.core.files import atomic_writer, read_text, write_atomically
from opilio.core.urls import require_url


def test_read_text_removes_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbfwren")
    assert read_text(path) == "wren"


def test_read_text_names_the_option_and_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--file .*missing\.txt: can't be read: No such file"):
        read_text(tmp_path / "missing.txt", "--file")
    (tmp_path / "a.txt").write_bytes(b"caf\xe9")
    with pytest.raises(TopicError, match=r"a\.txt: is not UTF-8 text \(byte 3\); save it as UTF-8"):
        read_text(tmp_path / "a.txt", error=TopicError)


def test_atomic_write_replaces_the_file_and_leaves_no_part(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    write_atomically(path, b"old")
    with pytest.raises(ValueError, match="stop"), atomic_writer(path) as file:
        file.write(b"half")
        raise ValueError("stop")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01", 0.0),
        ("Thu, 01 Jan 1970 00:00:30 GMT", 30.0),
        ("Thu, 01 Jan 1970 00:00:30 -0000", 30.0),
        ("soon", None),
        ("", None),
        ("Mon, 99 Zzz", None),
    ],
)
def test_dates_are_seconds_in_utc(text: str, seconds: float | None) -> None:
    assert parse_date(text) == seconds


def test_http_date_is_no_iso_date() -> None:
    assert parse_http_date("2026-01-31") is None


def test_evict_oldest_keeps_the_newest() -> None:
    entries = {n: n for n in range(5)}
    assert evict_oldest(entries, 2) == [0, 1, 2]
    assert list(entries) == [3, 4]
    assert evict_oldest(entries, 2) == []


def test_require_url_gives_the_canonical_url_or_an_error() -> None:
    assert require_url("HTTP://Example.org") == "http://example.org/"
    with pytest.raises(UsageError, match=r"seed 'foo': not a valid http\(s\) URL; include the scheme, for example"):
        require_url("foo", "seed")
