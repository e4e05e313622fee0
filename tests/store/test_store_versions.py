"""Versions: what was replaced stays, in order (S2-F6)."""

import sqlite3
from collections.abc import Iterator
from math import inf
from pathlib import Path

import msgspec
import pytest

from checks.store_checks import visited
from opilio.core.records import Outcome, PageChange, url_key
from opilio.store.collection import Collection, open_readonly
from opilio.store.schema import SCHEMA_VERSION
from opilio.store.versions import follow_moves, list_versions, read_stored_response
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter

KEY = url_key("http://a.example/1")


def seen(path: str, when: float, fate: PageChange = PageChange.NEW, title: str = "") -> Outcome:
    outcome = visited(path)
    analysis = msgspec.structs.replace(outcome.analysis, title=title or path) if outcome.analysis else None
    fetched = msgspec.structs.replace(outcome.fetched, started_at=when)
    if fate in (PageChange.GONE, PageChange.MOVED):
        analysis, fetched = None, msgspec.structs.replace(fetched, status=404)
    return msgspec.structs.replace(outcome, analysis=analysis, fetched=fetched, change=fate)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[Collection, CollectionWriter]]:
    collection = Collection.create(tmp_path / "c", "")
    writer = CollectionWriter(collection, WarcWriter(tmp_path / "c", "test"))
    writer.resume()
    yield collection, writer
    writer.close()
    collection.close()


def kept(store: tuple[Collection, CollectionWriter], *outcomes: Outcome) -> None:
    with store[0].unit_of_work():
        store[1].write_outcomes(list(outcomes))


def test_older_version_is_kept_when_a_page_has_changed_s2_f6(store: tuple[Collection, CollectionWriter]) -> None:
    for number, when in enumerate((10.0, 20.0, 30.0)):
        kept(store, seen("1", when, PageChange.CHANGED if number else PageChange.NEW, f"v{number}"))
    found = list_versions(store[0], KEY)
    assert [(v.title, v.fetched_at, v.until, v.cause) for v in found] == [
        ("v0", 10.0, 20.0, "changed"),
        ("v1", 20.0, 30.0, "changed"),
        ("v2", 30.0, inf, ""),
    ]
    assert all(read_stored_response(store[0], v) is not None for v in found)
    assert (store[1].counts.pages, store[1].counts.relevant, store[1].counts.fetched) == (1, 1, 3)


def test_page_that_came_back_keeps_its_past_version(store: tuple[Collection, CollectionWriter]) -> None:
    kept(store, seen("1", 10.0))
    kept(store, seen("1", 20.0, PageChange.GONE))
    kept(store, seen("1", 30.0))
    found = list_versions(store[0], KEY)
    assert [(v.fetched_at, v.until, v.cause) for v in found] == [(10.0, 20.0, "gone"), (30.0, inf, "")]


def test_history_goes_with_a_page_that_moved_twice(store: tuple[Collection, CollectionWriter]) -> None:
    keys = [url_key(f"http://a.example/{n}") for n in (1, 2, 3)]
    for number in (1, 2, 3):
        kept(store, seen(str(number), 10.0 * number))
        if number < 3:
            kept(store, seen(str(number), 10.0 * number + 5, PageChange.MOVED))
            store[0].connection.execute("INSERT INTO move VALUES (?, ?, 0)", (keys[number - 1], keys[number]))
    assert [v.title for v in list_versions(store[0], keys[2])] == ["1", "2", "3"]
    assert follow_moves(store[0], keys[0]) == keys[2]


def test_version_does_not_end_before_it_began_when_the_clock_is_set_back(
    store: tuple[Collection, CollectionWriter],
) -> None:
    kept(store, seen("1", 100.0))
    kept(store, seen("1", 50.0, PageChange.CHANGED, "new"))
    old = next(v for v in list_versions(store[0], KEY) if v.cause)
    assert (old.fetched_at, old.until) == (100.0, 100.0)


def test_unchanged_page_keeps_its_row_and_takes_the_new_marks(store: tuple[Collection, CollectionWriter]) -> None:
    kept(store, seen("1", 10.0))
    again = seen("1", 20.0, PageChange.UNCHANGED)
    fetched = msgspec.structs.replace(again.fetched, headers=(("ETag", '"2"'),))
    kept(store, msgspec.structs.replace(again, fetched=fetched))
    row = store[0].connection.execute("SELECT seq, etag, fetched_at FROM page").fetchall()
    assert row == [(1, '"2"', 10.0)]


def test_older_collection_is_read_as_it_is_and_completed_when_written_to(tmp_path: Path) -> None:
    Collection.create(tmp_path / "c", "").close()
    # Older versions wrote no checksums.
    (tmp_path / "c" / "checksums.json").unlink()
    database = sqlite3.connect(tmp_path / "c" / "crawl.db")
    for table in ("version", "move", "revisit", "tip", "empty_text", "notice", "label"):
        database.execute(f"DROP TABLE {table}")
    database.execute("PRAGMA user_version = 1")
    database.close()
    with open_readonly(tmp_path / "c") as old:
        assert list_versions(old, KEY) == []
    with sqlite3.connect(tmp_path / "c" / "crawl.db") as untouched:
        assert untouched.execute("PRAGMA user_version").fetchone() == (1,)
    untouched.close()
    Collection.open_for_writing(tmp_path / "c").close()
    with open_readonly(tmp_path / "c") as new:
        assert new.connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
        assert new.connection.execute("SELECT name FROM sqlite_temp_master").fetchall() == []
