"""What every ranker does. Call `check_ranker(make)` with a function that makes a fresh one."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opilio.core.protocols import Ranker
from opilio.core.records import LinkColumns, Reading
from opilio.testing.readings import lead_to, reading_of, verdict_of

PAGE = """
~ [home](http://here.example/) [about us](http://here.example/about)
the wren sings [wren songs](http://birds.example/wren) in the hedge
[](http://birds.example/no-anchor) [never follow](http://birds.example/advert nofollow)
"""


def check_ranker(make: Callable[[], Ranker]) -> None:
    """Raise AssertionError where a ranker breaks the protocol."""
    _one_score_per_link_in_order(make())
    _empty_page_gives_nothing(make())
    _nofollow_is_dropped_with_a_reason(make())
    _same_page_same_scores(make)
    _parts_are_named(make())


def _columns(ranker: Ranker, reading: Reading, score: float) -> LinkColumns:
    return ranker.score(reading, verdict_of(score), lead_to()).columns(reading.page.links)


def _scores(columns: LinkColumns) -> NDArray[np.float32]:
    return np.frombuffer(columns.scores, dtype=np.float32)


def _one_score_per_link_in_order(ranker: Ranker) -> None:
    reading = reading_of(PAGE)
    columns = _columns(ranker, reading, 0.5)
    links = reading.page.links
    assert columns.urls == [link.url for link in links]
    assert columns.hosts == [link.host for link in links]
    assert np.frombuffer(columns.keys, dtype=np.int64).tolist() == [link.key for link in links]
    assert len(_scores(columns)) == len(links)
    assert np.isfinite(_scores(columns)).all() and (_scores(columns) >= 0.0).all()
    assert len(columns.features) in (0, len(links))


def _empty_page_gives_nothing(ranker: Ranker) -> None:
    columns = ranker.score(reading_of(""), verdict_of(0.0, relevant=False), lead_to()).columns(())
    assert columns.urls == [] and columns.scores == b"" and columns.features == []


def _nofollow_is_dropped_with_a_reason(ranker: Ranker) -> None:
    assert "nofollow" in _columns(ranker, reading_of(PAGE), 0.9).dropped[4]
    columns = _columns(ranker, reading_of(PAGE, nofollow=True), 0.9)
    assert all("nofollow" in columns.dropped[at] for at in range(len(columns.urls)))


def _same_page_same_scores(make: Callable[[], Ranker]) -> None:
    ranker = make()
    first, second = (_columns(ranker, reading_of(PAGE), 0.3) for _ in range(2))
    assert first == second == _columns(make(), reading_of(PAGE), 0.3)


def _parts_are_named(ranker: Ranker) -> None:
    columns = _columns(ranker, reading_of(PAGE), 0.3)
    assert columns.names and all(columns.names) and len(set(columns.names)) == len(columns.names)
    assert len(columns.parts) == 4 * len(columns.names) * len(columns.urls)
