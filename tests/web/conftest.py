"""A collection that has ended, and its pages, shared by the tests of one process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.page_server import Client, crawled, pages_of


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return crawled(tmp_path_factory.mktemp("web") / "birds")


@pytest.fixture(scope="session")
def client(birds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pages_of([birds], tmp_path_factory.mktemp("home")) as found:
        yield found
