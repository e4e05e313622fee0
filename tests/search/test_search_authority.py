"""Authority: who is linked, and by whom."""

from pathlib import Path

import numpy as np

from checks.indexed import Sheet, store
from opilio.search.clusters import compute_authority
from opilio.search.searcher import Searcher


def shares(links: dict[int, list[int]], hosts: list[int]) -> list[float]:
    keys = np.arange(len(hosts), dtype=np.int64)
    targets = [np.array(links.get(n, []), dtype=np.int64).tobytes() for n in range(len(hosts))]
    return [round(float(v), 3) for v in compute_authority(keys, np.array(hosts, dtype=np.int64), targets)]


def test_page_that_others_link_has_the_most() -> None:
    values = shares({0: [3], 1: [3], 2: [3], 3: [0]}, [0, 1, 2, 3])
    assert values[3] == 1.0
    assert values[1] == values[2] == 0.0
    assert 0.0 < values[0] < 1.0


def test_link_of_another_host_counts_more_than_one_of_the_same() -> None:
    values = shares({0: [1, 2], 3: []}, [0, 0, 1, 1])
    assert values[2] > values[1]


def test_links_to_unknown_pages_and_to_oneself_are_left_out() -> None:
    assert shares({0: [0, 77], 1: [1]}, [0, 1]) == [0.0, 0.0]
    assert len(compute_authority(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), [])) == 0


def test_of_two_pages_that_match_alike_the_linked_one_comes_first(tmp_path: Path) -> None:
    text = "The same words about wrens."
    sheets = [Sheet(url=f"http://h{n}.example/", title="Wrens", text=text) for n in range(4)]
    linking = [
        Sheet(url=f"http://l{n}.example/", text="other", links=[("http://h2.example/", "wrens")]) for n in range(5)
    ]
    searcher = Searcher([store(tmp_path / "c", [*sheets, *linking])])
    searcher.update_indexes()
    first, second, *_ = searcher.search("wrens").hits
    assert first.url == "http://h2.example/"
    assert first.authority > second.authority
