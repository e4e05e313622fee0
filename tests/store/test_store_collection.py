"""Collections: created completely or not at all, one writer, damage reported in one line."""

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checks.store_checks import Pair, StoreChecks, visited
from opilio.core.errors import CollectionError
from opilio.core.records import url_key
from opilio.store import collection as collection_module
from opilio.store.collection import Collection, check_collection, collection_exists, open_readonly
from opilio.store.connection import has_writer
from opilio.store.page_selection import PageFilter, select_pages
from opilio.store.pages import copies_of
from opilio.store.revisits import RevisitStore
from opilio.store.schema import SCHEMA_VERSION
from opilio.store.warc import WarcWriter
from opilio.store.writer import CollectionWriter


class TestOnDisk(StoreChecks):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Pair]:
        collection = Collection.create(tmp_path / "c", "")
        store_writer = CollectionWriter(collection, WarcWriter(tmp_path / "c", "test"))
        store_writer.resume()
        yield collection, store_writer
        store_writer.close()
        collection.close()


class TestInMemory(StoreChecks):
    @pytest.fixture
    def store(self) -> Iterator[Pair]:
        collection = Collection.in_memory()
        yield collection, CollectionWriter(collection, None)
        collection.close()


def made(folder: Path) -> Path:
    Collection.create(folder, "strategy = 's0'\n").close()
    return folder


def test_collection_is_there_with_its_settings_when_made(tmp_path: Path) -> None:
    made(tmp_path / "deep" / "c")
    assert collection_exists(tmp_path / "deep" / "c")
    with open_readonly(tmp_path / "deep" / "c") as collection:
        assert collection.config == "strategy = 's0'\n"
    assert sorted(p.name for p in (tmp_path / "deep" / "c").iterdir()) == [
        "checksums.json",
        "crawl.db",
        "crawl.lock",
        "crawl.toml",
    ]


@pytest.mark.parametrize("name", ["notes.txt", "crawl.toml", "crawl.db.part"])
def test_folder_with_other_files_is_refused_and_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(CollectionError, match="is not empty and not a collection"):
        Collection.create(tmp_path, "")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {name: "mine"}


def test_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")
    with pytest.raises(CollectionError, match="is a file"):
        Collection.create(tmp_path / "c", "")
    with pytest.raises(CollectionError, match="can't make a collection here: Not a directory"):
        Collection.create(tmp_path / "c" / "d", "")


def test_second_writer_is_refused_and_readers_are_not(tmp_path: Path) -> None:
    first = Collection.create(tmp_path / "c", "")
    assert has_writer(tmp_path / "c")
    with pytest.raises(CollectionError, match="another crawl is writing"):
        Collection.open_for_writing(tmp_path / "c")
    with open_readonly(tmp_path / "c") as reader:
        assert reader.meta("state") == ""
    first.close()
    assert not has_writer(tmp_path / "c")
    Collection.open_for_writing(tmp_path / "c").close()


def test_reader_sees_one_moment_during_a_write(tmp_path: Path) -> None:
    writer = Collection.create(tmp_path / "c", "")
    with open_readonly(tmp_path / "c") as reader:
        assert reader.meta("state") == ""
        with writer.unit_of_work():
            writer.set_meta(state="running")
        assert reader.meta("state") == ""
    with open_readonly(tmp_path / "c") as reader:
        assert reader.meta("state") == "running"
    writer.close()


def test_copies_of_a_page_are_found_without_reading_every_page() -> None:
    with closing(Collection.in_memory()) as collection:
        writer = CollectionWriter(collection, None)
        original = url_key("http://a.example/1")
        with collection.unit_of_work():
            writer.write_outcomes([visited("1"), visited("2", duplicate_of=original)])
        db = collection.connection
        assert isinstance(db, sqlite3.Connection)
        statements: list[str] = []
        db.set_trace_callback(statements.append)
        assert copies_of(db, original, 9) == [("http://a.example/2", False)]
        assert RevisitStore(db).copy_keys(original) == [url_key("http://a.example/2")]
        (page,) = select_pages(collection, PageFilter(url="http://a.example/1"))
        assert page.values["aliases"] == "http://a.example/2"
        db.set_trace_callback(None)
        plans = [row[3] for sql in statements for row in db.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert [plan for plan in plans if plan.startswith("SCAN page ") or plan == "SCAN page"] == []


def test_reader_can_not_write(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="readonly"), open_readonly(made(tmp_path / "c")) as collection:
        collection.set_meta(state="x")


def test_folder_without_a_collection_is_reported(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="not a collection"):
        check_collection(tmp_path / "nowhere")


def test_newer_collection_is_refused_and_left_alone(tmp_path: Path) -> None:
    database = made(tmp_path / "c") / "crawl.db"
    connection = sqlite3.connect(database)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    before = database.read_bytes()
    with pytest.raises(CollectionError, match="newer Opilio"):
        Collection.open_for_writing(tmp_path / "c")
    assert database.read_bytes() == before


def test_database_of_another_program_is_refused(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "crawl.db")
    connection.execute("CREATE TABLE meta (x)")
    connection.close()
    with pytest.raises(CollectionError, match="was not made by Opilio"):
        Collection.open_for_writing(tmp_path)


@pytest.mark.parametrize("head", [b"", b"SQLite", b"no database at all" * 20])
def test_destroyed_header_is_reported(tmp_path: Path, head: bytes) -> None:
    (made(tmp_path / "c") / "crawl.db").write_bytes(head)
    with pytest.raises(CollectionError, match="no SQLite header"):
        Collection.open_for_reading(tmp_path / "c")


def test_destroyed_pages_are_reported(tmp_path: Path) -> None:
    database = made(tmp_path / "c") / "crawl.db"
    size = database.stat().st_size
    database.write_bytes(database.read_bytes()[:4096] + random.Random(1).randbytes(size - 4096))
    with pytest.raises(CollectionError, match="can't be used"), open_readonly(tmp_path / "c") as collection:
        collection.connection.execute("SELECT * FROM page").fetchall()


def test_collection_is_created_while_another_process_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page or `status` that waits for a crawl to begin may read the database before its maker opens it."""
    connect = collection_module.connect  # type: ignore[attr-defined]

    def looked_at(path: Path) -> sqlite3.Connection:
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert reader.execute("SELECT count(*) FROM page").fetchone() == (0,)
            return connect(path)

    monkeypatch.setattr(collection_module, "connect", looked_at)
    Collection.create(tmp_path / "c", "").close()
    assert {path.name for path in (tmp_path / "c").iterdir()} >= {"crawl.db", "crawl.toml"}
