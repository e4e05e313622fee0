"""Learning in the writing process: how the states of topic table, judge and rankers are stored and restored."""

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from opilio.core.errors import CollectionError
from opilio.core.events import Event, TopicChanged
from opilio.core.protocols import Learns, OnlineLearner
from opilio.core.records import Lead, Outcome
from opilio.store.collection import Collection
from opilio.store.run_tables import LearnerJournal
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import WeightTable

# Learners without a journal save what they count between two versions this often.
SAVE_INTERVAL_S = 10.0


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
            restore_state(self.learner, self._journal.name, state)
        self.replay()
        return state is not None or self._journal.pending_lessons > 0

    def replay(self) -> None:
        """Apply the lessons behind the last snapshot."""
        for lesson in self._journal.lessons():
            with _readable_state(self._journal.name):
                self.learner.apply_lesson(lesson)

    def save(self, now: float) -> None:
        """Store a snapshot in place of the last one and of the lessons behind it."""
        self._journal.save_snapshot(self.learner.version, now, self.learner.snapshot())


def restore_state(learner: OnlineLearner, name: str, state: bytes) -> None:
    """Restore a stored state; CollectionError if it is damaged or has another format."""
    with _readable_state(name):
        learner.restore(state)


@contextmanager
def _readable_state(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, LookupError, zlib.error) as error:
        raise CollectionError(
            f"the learnt state '{name}' can't be read: damaged, or written by another version; "
            "'opilio maintain verify' checks the collection"
        ) from error


