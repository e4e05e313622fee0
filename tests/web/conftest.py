"""A collection that has ended, with one annotated page, and its web pages, shared by the tests of one process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.page_server import Client, crawled, pages_of
from opilio.store.annotations import AnnotationChange, annotate


@pytest.fixture(scope="session")
def birds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = crawled(tmp_path_factory.mktemp("web") / "birds")
    change = AnnotationChange(add_tags=("wren",), note="to quote", add_to=("cite",))
    annotate(folder, ["http://h0.example/0.html"], change, 2e9)
    return folder


@pytest.fixture(scope="session")
def client(birds: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with pages_of([birds], tmp_path_factory.mktemp("home")) as found:
        yield found
