"""What every learner with a journal does. Call `check_learner(make, visits)` with outcomes that it learns from."""

from collections.abc import Callable, Sequence

from opilio.core.protocols import Learns
from opilio.core.records import Outcome


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