class LearnerGroup:
    """Passes outcomes to learners and stores their states, inside a unit of work.

    A learner with a journal loses nothing when the crawl is killed. The others save what they count between two
    versions every few seconds, and a table that waits for the seeds with every seed. `seeds_finished` returns whether
    all seeds were visited.
    """

    def __init__(
        self,
        learners: Mapping[str, OnlineLearner],
        collection: Collection,
        writer: CollectionWriter,
        agent: str = "",
        seeds_finished: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self._learners = learners
        self._seeds_finished = seeds_finished
        self._writer = writer
        self._agent = agent  # prefix of the names of the states
        # Checked once: a check against a protocol takes as long as learning from a page.
        self._journaled = {
            name: JournaledLearner(learner, collection, self._state_name(name))
            for name, learner in learners.items()
            if isinstance(learner, Learns)
        }
        self._published_versions = {name: learner.version for name, learner in learners.items()}
        self._saved_at = 0.0

    def _state_name(self, learner: str) -> str:
        """The name of its state in the collection."""
        return state_name(self._agent, learner)

    @property
    def finish_reason(self) -> str:
        """Why the crawl should end; a single crawler has no reason of its own."""
        return ""

    def resume(self) -> dict[str, bytes]:
        """Apply the lessons behind the last snapshots; returns the states that workers need."""
        changed: dict[str, bytes] = {}
        for name, journaled in self._journaled.items():
            journaled.replay()
            learner = journaled.learner
            if learner.version != self._published_versions[name]:
                changed[self._state_name(name)] = learner.worker_state()
            self._published_versions[name] = learner.version
            learner.take_events(0.0)  # they were reported in the run that learnt the lessons
        return changed

    def learn(
        self, outcomes: Sequence[Outcome], now: float, events: list[Event], lessons: Sequence[Outcome] = ()
    ) -> None:
        """Pass outcomes to every learner; `lessons` are for all but the topic's table."""
        for name, learner in self._learners.items():
            if isinstance(learner, EvolvingTopic):
                self._expand_topic(self._state_name(name), learner, outcomes, now, events)
            elif name in self._journaled:
                journaled = self._journaled[name]
                journaled.teach(journaled.learner.make_lesson([*outcomes, *lessons]))
                events += journaled.learner.take_events(now)
            else:
                learner.learn([*outcomes, *lessons])

    def teach(self, name: str, lesson: bytes) -> None:
        """Store a lesson for one learner that has a journal, and let it learn."""
        self._journaled[name].teach(lesson)

    def label(self, sample: bytes, relevant: bool | None, before: bool | None) -> None:
        """Learn from the label of a page; None removes the label `before`."""
        for journaled in self._journaled.values() if sample else ():
            journaled.teach(journaled.learner.label_lesson(sample, relevant, before))

    def correct_verdicts(self, links: Sequence[tuple[Lead, bool]]) -> None:
        """Learn from pages that labels made relevant or irrelevant, by their links."""
        for journaled in self._journaled.values() if links else ():
            journaled.teach(journaled.learner.correction_lesson(links))

    @property
    def learns_from_labels(self) -> bool:
        """Whether any learner here learns from labels."""
        return any(journaled.learner.learns_from_labels for journaled in self._journaled.values())

    def retire_agent(self, name: str, now: float) -> list[Event]:
        """Retire an agent, where agents share the crawl; a crawl without agents has none to retire."""
        del name, now
        return []

    def save_changed(self, now: float) -> dict[str, bytes]:
        """Save what has changed; returns the new states, for the workers."""
        changed: dict[str, bytes] = {}
        for name, learner in self._learners.items():
            is_new = learner.version != self._published_versions[name]
            self._published_versions[name] = learner.version
            if name in self._journaled:
                journaled = self._journaled[name]
                if is_new:
                    changed[self._state_name(name)] = journaled.learner.worker_state()
                if journaled.snapshot_due or (is_new and journaled.learner.saves_every_version):
                    journaled.save(now)
            elif is_new:
                state = changed[self._state_name(name)] = learner.snapshot()
                self._write_state(name, now, state)
        if now - self._saved_at >= SAVE_INTERVAL_S:
            self._save_states(self._learners.keys() - self._journaled.keys(), now)
        return changed

    def save_all(self, now: float) -> None:
        """Save everything at the end, so that another crawl can start from it."""
        self._save_states(self._learners, now)

    def _save_states(self, names: Iterable[str], now: float) -> None:
        for name in names:
            if name in self._journaled:
                self._journaled[name].save(now)
            else:
                self._write_state(name, now, self._learners[name].snapshot())
        self._saved_at = now

    def _write_state(self, name: str, now: float, state: bytes) -> None:
        """Store the state of a learner without a journal. All versions of a topic's table are kept."""
        learner = self._learners[name]
        only = not isinstance(learner, EvolvingTopic)
        self._writer.write_snapshot(self._state_name(name), learner.version, now, state, only=only)

    def _expand_topic(
        self, name: str, topic: EvolvingTopic, outcomes: Sequence[Outcome], now: float, events: list[Event]
    ) -> None:
        """Let the topic learn visit by visit, so that every version of its table is stored and reported."""
        for outcome in outcomes:
            before = topic.table
            topic.learn([outcome])
            events += self._record_table_change(name, before, topic, now)
        if not topic.expansion.waits_for_seeds:
            return
        if self._seeds_finished(now):
            before = topic.table
            topic.finish_seeding()
            events += self._record_table_change(name, before, topic, now)
        elif any(outcome.lead.depth == 0 for outcome in outcomes):  # a kill must not lose the words of a seed
            self._writer.write_snapshot(name, topic.version, now, topic.snapshot())

    def _record_table_change(self, name: str, before: WeightTable, topic: EvolvingTopic, now: float) -> list[Event]:
        """Store a new table and report it."""
        if topic.table is before:
            return []
        # Of an old version only the table matters: the counts for the next one are large.
        self._writer.replace_snapshot(name, before.version, now, EvolvingTopic(before).snapshot())
        self._writer.write_snapshot(name, topic.version, now, EvolvingTopic(topic.table).snapshot())
        known = {keyword.stem for keyword in before.keywords}
        added = tuple(sorted(k.label for k in topic.table.keywords if k.stem not in known))
        return [TopicChanged(at=now, version=topic.version, added=added, size=len(topic.table), agent=self._agent)]


def state_name(agent: str, learner: str) -> str:
    """The name of a learner's state in the collection.

    >>> state_name("", "topic"), state_name("agent-1", "topic")
    ('topic', 'agent-1/topic')
    """
    return f"{agent}/{learner}" if agent else learner
