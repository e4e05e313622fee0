"""WARC records in object storage: the same checks for S3 and for a folder."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checks.object_stores import LocalObjects, Vanishing, running_s3
from checks.small_webs import SmallWeb, grid, one_line, opilio, rows, served, settings_for
from opilio.api.crawl_session import open_crawl
from opilio.core.clock import VirtualClock
from opilio.core.errors import ConfigError
from opilio.core.events import ObjectStorageChanged
from opilio.core.settings import Tree
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.compact import check_and_repair
from opilio.manage.export import export_to_file
from opilio.manage.verify import verify
from opilio.store.collection import open_readonly
from opilio.store.page_selection import PageFilter
from opilio.store.postgres.chunks import (
    MARKER_FILE,
    RETRY_S,
    ChunkMover,
    ChunkRecords,
    ChunkWriter,
    ObjectArchive,
    ObjectMissingError,
    ObjectStorage,
    ObjectsUnavailableError,
    check_address,
    create_storage,
    set_storage,
    storage_address,
    storage_facts,
    waiting_bytes,
)
from opilio.store.postgres.cluster import TRAINER, Role, RoleLostError
from opilio.store.postgres.collection import create_in_database, folder_of, open_database
from opilio.store.postgres.connection import PostgresConnection

PAGES = 20


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def s3() -> Iterator[Vanishing]:
    with running_s3() as storage:
        yield storage


def crawl_with(storage: Vanishing, place: str, web: SmallWeb | None = None) -> list[str]:
    """Crawl a small web, or resume; returns the warnings."""
    lines: list[str] = []

    async def run(tree: Tree) -> None:
        async with open_crawl(folder_of(place), tree, "test", lambda _: None, lines.append) as session:
            await session.engine.run()

    with served(web or SmallWeb(grid(4, 5))) as server:
        tree = settings_for(server, ["http://h0.example/0.html"], store={"objects": storage.address})
        asyncio.run(run(tree))
    return lines


def forget_cache(folder: Path) -> None:
    for path in folder.glob("pages-*"):
        path.unlink()


class ObjectStorageChecks:
    """What every kind of object storage does."""

    def test_objects_are_written_read_in_parts_listed_and_deleted(self, storage: Vanishing) -> None:
        objects = create_storage(storage.address)
        objects.put("a.warc.gz", b"0123456789")
        assert objects.read("a.warc.gz", 2, 3) == b"234"
        assert objects.sizes().keys() == {"a.warc.gz", MARKER_FILE}
        objects.delete(["a.warc.gz"])
        assert objects.sizes().keys() == {MARKER_FILE}

    def test_missing_and_short_objects_differ_from_storage_that_is_gone(self, storage: Vanishing) -> None:
        objects = create_storage(storage.address)
        objects.put("short", b"0123")
        for name, offset in (("none", 0), ("short", 2), ("short", 20)):
            with pytest.raises(ObjectMissingError):
                objects.read(name, offset, 4)
        storage.vanish()
        try:
            for work in (lambda: objects.read("short", 0, 4), lambda: objects.put("b", b"1"), objects.sizes):
                with pytest.raises(ObjectsUnavailableError) as found:
                    work()
                assert "\n" not in str(found.value)
        finally:
            storage.restore()
        assert objects.read("short", 0, 4) == b"0123"

    def test_pages_of_a_crawl_are_read_from_objects_by_any_machine(self, storage: Vanishing, dsn: str) -> None:
        assert crawl_with(storage, dsn) == []
        folder = folder_of(dsn)
        assert rows(folder, "SELECT count(DISTINCT object), count(data), count(*) > 0 FROM warc_chunk") == [
            (1, 0, True)
        ]
        assert verify(folder) == []
        shutil.rmtree(folder)
        assert export_to_file(folder_of(dsn), folder.parent / "out", "warc", PageFilter()) == PAGES

    def test_objects_without_a_row_are_deleted_when_no_crawl_runs(self, storage: Vanishing, dsn: str) -> None:
        crawl_with(storage, dsn)
        folder = folder_of(dsn)
        with open_readonly(folder) as collection:
            objects = ObjectStorage(storage_address(collection.connection))
        objects.put("left-behind.warc.gz", b"data")
        with closing(open_database(folder, "crawl")):
            assert verify(folder) == []
        assert verify(folder) == ["object left-behind.warc.gz: belongs to no page"]
        report = check_and_repair(folder, 1.0)
        assert (report.problems, len(report.repaired)) == ([], 1)
        assert len(objects.sizes()) == 2

    def test_pages_of_a_lost_object_are_fetched_again(self, storage: Vanishing, dsn: str) -> None:
        crawl_with(storage, dsn)
        folder = folder_of(dsn)
        with open_readonly(folder) as collection:
            objects = ObjectStorage(storage_address(collection.connection))
        objects.delete([name for name in objects.sizes() if name != MARKER_FILE])
        assert any("is missing" in line for line in verify(folder))
        report = check_and_repair(folder, 1.0, pages=True)
        assert (report.fetched_again, report.problems) == (PAGES, [])
        crawl_with(storage, dsn)
        assert verify(folder) == []
        assert rows(folder, "SELECT count(*) FROM page") == [(PAGES,)]

    def test_a_crawl_goes_on_without_storage_and_moves_pages_when_it_is_back(
        self, storage: Vanishing, dsn: str, tmp_path: Path
    ) -> None:
        folder, web = folder_of(dsn), grid(4, 5)
        seed = "http://h0.example/0.html"
        try:
            (line,) = crawl_with(storage, dsn, SmallWeb({**web, seed: once(storage.vanish, web[seed])}))
            assert storage.address in line and "until it is back" in line
            assert rows(folder, "SELECT count(data) = count(*) FROM warc_chunk") == [(True,)]
            assert export_to_file(folder, tmp_path / "out", "warc", PageFilter()) == PAGES
        finally:
            storage.restore()
        assert crawl_with(storage, dsn) == []
        assert rows(folder, "SELECT count(data) FROM warc_chunk") == [(0,)]
        assert verify(folder) == []

    def test_commands_name_storage_that_is_gone_and_change_nothing(self, storage: Vanishing, dsn: str) -> None:
        crawl_with(storage, dsn)
        folder = folder_of(dsn)
        forget_cache(folder)
        storage.vanish()
        try:
            with pytest.raises(ObjectsUnavailableError, match=r"can't|not found"):
                check_and_repair(folder, 1.0, pages=True)
            with pytest.raises(ObjectsUnavailableError):
                export_to_file(folder, folder / "out", "warc", PageFilter())
        finally:
            storage.restore()
        assert verify(folder) == []

    def test_back_pressure_ends_when_the_storage_is_back(self, storage: Vanishing, dsn: str) -> None:
        folder = folder_of(dsn)
        create_in_database(folder, "", [lambda db: set_storage(storage.address, db)]).close()
        seen: list[ObjectStorageChanged] = []

        async def run(db: PostgresConnection, role: Role) -> None:
            clock = VirtualClock()
            mover = ChunkMover(dsn, storage_address(db), role)
            archive = ObjectArchive(mover, clock, seen.append, max_waiting_bytes=5)
            for part in (b"first", b"second"):
                writer = ChunkWriter(db, "test")
                writer.append(part, 0.0)
                writer.flush()
            storage.vanish()
            try:
                while not seen:
                    archive.poll(db, 1)
                    await asyncio.sleep(0.01)
                assert archive.full
            finally:
                storage.restore()
            clock.suspend(RETRY_S + 1)
            while archive.full:
                archive.poll(db, 1)
                await asyncio.sleep(0.01)
            await archive.move_rest(db, lambda: None)
            assert waiting_bytes(db) == 0

        with closing(PostgresConnection(dsn)) as db:
            role = Role(dsn, TRAINER, "test")
            assert role.acquire(db)
            asyncio.run(run(db, role))
        assert [event.available for event in seen] == [False, True]


def test_an_object_of_a_mover_that_lost_its_role_is_deleted_by_verify(dsn: str, tmp_path: Path) -> None:
    folder = folder_of(dsn)
    address = f"file://{tmp_path}"
    create_in_database(folder, "", [lambda db: set_storage(address, db)]).close()
    with closing(PostgresConnection(dsn)) as db:
        writer = ChunkWriter(db, "test")
        writer.append(b"record", 0.0)
        writer.flush()
        late = Role(dsn, TRAINER, "late", ttl_s=0.0)
        assert late.acquire(db)
        assert Role(dsn, TRAINER, "other").acquire(db)
        objects = ObjectStorage(storage_address(db))
        with pytest.raises(RoleLostError):
            ChunkMover(dsn, objects.address, late).move(1)
        assert (len(objects.sizes()), waiting_bytes(db) > 0) == (2, True)
        assert storage_facts(dsn)["objects"].endswith("can be read")
        ChunkRecords(folder, db).delete_unused()
        assert objects.sizes().keys() == {MARKER_FILE}
        shutil.rmtree(tmp_path)
        assert "can't" in storage_facts(dsn)["objects"]


class TestLocalFolder(ObjectStorageChecks):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Vanishing:
        folder = tmp_path / "objects"
        folder.mkdir()
        return LocalObjects(folder)


class TestS3(ObjectStorageChecks):
    @pytest.fixture
    def storage(self, s3: Vanishing) -> Vanishing:
        return s3


def once(work: Callable[[], None], answer: RecordedResponse) -> Callable[[], RecordedResponse]:
    """An answer; the first request for it does something before."""
    pending = [work]

    def respond() -> RecordedResponse:
        while pending:
            pending.pop()()
        return answer

    return respond


@pytest.mark.parametrize("address", ["s3:/bucket", "http://host/folder", "file://folder/more", "file:///", "pages"])
def test_a_wrong_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="not a valid address; give s3://bucket"):
        check_address(address)


def test_object_storage_needs_postgres(tmp_path: Path) -> None:
    flags = ("--seed", "https://example.org/", "--set", "store.objects=s3://b/x", "--into", str(tmp_path / "new"))
    done = opilio("crawl", "wrens", *flags)
    assert done.returncode == 2
    assert "only for a collection in PostgreSQL" in one_line(done)
    assert not (tmp_path / "new").exists()
