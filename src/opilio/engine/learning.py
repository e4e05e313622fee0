"""Learning in the writing process: how the states of topic table, judge and rankers are stored and restored."""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from opilio.core.errors import CollectionError
from opilio.core.events import Event
from opilio.core.protocols import Learns
from opilio.core.records import Lead, Outcome
from opilio.store.collection import Collection
from opilio.store.learner_states import LearnerJournal


class Owner(NamedTuple):
    """The agent that a learner belongs to; the default is a crawl without agents."""

    agent: str = ""
    number: int = 0


NO_OWNER = Owner()


class JournaledLearner:
    """A learner with its journal in the collection. Writes inside `collection.unit_of_work()`.

    Every lesson is stored with the visit it comes from; from time to time the whole state replaces the lessons.
    """

    def __init__(self, learner: Learns, collection: Collection, name: str) -> None:
        self.learner = learner
        self.name = name
        self._journal = LearnerJournal(collection, name)

    @property
    def snapshot_due(self) -> bool:
        """Whether the journal is long enough for a new snapshot."""
        return self._journal.snapshot_due

    def teach(self, lesson: bytes, visits: int = 1) -> None:
        """Store a lesson of this number of visits and learn from it; an empty lesson teaches nothing."""
        if lesson:
            self._journal.add(lesson, visits)
            self.learner.apply_lesson(lesson)

    def load(self) -> bool:
        """Restore the last snapshot and apply the lessons behind it; False where nothing is stored."""
        state = self._journal.load_snapshot()
        if state is not None:
            restore_state(self.learner, self.name, state)
        self.replay()
        return state is not None or self._journal.pending_lessons > 0

    def replay(self) -> None:
        """Apply the lessons behind the last snapshot."""
        for lesson in self._journal.lessons():
            with _readable_state(self.name):
                self.learner.apply_lesson(lesson)

    def save(self, now: float) -> None:
        """Store a snapshot in place of the last one and of the lessons behind it, and what is kept of past versions."""
        past = self.learner.take_versions()
        self._journal.save_snapshot(self.learner.version, now, self.learner.snapshot(), past)


def restore_state(learner: Learns, name: str, state: bytes) -> None:
    """Restore a stored state; CollectionError if it is damaged or has another format."""
    with _readable_state(name):
        learner.restore(state)


@contextmanager
def _readable_state(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, LookupError, zlib.error) as error:
        raise CollectionError(
            f"the learned state '{name}' can't be read: damaged, or written by another version; "
            "'opilio maintain verify' checks the collection"
        ) from error


class LearnerGroup:
    """Passes outcomes to learners and stores what they learn, inside a unit of work: a kill loses nothing.

    `seeds_finished` returns whether all seeds were visited.
    """

    def __init__(
        self,
        learners: Mapping[str, Learns],
        collection: Collection,
        agent: str = "",
        seeds_finished: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self._learners = {
            name: JournaledLearner(learner, collection, state_name(agent, name)) for name, learner in learners.items()
        }
        self._seeds_finished = seeds_finished
        self._published_versions = {name: learner.version for name, learner in learners.items()}

    @property
    def finish_reason(self) -> str:
        """Why the crawl should end; a single crawler has no reason of its own."""
        return ""

    def resume(self) -> dict[str, bytes]:
        """Apply the lessons behind the last snapshots; returns the states that workers need."""
        for journaled in self._learners.values():
            journaled.replay()
            # They were reported in the run that learned the lessons.
            journaled.learner.take_events(0.0)
        return {journaled.name: journaled.learner.worker_state() for journaled in self._take_changed()}

    def learn(
        self, outcomes: Sequence[Outcome], now: float, events: list[Event], shared: Sequence[Outcome] = ()
    ) -> None:
        """Pass outcomes to every learner; `shared` are pages that another agent fetched."""
        for journaled in self._learners.values():
            learner = journaled.learner
            journaled.teach(learner.make_lesson(outcomes if learner.own_pages_only else [*outcomes, *shared]))
            if learner.waits_for_seeds and self._seeds_finished(now):
                journaled.teach(learner.seeding_lesson())
            events += learner.take_events(now)

    def teach(self, name: str, lesson: bytes) -> None:
        """Store a lesson for one learner, and let it learn."""
        self._learners[name].teach(lesson)

    def label(self, sample: bytes, relevant: bool | None, before: bool | None) -> None:
        """Learn from the label of a page; None removes the label `before`."""
        for journaled in self._learners.values() if sample else ():
            journaled.teach(journaled.learner.label_lesson(sample, relevant, before))

    def correct_verdicts(self, links: Sequence[tuple[Lead, bool]]) -> None:
        """Learn from pages that labels made relevant or irrelevant, by their links."""
        for journaled in self._learners.values() if links else ():
            journaled.teach(journaled.learner.correction_lesson(links))

    @property
    def learns_from_labels(self) -> bool:
        """Whether any learner here learns from labels."""
        return any(journaled.learner.learns_from_labels for journaled in self._learners.values())

    def retire_agent(self, name: str, now: float) -> list[Event]:
        """Retire an agent, where agents share the crawl; a crawl without agents has none to retire."""
        del name, now
        return []

    def save_changed(self, now: float) -> dict[str, bytes]:
        """Save what is due; returns the new states, for the workers."""
        changed = self._take_changed()
        for journaled in self._learners.values():
            if journaled.snapshot_due or (journaled in changed and journaled.learner.saves_every_version):
                journaled.save(now)
        return {journaled.name: journaled.learner.worker_state() for journaled in changed}

    def save_all(self, now: float) -> None:
        """Save everything at the end, so that another crawl can start from it."""
        for journaled in self._learners.values():
            journaled.save(now)

    def _take_changed(self) -> list[JournaledLearner]:
        """The learners that have another version than at the last call."""
        changed = []
        for name, journaled in self._learners.items():
            if journaled.learner.version != self._published_versions[name]:
                self._published_versions[name] = journaled.learner.version
                changed.append(journaled)
        return changed


def state_name(agent: str, learner: str) -> str:
    """The name of a learner's state in the collection.

    >>> state_name("", "topic"), state_name("agent-1", "topic")
    ('topic', 'agent-1/topic')
    """
    return f"{agent}/{learner}" if agent else learner
