"""One server for all tests of the folder; each test has a schema of its own."""

from collections.abc import Iterator

import pytest

from checks.postgres_server import PostgresServer, running_server
from opilio.store.postgres.connection import PostgresConnection


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    with running_server() as server:
        yield server


@pytest.fixture
def dsn(server: PostgresServer) -> str:
    return server.new_schema()


@pytest.fixture
def connection(dsn: str) -> Iterator[PostgresConnection]:
    opened = PostgresConnection(dsn)
    yield opened
    opened.close()
