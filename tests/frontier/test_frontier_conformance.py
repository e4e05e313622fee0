"""Both frontiers pass the shared checks; the one on SQLite also with a front that holds next to nothing."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.schema import create_frontier_tables
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.testing.frontier import FrontierChecks
from opilio.testing.leases import Make


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)
    opened.execute("PRAGMA journal_mode = WAL")
    opened.execute("PRAGMA synchronous = OFF")
    create_frontier_tables(opened, bounded=True)
    yield opened
    opened.close()


class TestMemoryFrontier(FrontierChecks):
    @pytest.fixture
    def make(self) -> Make:
        return MemoryFrontier


class TestSqliteFrontier(FrontierChecks):
    @pytest.fixture
    def make(self, connection: sqlite3.Connection) -> Make:
        return lambda policy: SqliteFrontier(connection, policy)


class TestSqliteFrontierWithTinyCaches(FrontierChecks):
    @pytest.fixture
    def make(self, connection: sqlite3.Connection) -> Make:
        return lambda policy: SqliteFrontier(connection, policy, front_size=2, host_cache=1)
