"""The process that keeps indexes up to date."""

import time
from collections.abc import Callable
from pathlib import Path

from checks.indexed import Sheet, store
from opilio.crawl.keepup import KeepUp
from opilio.crawl.searching import Searcher


def until(true: Callable[[], bool], keeper: KeepUp) -> None:
    while not true():
        assert keeper.alive
        time.sleep(0.02)


def pages(first: int, last: int) -> list[Sheet]:
    return [Sheet(url=f"http://a.example/{n}", title="Wren", text=f"number{n}") for n in range(first, last)]


def test_index_follows_while_a_collection_is_served(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", pages(0, 3))
    searcher = Searcher([folder])
    with KeepUp([folder, tmp_path / "no-collection"], every_s=0.05) as keeper:
        until(lambda: searcher.search("wren").total == 3, keeper)
        store(folder, pages(3, 5))
        until(lambda: searcher.search("wren").total == 5, keeper)
    assert not keeper.alive


def test_process_ends_when_told_to_once_nothing_is_left_to_do(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", pages(0, 3))
    keeper = KeepUp([folder], until_quiet=True)
    keeper.start()
    while keeper.alive:
        time.sleep(0.02)
    assert Searcher([folder]).search("wren").total == 3
