"""Frontier and content-seen test on PostgreSQL pass the same checks as those in memory and on SQLite."""

import pytest

from opilio.core.protocols import DuplicateDetector
from opilio.dedup import DEDUP_TABLES, StoredDuplicateDetector
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.frontier.schema import create_postgres_frontier
from opilio.store.postgres.connection import PostgresConnection
from opilio.store.postgres.schema import to_postgres
from opilio.testing.frontier import FrontierChecks
from opilio.testing.leases import Make
from opilio.testing.stages import ContentSeenChecks


class TestPostgresFrontier(FrontierChecks):
    @pytest.fixture
    def make(self, connection: PostgresConnection) -> Make:
        create_postgres_frontier(connection, bounded=True)
        return lambda policy: PostgresFrontier(connection, policy)


class TestPostgresContentSeen(ContentSeenChecks):
    @pytest.fixture(autouse=True)
    def _tables(self, connection: PostgresConnection) -> None:
        for statement in DEDUP_TABLES:
            connection.execute(to_postgres(statement)[0])

    @pytest.fixture
    def exact(self, connection: PostgresConnection) -> DuplicateDetector:
        return StoredDuplicateDetector(connection)

    @pytest.fixture
    def near(self, connection: PostgresConnection) -> DuplicateDetector:
        return StoredDuplicateDetector(connection, near=True)
