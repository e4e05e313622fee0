"""The process that keeps indexes up to date."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from checks.indexed import Sheet, store
from opilio.search.searcher import Searcher
from opilio.store.collection import Collection
from opilio.web.processes import CPU_SHARE, MAX_PAUSE_S, BackgroundIndexer, CpuBudget


def until(true: Callable[[], bool], writer: BackgroundIndexer) -> None:
    while not true():
        assert writer.alive
        time.sleep(0.02)


def pages(first: int, last: int) -> list[Sheet]:
    return [Sheet(url=f"http://a.example/{n}", title="Wren", text=f"number{n}") for n in range(first, last)]


@pytest.mark.slow
def test_index_follows_while_a_collection_is_served(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", pages(0, 3))
    searcher = Searcher([folder])
    with BackgroundIndexer([folder, tmp_path / "no-collection"], every_s=0.05) as writer:
        until(lambda: searcher.search("wren").total == 3, writer)
        store(folder, pages(3, 5))
        until(lambda: searcher.search("wren").total == 5, writer)
    assert not writer.alive


@pytest.mark.slow
def test_process_ends_on_request_once_nothing_is_left_to_do(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", pages(0, 3))
    writer = BackgroundIndexer([folder], until_quiet=True)
    writer.start()
    while writer.alive:
        time.sleep(0.02)
    assert Searcher([folder]).search("wren").total == 3


def waits(used: Iterator[float], rests: int, crawling: Callable[[float], bool] = lambda _: True) -> list[float]:
    """The length of each pause, for a process that reports this CPU use; `crawling` gets the time."""
    took: list[float] = []

    def wait(seconds: float) -> bool:
        took[-1] += seconds
        return False

    resting = CpuBudget(lambda: crawling(sum(took)), wait, lambda: next(used))
    for _ in range(rests):
        took.append(0.0)
        resting.pause()
    return took


def test_process_uses_its_share_of_a_core_during_a_crawl() -> None:
    rested = waits(iter([0.5, 0.52, 0.52, 1.0]), 4)
    assert rested == [
        pytest.approx(0.5 / CPU_SHARE),
        pytest.approx(0.02 / CPU_SHARE),
        0.0,
        pytest.approx(0.48 / CPU_SHARE),
    ]


def test_new_pages_wait_no_longer_than_a_while_after_long_work() -> None:
    assert waits(iter([50.0, 50.0]), 2) == [MAX_PAUSE_S, 0.0]


def test_rest_ends_when_the_crawl_does() -> None:
    assert waits(iter([50.0, 99.0]), 2, crawling=lambda now: now < 5.0) == [6.0, 0.0]


def test_rest_ends_when_all_is_to_end() -> None:
    asked: list[float] = []

    def wait(seconds: float) -> bool:
        asked.append(seconds)
        return True

    CpuBudget(lambda: True, wait, lambda: 50.0).pause()
    assert asked == [2.0]


@pytest.mark.slow
def test_pages_of_a_running_crawl_are_found_before_it_ends(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", pages(0, 3))
    searcher = Searcher([folder])
    with BackgroundIndexer([folder]) as writer, closing(Collection.open_for_writing(folder)):
        until(lambda: searcher.search("wren").total == 3, writer)
