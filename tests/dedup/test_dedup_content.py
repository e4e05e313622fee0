import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from opilio.core.protocols import DuplicateDetector
from opilio.dedup import MemoryDuplicateDetector, StoredDuplicateDetector, create_dedup_tables
from opilio.testing.stages import ContentSeenChecks


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    create_dedup_tables(opened)
    yield opened
    opened.close()


class TestMemoryContentSeen(ContentSeenChecks):
    @pytest.fixture
    def exact(self) -> DuplicateDetector:
        return MemoryDuplicateDetector()

    @pytest.fixture
    def near(self) -> DuplicateDetector:
        return MemoryDuplicateDetector(near=True)


class TestSqliteContentSeen(ContentSeenChecks):
    @pytest.fixture
    def exact(self, connection: sqlite3.Connection) -> DuplicateDetector:
        return StoredDuplicateDetector(connection)

    @pytest.fixture
    def near(self, connection: sqlite3.Connection) -> DuplicateDetector:
        return StoredDuplicateDetector(connection, near=True)


def test_sqlite_content_seen_survives_restart_s4_15(tmp_path: Path) -> None:
    first = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    create_dedup_tables(first)
    StoredDuplicateDetector(first, near=True).find_original(1, 100, 0xABCDEF)
    first.close()
    second = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    create_dedup_tables(second)
    seen = StoredDuplicateDetector(second, near=True)
    assert seen.find_original(2, 100, 0) == (1, False)
    assert seen.find_original(3, 101, 0xABCDEE) == (1, True)
    second.close()


def test_sqlite_content_seen_forgets_what_was_rolled_back(connection: sqlite3.Connection) -> None:
    seen = StoredDuplicateDetector(connection)
    connection.execute("BEGIN IMMEDIATE")
    seen.find_original(1, 100, 0)
    connection.execute("ROLLBACK")
    assert seen.find_original(2, 100, 0) is None


def test_wider_distance_is_configurable() -> None:
    seen = MemoryDuplicateDetector(near=True, max_distance=6)
    seen.find_original(1, 100, 1 << 60)
    assert seen.find_original(2, 101, (1 << 60) | 0b111111) == (1, True)
