"""Collections made by the version before: opened, read, resumed. `collections/version2.tar.xz` was made by it."""

import asyncio
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from checks.store_checks import visited
from opilio.core.protocols import Database
from opilio.core.records import Tier
from opilio.engine.wiring.session import resume_crawl
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.frontier.sqlite.urls import best_urls
from opilio.manage.merge import merge
from opilio.manage.pages import PageTable
from opilio.manage.why import why
from opilio.store.collection import Collection, open_readonly
from opilio.store.page_selection import PageFilter
from opilio.store.schema import NOT_RECORDED, SCHEMA_VERSION
from opilio.store.writer import CollectionWriter

ARCHIVE = Path(__file__).parent / "collections" / "version2.tar.xz"
SITE = "http://127.0.0.1:8765"
QUEUE = [("p5.html", Tier.REVISIT, 1.5), ("p4.html", Tier.BOOSTED, 8.0), ("p2.html", Tier.LINK, None)]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def queue(connection: Database) -> list[tuple[str, int, float | None]]:
    entries = list(best_urls(connection, 3))
    known = [None if tier == Tier.LINK else priority for tier, priority in ((e.lead.tier, e.priority) for e in entries)]
    return [(e.lead.url.rsplit("/", 1)[1], e.lead.tier, p) for e, p in zip(entries, known, strict=True)]


def events(connection: Database) -> set[str]:
    return {kind for (kind,) in connection.execute("SELECT json_extract(data, '$.type') FROM event")}


def test_older_collection_is_read_as_a_current_one_and_not_changed(old: Path) -> None:
    before = (old / "plain" / "crawl.db").read_bytes()
    with open_readonly(old / "plain") as collection:
        assert queue(collection.connection) == QUEUE
        assert {"CommandApplied", "PageRemoved", "PageLabeled"} <= events(collection.connection)
        kinds = {kind for (kind,) in collection.connection.execute("SELECT kind FROM event")}
        assert kinds == events(collection.connection)
    assert (old / "plain" / "crawl.db").read_bytes() == before
    assert why(old / "plain", f"{SITE}/p2.html")


def test_older_collection_is_upgraded_when_it_is_opened_for_writing(old: Path) -> None:
    collection = Collection.open_for_writing(old / "plain")
    frontier = SqliteFrontier(collection.connection)
    assert collection.connection.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    assert queue(collection.connection) == QUEUE
    assert {"CommandApplied", "PageRemoved", "PageLabeled"} <= events(collection.connection)
    with collection.unit_of_work():
        leases = frontier.lease(1e12, 2, 3, 60.0)
    assert [lead.url.rsplit("/", 1)[1] for lead in leases[0].leads] == ["p5.html", "p4.html", "p2.html"]
    collection.close()


def test_urls_of_older_agents_keep_their_agent(old: Path) -> None:
    with open_readonly(old / "agents") as collection:
        seen = {e.lead.url: (e.lead.agent, e.lead.features) for e in best_urls(collection.connection, 99)}
    collection = Collection.open_for_writing(old / "agents")
    upgraded = {e.lead.url: (e.lead.agent, e.lead.features) for e in best_urls(collection.connection, 99)}
    names = dict(collection.connection.execute("SELECT number, name FROM agent").fetchall())
    collection.close()
    assert seen == upgraded
    assert upgraded and all(agent in names for agent, _ in upgraded.values())


@pytest.mark.parametrize("name", ["plain", "agents"])
def test_older_crawl_goes_on(old: Path, name: str) -> None:
    # No server answers at its site any more: the crawl starts, finds that out, and stops cleanly.
    async def crawl() -> None:
        async with resume_crawl(old / name, {"stop": {"pages": 9, "patience_s": 0.0}}) as session:
            await session.engine.run()

    asyncio.run(crawl())
    with open_readonly(old / name) as collection:
        assert collection.meta("state") == "stopped"


def test_older_collections_can_be_merged(old: Path) -> None:
    result = merge([old / "plain", old / "agents"], old / "both", 2e9)
    assert result.pages >= 5


def test_signals_of_an_older_collection_are_read_from_its_records(old: Path) -> None:
    pages = list(PageTable(old / "plain", PageFilter()))
    assert {page.values["signals"] for page in pages} == {NOT_RECORDED}
    assert all(page.allows(["ai-train"]) for page in pages)
    Collection.open_for_writing(old / "plain").close()
    assert {page.values["signals"] for page in PageTable(old / "plain", PageFilter())} == {NOT_RECORDED}


# What undoes each step of the schema after version 3.
DOWNGRADES = {
    4: [f"ALTER TABLE {table} DROP COLUMN signals" for table in ("page", "version")],
    5: [
        f"ALTER TABLE {table} DROP COLUMN {column}"
        for table in ("page", "version")
        for column in ("truncated", "rendered", "needs_browser")
    ],
    6: [f"DROP TABLE {table}" for table in ("page_tag", "page_note", "list_page", "saved_search")],
}


def columns(connection: Database) -> dict[str, set[str]]:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name: {row[1] for row in connection.execute(f"PRAGMA table_info({name})")} for (name,) in tables}


@pytest.mark.parametrize("version", range(3, SCHEMA_VERSION))
def test_collection_of_every_later_schema_is_read_and_upgraded(tmp_path: Path, version: int) -> None:
    folder = tmp_path / "c"
    collection = Collection.create(folder, "")
    with collection.unit_of_work():
        CollectionWriter(collection, None).write_outcomes([visited("1")])
    current = columns(collection.connection)
    collection.close()
    (folder / "checksums.json").unlink()  # it is of the current schema
    with closing(sqlite3.connect(folder / "crawl.db", isolation_level=None)) as database:
        for step in range(SCHEMA_VERSION, version, -1):
            for statement in DOWNGRADES[step]:
                database.execute(statement)
        database.execute(f"PRAGMA user_version = {version}")
        assert columns(database) != current

    def stored() -> list[tuple[str, str, bool]]:
        pages = PageTable(folder, PageFilter())
        return [(page.url, page.values["truncated"], page.values["rendered"]) for page in pages]

    assert stored() == [("http://a.example/1", "", False)]
    collection = Collection.open_for_writing(folder)
    assert columns(collection.connection) == current
    collection.close()
    assert stored() == [("http://a.example/1", "", False)]
