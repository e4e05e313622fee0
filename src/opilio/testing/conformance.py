"""What every judge, ranker and learner does, and readings from a line of text for their tests.

`[anchor words](http://address)` makes a link; a line is a block; a line that begins with `~` is boiler-plate.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.core.protocols import Judge, Learns, Ranker
from opilio.core.records import Lead, Link, LinkColumns, Outcome, Page, Reading, Verdict, url_key
from opilio.text.vocabulary import term_id

_PIECE = re.compile(r"\[([^\]]*)\]\(([^)\s]*)( nofollow)?\)|([a-z0-9]+)")
_WORD = re.compile(r"[a-z0-9]+")
HERE = "http://here.example/"


def terms_of(text: str) -> list[int]:
    return [term_id(w) for w in _WORD.findall(text.lower())]


def url_terms(urls: Sequence[str]) -> list[list[int]]:
    return [terms_of(u.partition("://")[2]) for u in urls]


def reading_of(text: str, title: str = "", url: str = HERE, description: str = "", nofollow: bool = False) -> Reading:
    terms: list[int] = []
    links: list[Link] = []
    anchors: list[tuple[int, int]] = []
    arounds: list[tuple[int, int]] = []
    main: list[tuple[int, int]] = []
    for line in text.lower().strip().splitlines():
        start, first = len(terms), len(links)
        for piece in _PIECE.finditer(line):
            at = len(terms)
            terms += terms_of(piece[1] if piece[2] else piece[4])
            if piece[2]:
                target = piece[2]
                rel = "nofollow" if piece[3] else ""
                host = target.split("/")[2]
                links.append(
                    Link(url=target, key=url_key(target), host=host, anchor=piece[1], rel=rel, index=len(links))
                )
                anchors.append((at, len(terms)))
        arounds += [(start, len(terms))] * (len(links) - first)
        if not line.strip().startswith("~"):
            main.append((start, len(terms)))
    page = Page(url=url, title=title, description=description, links=tuple(links), flow=text, nofollow=nofollow)
    return Reading(page=page, terms=terms, anchors=anchors, link_contexts=arounds, main_slices=main)


def lead_to(url: str = HERE, **known: object) -> Lead:
    return Lead(url=url, key=url_key(url), host=url.split("/")[2], **known)  # type: ignore[arg-type]


def verdict_of(score: float, relevant: bool = True) -> Verdict:
    return Verdict(score=score, relevant=relevant)


JUDGED_PAGES = ("", "~ menu only", "wren nest song wren", "tax law court", "the wren\ncourt law", "wren " * 500)


def check_judge(make: Callable[[], Judge], on_topic: str = "wren nest song wren") -> None:
    judge = make()
    for text in JUDGED_PAGES:
        verdict = judge.judge(reading_of(text))
        assert 0.0 <= verdict.score <= 1.0
        assert verdict.reasons and all(r.name for r in verdict.reasons), "no named reasons for `opilio why`"
        assert verdict == judge.judge(reading_of(text)) == make().judge(reading_of(text))
    assert not judge.judge(reading_of("")).relevant
    assert judge.judge(reading_of(on_topic)).score > judge.judge(reading_of("tax law court")).score


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


def check_learner(make: Callable[[], Learns], visits: Sequence[Outcome]) -> None:
    """Raise AssertionError where a learner breaks the protocol."""
    assert isinstance(make(), Learns)
    _nothing_teaches_nothing(make())
    _version_never_falls(make(), visits)
    _journal_gives_the_same_state(make, visits)
    _snapshot_carries_everything(make, visits)
    _worker_state_can_be_restored(make, visits)


def _nothing_teaches_nothing(learner: Learns) -> None:
    before = learner.version, learner.snapshot()
    learner.apply_lesson(learner.make_lesson(()))
    assert (learner.version, learner.snapshot()) == before
    assert list(learner.take_events(1.0)) == []


def _version_never_falls(learner: Learns, visits: Sequence[Outcome]) -> None:
    for visit in visits:
        version = learner.version
        learner.apply_lesson(learner.make_lesson([visit]))
        assert learner.version >= version


def _learn(learner: Learns, visits: Sequence[Outcome]) -> list[bytes]:
    journal = []
    for visit in visits:
        if lesson := learner.make_lesson([visit]):
            journal.append(lesson)
            learner.apply_lesson(lesson)
    return journal


def _journal_gives_the_same_state(make: Callable[[], Learns], visits: Sequence[Outcome]) -> None:
    first, second = make(), make()
    for lesson in _learn(first, visits):
        second.apply_lesson(lesson)
    assert (second.version, second.snapshot()) == (first.version, first.snapshot())


def _snapshot_carries_everything(make: Callable[[], Learns], visits: Sequence[Outcome]) -> None:
    half = len(visits) // 2
    whole, first, second = make(), make(), make()
    _learn(whole, visits)
    _learn(first, visits[:half])
    second.restore(first.snapshot())
    assert (second.version, second.snapshot()) == (first.version, first.snapshot())
    _learn(second, visits[half:])
    assert (second.version, second.snapshot()) == (whole.version, whole.snapshot())


def _worker_state_can_be_restored(make: Callable[[], Learns], visits: Sequence[Outcome]) -> None:
    learner, worker = make(), make()
    _learn(learner, visits)
    worker.restore(learner.worker_state())
    assert worker.version == learner.version
