"""One server for all tests of the folder; each test has a schema of its own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checks.postgres_server import PostgresServer, running_server
from opilio.core.settings import SeedSettings, Settings
from opilio.engine.wiring.session import create_collection
from opilio.frontier.postgres.frontier import PostgresFrontier
from opilio.store.postgres.collection import folder_of
from opilio.store.postgres.connection import PostgresConnection
from opilio.testing.leases import lead


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


@pytest.fixture
def collection(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection whose crawl runs, with two hosts in the queue."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = folder_of(dsn)
    made, _ = create_collection(folder, Settings(seeds=SeedSettings(urls=["http://a.example/"])), None)
    with closing(made):
        with made.unit_of_work():
            made.set_meta(state="running")
        assert isinstance(made.connection, PostgresConnection)
        PostgresFrontier(made.connection).add([lead("1", 0.5, "a.example"), lead("2", 0.4, "b.example")], 0.0)
    return folder
