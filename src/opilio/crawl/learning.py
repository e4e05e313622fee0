"""Everything that learns from outcomes in the writing process: topic table, judge, S1's ranker; how each is kept."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from opilio.judge.learned import LearnedJudge
from opilio.model.events import Event, GraphChanged, TopicChanged
from opilio.model.protocols import Learns
from opilio.model.records import Lead, Outcome
from opilio.rank.s1 import S1Ranker
from opilio.rank.treasure import TreasureRanker
from opilio.store.collection import Collection
from opilio.store.journal import Journal
from opilio.store.keeper import Keeper
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable

SAVE_EVERY_S = 10.0  # what is learnt between two versions (words counted for the next growth) is kept so often
JUDGE = "judge"
RANK = "rank"
TOPIC = "topic"  # of the topic's table


@runtime_checkable
class Journaled(Learns, Protocol):
    """A learner that can tell what it is about to learn: the judge, the rankers of S1 and S2."""

    def lesson(self, outcomes: Sequence[Outcome]) -> bytes: ...

    def study(self, lesson: bytes) -> None: ...

    def sight(self) -> bytes:
        """What workers must know of it: less than a snapshot, taken up by `restore` too."""


class Learning:
    """Lets learners see what happened and keeps their states, inside a unit of work.

    Some have a journal: killed at any moment, they go on as they were. What the others count between two versions
    is kept every few seconds, what a table waits to be built from with every seed. `settled` tells at a time whether
    the seeds were visited.
    """

    def __init__(
        self,
        learners: Mapping[str, Learns],
        collection: Collection,
        keeper: Keeper,
        agent: str = "",
        settled: Callable[[float], bool] = lambda _: True,
    ) -> None:
        self._learners = learners
        self._settled = settled
        self._keeper = keeper
        self._agent = agent  # whose: agents learn each for itself, under names of their own
        # Asked once: whether something fits a protocol takes as long as learning from a page.
        self._journaled = {name: learner for name, learner in learners.items() if isinstance(learner, Journaled)}
        self._journals = {name: Journal(collection, self._name(name)) for name in self._journaled}
        self._told = {name: learner.version for name, learner in learners.items()}
        self._saved_at = 0.0

    def _name(self, learner: str) -> str:
        """The name of its state in the collection."""
        return named(self._agent, learner)

    @property
    def finished(self) -> str:
        """Why nobody will learn any more; one crawler goes on as long as it is let."""
        return ""

    @property
    def judge(self) -> LearnedJudge | None:
        """The judge, where it learns."""
        judge = self._learners.get(JUDGE)
        return judge if isinstance(judge, LearnedJudge) else None

    def resume(self) -> dict[str, bytes]:
        """Teach learners again what they learnt behind their last saved state; returns what the workers must know."""
        changed: dict[str, bytes] = {}
        for name, learner in self._journaled.items():
            for lesson in self._journals[name].lessons():
                learner.study(lesson)
            if learner.version != self._told[name]:
                changed[self._name(name)] = learner.sight()
            self._told[name] = learner.version
            if isinstance(learner, TreasureRanker):
                learner.news()  # was told when it happened
        return changed

    def learn(
        self, outcomes: Sequence[Outcome], now: float, events: list[Event], lessons: Sequence[Outcome] = ()
    ) -> None:
        """Let every learner see what happened; `lessons` are for all but the topic's table."""
        for name, learner in self._learners.items():
            if isinstance(learner, LivingTopic):
                self._grow(self._name(name), learner, outcomes, now, events)
            elif name in self._journaled:
                self._teach(name, self._journaled[name].lesson([*outcomes, *lessons]))
            else:
                learner.learn([*outcomes, *lessons])
            if isinstance(learner, TreasureRanker):
                events += [GraphChanged(at=now, **msgspec.structs.asdict(update)) for update in learner.news()]

    def label(self, sample: bytes, relevant: bool | None, before: bool | None) -> None:
        """A person's word about a page, for the judge; None takes the one `before` back."""
        if self.judge is not None and sample:
            self._teach(JUDGE, self.judge.label(sample, relevant, before))

    def correct(self, links: Sequence[tuple[Lead, bool]]) -> None:
        """Pages that a person made relevant or irrelevant, by their links: for a ranker that learns from verdicts."""
        ranker = self._learners.get(RANK)
        if isinstance(ranker, S1Ranker) and links:
            self._teach(RANK, ranker.correction(links))

    @property
    def heeds_labels(self) -> bool:
        """Does anything here learn what a person says?"""
        return self.judge is not None or isinstance(self._learners.get(RANK), S1Ranker)

    def _teach(self, name: str, lesson: bytes) -> None:
        if lesson:
            self._journals[name].add(lesson)
            self._journaled[name].study(lesson)

    def keep(self, now: float) -> dict[str, bytes]:
        """Save what has changed; returns the new states, for the workers."""
        changed: dict[str, bytes] = {}
        for name, learner in self._learners.items():
            is_new = learner.version != self._told[name]
            self._told[name] = learner.version
            if name in self._journaled:
                if is_new:
                    changed[self._name(name)] = self._journaled[name].sight()
                # A graph that changed is kept at once, so that whoever looks sees what the event told of.
                if self._journals[name].long or (is_new and isinstance(learner, TreasureRanker)):
                    self._save(name, learner, now, learner.snapshot())
            elif is_new:
                state = changed[self._name(name)] = learner.snapshot()
                self._save(name, learner, now, state)
        if now - self._saved_at >= SAVE_EVERY_S:  # what has no journal
            self._save_all(self._learners.keys() - self._journals.keys(), now)
        return changed

    def save(self, now: float) -> None:
        """Save everything: at the end, so that another crawl may begin with it."""
        self._save_all(self._learners, now)

    def _save_all(self, names: Iterable[str], now: float) -> None:
        for name in names:
            self._save(name, self._learners[name], now, self._learners[name].snapshot())
        self._saved_at = now

    def _save(self, name: str, learner: Learns, now: float, state: bytes) -> None:
        if name in self._journals:
            self._journals[name].save(learner.version, now, state)
        else:
            only = not isinstance(learner, LivingTopic)
            self._keeper.keep_snapshot(self._name(name), learner.version, now, state, only=only)

    def _grow(
        self, name: str, topic: LivingTopic, outcomes: Sequence[Outcome], now: float, events: list[Event]
    ) -> None:
        """Let the topic learn visit by visit, so that every version of its table is kept and told of."""
        for outcome in outcomes:
            before = topic.table
            topic.learn([outcome])
            events += self._told_of(name, before, topic, now)
        if not topic.expansion.awaits_seeds:
            return
        if self._settled(now):
            before = topic.table
            topic.settle()
            events += self._told_of(name, before, topic, now)
        elif any(outcome.lead.depth == 0 for outcome in outcomes):  # a kill must not cost the words of a seed
            self._keeper.keep_snapshot(name, topic.version, now, topic.snapshot())

    def _told_of(self, name: str, before: WeightTable, topic: LivingTopic, now: float) -> list[Event]:
        """Keep a table that is new, and tell of it."""
        if topic.table is before:
            return []
        # Of a version that is past only the table matters: what was counted for the next one is large.
        self._keeper.shrink_snapshot(name, before.version, now, LivingTopic(before).snapshot())
        self._keeper.keep_snapshot(name, topic.version, now, LivingTopic(topic.table).snapshot())
        known = {keyword.stem for keyword in before.keywords}
        added = tuple(sorted(k.label for k in topic.table.keywords if k.stem not in known))
        return [TopicChanged(at=now, version=topic.version, added=added, size=len(topic.table), agent=self._agent)]


def named(agent: str, learner: str) -> str:
    """The name under which an agent's learner is kept; without an agent, its own.

    >>> named("", "topic"), named("agent-1", "topic")
    ('topic', 'agent-1/topic')
    """
    return f"{agent}/{learner}" if agent else learner
