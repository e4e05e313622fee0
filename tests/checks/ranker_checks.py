"""What every ranker keeps to. Call `check_ranker(make)` with a function that makes a fresh one."""

import math
from collections.abc import Callable

from checks.readings import lead_to, reading_of, verdict_of
from opilio.core.protocols import Ranker

PAGE = """
~ [home](http://here.example/) [about us](http://here.example/about)
the wren sings [wren songs](http://birds.example/wren) in the hedge
[](http://birds.example/no-anchor) [never follow](http://birds.example/advert nofollow)
"""


def check_ranker(make: Callable[[], Ranker]) -> None:
    _one_answer_per_link_in_order(make())
    _empty_page_gives_nothing(make())
    _nofollow_is_dropped_with_a_reason(make())
    _same_question_same_answer(make)
    _parts_have_the_same_names_for_every_link(make())


def _one_answer_per_link_in_order(ranker: Ranker) -> None:
    reading = reading_of(PAGE)
    ranked = ranker.rank(reading, verdict_of(0.5), lead_to())
    assert [r.link for r in ranked] == list(reading.page.links)
    assert all(math.isfinite(r.score) and r.score >= 0.0 for r in ranked)


def _empty_page_gives_nothing(ranker: Ranker) -> None:
    assert list(ranker.rank(reading_of(""), verdict_of(0.0, relevant=False), lead_to())) == []


def _nofollow_is_dropped_with_a_reason(ranker: Ranker) -> None:
    ranked = ranker.rank(reading_of(PAGE), verdict_of(0.9), lead_to())
    assert "nofollow" in ranked[-1].dropped
    ranked = ranker.rank(reading_of(PAGE, nofollow=True), verdict_of(0.9), lead_to())
    assert all("nofollow" in r.dropped for r in ranked)


def _same_question_same_answer(make: Callable[[], Ranker]) -> None:
    ranker = make()
    first, second = (ranker.rank(reading_of(PAGE), verdict_of(0.3), lead_to()) for _ in range(2))
    assert list(first) == list(second) == list(make().rank(reading_of(PAGE), verdict_of(0.3), lead_to()))


def _parts_have_the_same_names_for_every_link(ranker: Ranker) -> None:
    ranked = ranker.rank(reading_of(PAGE), verdict_of(0.3), lead_to())
    assert len({tuple(p.name for p in r.parts) for r in ranked}) == 1
    assert ranked[0].parts
