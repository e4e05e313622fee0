import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.seen_checks import ContentSeenChecks
from opilio.model.protocols import ContentSeen
from opilio.seen.memory import MemoryContentSeen
from opilio.seen.sqlite import SqliteContentSeen, create_tables


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    create_tables(opened)
    yield opened
    opened.close()


class TestMemoryContentSeen(ContentSeenChecks):
    @pytest.fixture
    def exact(self) -> ContentSeen:
        return MemoryContentSeen()

    @pytest.fixture
    def near(self) -> ContentSeen:
        return MemoryContentSeen(near=True)


class TestSqliteContentSeen(ContentSeenChecks):
    @pytest.fixture
    def exact(self, connection: sqlite3.Connection) -> ContentSeen:
        return SqliteContentSeen(connection)

    @pytest.fixture
    def near(self, connection: sqlite3.Connection) -> ContentSeen:
        return SqliteContentSeen(connection, near=True)


def test_sqlite_content_seen_survives_restart_s4_15(tmp_path: Path) -> None:
    first = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    create_tables(first)
    SqliteContentSeen(first, near=True).original_of(1, 100, 0xABCDEF)
    first.close()
    second = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    create_tables(second)
    seen = SqliteContentSeen(second, near=True)
    assert seen.original_of(2, 100, 0) == (1, False)
    assert seen.original_of(3, 101, 0xABCDEE) == (1, True)
    second.close()


def test_sqlite_content_seen_forgets_what_was_rolled_back(connection: sqlite3.Connection) -> None:
    seen = SqliteContentSeen(connection)
    connection.execute("BEGIN IMMEDIATE")
    seen.original_of(1, 100, 0)
    connection.execute("ROLLBACK")
    assert seen.original_of(2, 100, 0) is None


def test_wider_distance_is_configurable() -> None:
    seen = MemoryContentSeen(near=True, max_distance=6)
    seen.original_of(1, 100, 1 << 60)
    assert seen.original_of(2, 101, (1 << 60) | 0b111111) == (1, True)
