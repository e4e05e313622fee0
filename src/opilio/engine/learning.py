"""All that learns from outcomes in the writing process: topic table, judge and ranker; how their states are stored."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from opilio.core.events import Event, TopicChanged
from opilio.core.protocols import Learns, OnlineLearner
from opilio.core.records import Lead, Outcome
from opilio.store.collection import Collection
from opilio.store.journal import LearnerJournal
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.weights import WeightTable

SAVE_INTERVAL_S = 10.0  # what is learnt between two versions (words counted for the next growth) is kept so often


class LearnerGroup:
    """Lets learners see what happened and keeps their states, inside a unit of work.

    Some have a journal: killed at any moment, they go on as they were. What the others count between two versions
    is kept every few seconds, what a table waits to be built from with every seed. `settled` returns whether
    the seeds were visited.
    """

    def __init__(
        self,
        learners: Mapping[str, OnlineLearner],
        collection: Collection,
        writer: CollectionWriter,
        agent: str = "",
        settled: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self._learners = learners
        self._seeds_finished = settled
        self._writer = writer
        self._agent = agent  # whose: agents learn each for itself, under names of their own
        # Checked once: a check against a protocol takes as long as learning from a page.
        self._journaled = {name: learner for name, learner in learners.items() if isinstance(learner, Learns)}
        self._journals = {name: LearnerJournal(collection, self._state_name(name)) for name in self._journaled}
        self._published_versions = {name: learner.version for name, learner in learners.items()}
        self._saved_at = 0.0

    def _state_name(self, learner: str) -> str:
        """The name of its state in the collection."""
        return state_name(self._agent, learner)

    @property
    def finish_reason(self) -> str:
        """Why learning has ended; a single crawler has no reason of its own."""
        return ""

    def resume(self) -> dict[str, bytes]:
        """Teach learners again what they learnt behind their last saved state; returns what the workers must know."""
        changed: dict[str, bytes] = {}
        for name, learner in self._journaled.items():
            for lesson in self._journals[name].lessons():
                learner.apply_lesson(lesson)
            if learner.version != self._published_versions[name]:
                changed[self._state_name(name)] = learner.worker_state()
            self._published_versions[name] = learner.version
            learner.take_events(0.0)  # they were reported in the run that learnt the lessons
        return changed

    def learn(
        self, outcomes: Sequence[Outcome], now: float, events: list[Event], lessons: Sequence[Outcome] = ()
    ) -> None:
        """Let every learner see what happened; `lessons` are for all but the topic's table."""
        for name, learner in self._learners.items():
            if isinstance(learner, EvolvingTopic):
                self._expand_topic(self._state_name(name), learner, outcomes, now, events)
            elif name in self._journaled:
                self._apply_lesson(name, self._journaled[name].make_lesson([*outcomes, *lessons]))
                events += self._journaled[name].take_events(now)
            else:
                learner.learn([*outcomes, *lessons])

    def label(self, sample: bytes, relevant: bool | None, before: bool | None) -> None:
        """Learn from the label of a page; None removes the label `before`."""
        for name, learner in self._journaled.items() if sample else ():
            self._apply_lesson(name, learner.label_lesson(sample, relevant, before))

    def correct_verdicts(self, links: Sequence[tuple[Lead, bool]]) -> None:
        """Learn from pages that labels made relevant or irrelevant, by their links."""
        for name, learner in self._journaled.items() if links else ():
            self._apply_lesson(name, learner.correction_lesson(links))

    @property
    def learns_from_labels(self) -> bool:
        """Whether any learner here learns from labels."""
        return any(learner.learns_from_labels for learner in self._journaled.values())

    def retire_agent(self, name: str, now: float) -> list[Event]:
        """Retire an agent, where agents share the crawl; a crawl without agents has none to retire."""
        del name, now
        return []

    def _apply_lesson(self, name: str, lesson: bytes) -> None:
        if lesson:
            self._journals[name].add(lesson)
            self._journaled[name].apply_lesson(lesson)

    def save_changed(self, now: float) -> dict[str, bytes]:
        """Save what has changed; returns the new states, for the workers."""
        changed: dict[str, bytes] = {}
        for name, learner in self._learners.items():
            is_new = learner.version != self._published_versions[name]
            self._published_versions[name] = learner.version
            if name in self._journaled:
                if is_new:
                    changed[self._state_name(name)] = self._journaled[name].worker_state()
                if self._journals[name].snapshot_due or (is_new and self._journaled[name].saves_every_version):
                    self._save_state(name, learner, now, learner.snapshot())
            elif is_new:
                state = changed[self._state_name(name)] = learner.snapshot()
                self._save_state(name, learner, now, state)
        if now - self._saved_at >= SAVE_INTERVAL_S:  # what has no journal
            self._save_states(self._learners.keys() - self._journals.keys(), now)
        return changed

    def save_all(self, now: float) -> None:
        """Save everything: at the end, so that another crawl may begin with it."""
        self._save_states(self._learners, now)

    def _save_states(self, names: Iterable[str], now: float) -> None:
        for name in names:
            self._save_state(name, self._learners[name], now, self._learners[name].snapshot())
        self._saved_at = now

    def _save_state(self, name: str, learner: OnlineLearner, now: float, state: bytes) -> None:
        if name in self._journals:
            self._journals[name].save_snapshot(learner.version, now, state)
        else:
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
        elif any(outcome.lead.depth == 0 for outcome in outcomes):  # a kill must not cost the words of a seed
            self._writer.write_snapshot(name, topic.version, now, topic.snapshot())

    def _record_table_change(self, name: str, before: WeightTable, topic: EvolvingTopic, now: float) -> list[Event]:
        """Store a new table, and report it."""
        if topic.table is before:
            return []
        # Of a version that is past only the table matters: what was counted for the next one is large.
        self._writer.replace_snapshot(name, before.version, now, EvolvingTopic(before).snapshot())
        self._writer.write_snapshot(name, topic.version, now, EvolvingTopic(topic.table).snapshot())
        known = {keyword.stem for keyword in before.keywords}
        added = tuple(sorted(k.label for k in topic.table.keywords if k.stem not in known))
        return [TopicChanged(at=now, version=topic.version, added=added, size=len(topic.table), agent=self._agent)]


def state_name(agent: str, learner: str) -> str:
    """The name under which an agent's learner is kept; without an agent, its own.

    >>> state_name("", "topic"), state_name("agent-1", "topic")
    ('topic', 'agent-1/topic')
    """
    return f"{agent}/{learner}" if agent else learner
