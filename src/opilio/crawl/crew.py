"""Agents at work in the writing process: each takes the answers to what it asked for, and learns for itself.

`CrewChooser` and `CrewLearning` are to the ledger what one crawler's are. Between the two calls of a commit the crew
remembers who takes which outcome. A page is everybody's whose topic it is on; among agents of one topic it is the
asker's alone, unless they exchange (S3-08, S3-F3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from opilio.agents.agent import Agent
from opilio.agents.directory import Report
from opilio.agents.manager import Manager
from opilio.agents.tags import owner, tagged, untagged
from opilio.crawl.chooser import Chooser
from opilio.crawl.config import AgentsSettings
from opilio.crawl.learning import Learning
from opilio.judge.learned import LearnedJudge
from opilio.model.events import AgentRegistered, AgentsExchanged, Event, VisitFailed
from opilio.model.protocols import Entry
from opilio.model.records import Analysis, Lead, Opinion, Outcome, Verdict
from opilio.store.keeper import Keeper
from opilio.topic.living import LivingTopic


@dataclass(slots=True)
class Member:
    """An agent with what it knows."""

    agent: Agent
    living: LivingTopic
    chooser: Chooser
    learning: Learning
    told: int = 0  # the version of its table that others know
    own: list[Outcome] = field(default_factory=list)  # of this commit: what it takes as its own
    lessons: list[Outcome] = field(default_factory=list)  # what it only learns from

    def leads(self, view: Outcome) -> list[Lead]:
        """The links of a page as it sees them."""
        return self.chooser.leads([view])[0]


class Crew:
    """Who takes which outcome, in one commit."""

    def __init__(self, members: Sequence[Member], manager: Manager, settings: AgentsSettings, topic: str) -> None:
        self.members = {member.agent.number: member for member in members}
        self.manager = manager
        self.settings = settings
        self.topic = topic
        self.exchanged: dict[tuple[str, str], int] = {}  # links given, by giver and taker
        self.failed: list[tuple[str, str]] = []  # pages at which a mind broke, and how
        self._takers: dict[int, list[tuple[Member, Outcome]]] = {}
        self._offers: dict[int, list[tuple[Member, Outcome]]] = {}

    def receive(self, outcomes: Sequence[Outcome]) -> None:
        """Hand every outcome to those it is for."""
        self._takers, self._offers, self.exchanged = {}, {}, {}
        for member in self.members.values():
            member.own, member.lessons = [], []
        self.failed = []
        for outcome in outcomes:
            taker = self._asker(outcome)
            self._take(taker, seen_by(outcome, taker.agent.number), outcome)
            for opinion in outcome.analysis.opinions if outcome.analysis else ():
                self._check(outcome, opinion)
                if opinion.error:
                    continue
                if opinion.agent not in (owner(outcome.lead), taker.agent.number):
                    self._share(outcome, opinion, taker)

    def _check(self, outcome: Outcome, opinion: Opinion) -> None:
        """Whose mind broke at a page is watched."""
        agent = self.members[opinion.agent].agent
        agent.broken = agent.broken + 1 if opinion.error else 0
        if opinion.error:
            self.failed.append((outcome.lead.url, f"{agent.card.name}: {opinion.error}"))

    def _asker(self, outcome: Outcome) -> Member:
        """Whoever asked, or stands in for it; where nobody is left, the dead: its links stay in the frontier."""
        number = owner(outcome.lead)
        agent = self.manager.roll.answering(number)
        return self.members[agent.number if agent is not None else number if number in self.members else 1]

    def _take(self, member: Member, view: Outcome, outcome: Outcome) -> None:
        member.own.append(view)
        self._takers.setdefault(outcome.lead.key, []).append((member, view))

    def _share(self, outcome: Outcome, opinion: Opinion, asker: Member) -> None:
        """Somebody else has looked at the page too."""
        member = self.members[opinion.agent]
        if not member.agent.at_work:
            return
        view = seen_by(outcome, opinion.agent)
        if member.agent.card.topic != asker.agent.card.topic:
            if opinion.verdict.relevant and self._is_chosen(outcome, opinion):
                self._take(member, view, outcome)
            return
        if self.settings.exchange_lessons:
            member.lessons.append(view)
        if self.settings.exchange_links:
            self._offers.setdefault(outcome.lead.key, []).append((member, view))

    def _is_chosen(self, outcome: Outcome, opinion: Opinion) -> bool:
        """Of several agents of one topic the one that likes the page most gets it."""
        topic = self.members[opinion.agent].agent.card.topic
        opinions = outcome.analysis.opinions if outcome.analysis else ()
        rivals = [o for o in opinions if not o.error and self.members[o.agent].agent.card.topic == topic]
        return max(rivals, key=lambda o: (o.verdict.score, -o.agent)) is opinion

    def leads(self, outcome: Outcome) -> list[Lead]:
        """The links of a page, by each agent that took it, and those that others find promising."""
        found = []
        asker = self._asker(outcome)
        alone = [(asker, seen_by(outcome, asker.agent.number))]  # a page that was looked at again
        for member, view in self._takers.get(outcome.lead.key, alone):
            found += [tagged(lead, member.agent.number) for lead in member.leads(view)]
        for member, view in self._offers.get(outcome.lead.key, ()):
            fit = [lead for lead in member.leads(view) if member.agent.finds_promising(lead)]
            member.agent.card.received += len(fit)
            pair = asker.agent.card.name, member.agent.card.name
            if fit:
                self.exchanged[pair] = self.exchanged.get(pair, 0) + len(fit)
            found += [tagged(lead, member.agent.number) for lead in fit]
        return found


class CrewChooser:
    """See `Chooser`: each agent ranks for itself."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew

    def watch(self, outcomes: Sequence[Outcome]) -> None:
        self._crew.receive(outcomes)
        for member in self._crew.members.values():
            member.chooser.watch([*member.own, *member.lessons])

    def leads(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        return [self._crew.leads(outcome) for outcome in outcomes]

    def pass_over(self, keys: Sequence[int]) -> None:
        for member in self._crew.members.values():
            member.chooser.pass_over(keys)

    def changes(self) -> Iterable[tuple[str, int, float]]:
        for member in self._crew.members.values():
            for host, key, score in member.chooser.changes():
                member.agent.stack.rescore(key, score)
                yield host, key, score

    def correct(self, entry: Entry, before: float, after: float) -> None:
        member = self._crew.members.get(owner(entry.lead))
        if member is not None:
            member.chooser.correct(replace(entry, lead=untagged(entry.lead)), before, after)

    def save(self, now: float, *, at_end: bool = False) -> None:
        for member in self._crew.members.values():
            member.chooser.save(now, at_end=at_end)

    @property
    def expected(self) -> float | None:
        said = [member.chooser.expected for member in self._crew.members.values()]
        known = [value for value in said if value is not None]
        return sum(known) if known else None


class CrewLearning(Learning):
    """See `Learning`: each agent learns for itself; here they also report, show that they live, and exchange."""

    def __init__(self, crew: Crew, keeper: Keeper, now: float) -> None:
        self._crew = crew
        self._keeper = keeper
        cards = [member.agent.card for member in crew.members.values()]
        crew.manager.roll.directory.register(cards, now)
        self._news: list[Event] = [
            AgentRegistered(at=now, agent=card.name, topic=card.topic, seeds=card.seeds) for card in cards
        ]

    @property
    def finished(self) -> str:
        """Why no agent will move again (S3-03)."""
        return self._crew.manager.roll.finished

    @property
    def judge(self) -> LearnedJudge | None:
        return self._members[0].learning.judge

    def resume(self) -> dict[str, bytes]:
        changed: dict[str, bytes] = {}
        for member in self._members:
            changed |= member.learning.resume()
            member.told = member.living.version
        return changed

    @property
    def _members(self) -> list[Member]:
        return list(self._crew.members.values())

    def learn(
        self, outcomes: Sequence[Outcome], now: float, events: list[Event], lessons: Sequence[Outcome] = ()
    ) -> None:
        del lessons  # the crew knows who learns from what
        for member in self._members:
            if member.own or member.lessons or member.living.expansion.awaits_seeds:
                member.learning.learn(member.own, now, events, member.lessons)
        for outcome in outcomes:
            self._report(outcome)
        events += [VisitFailed(at=now, url=url, error=error) for url, error in self._crew.failed]
        for (giver, taker), count in self._crew.exchanged.items():
            events.append(AgentsExchanged(at=now, giver=giver, taker=taker, what="links", count=count))
        if self._crew.settings.exchange_words:
            events += self._exchange_words(now)
        self._crew.manager.roll.note_goals(now)
        events += self._news_of_all()
        self._crew.manager.roll.directory.save()

    def _report(self, outcome: Outcome) -> None:
        """Tell the directory what a page is to whoever looked at it."""
        asker = self._crew.manager.agents.get(owner(outcome.lead))
        reports = []
        for member in self._members:
            card = member.agent.card
            view = next((view for view in member.own if view.lead.key == outcome.lead.key), None)
            own = view is not None and (asker is None or asker is member.agent or not asker.at_work)
            card.fetched += own
            opinion = _opinion(outcome, card.number, own)
            if opinion is None or outcome.duplicate_of:
                card.pages += own and opinion is not None
                continue
            card.pages += own
            card.relevant += own and opinion.relevant
            card.shared += view is not None and not own
            reports.append(Report(outcome.lead.key, card.number, own, opinion.score, opinion.relevant))
        self._crew.manager.roll.directory.report(reports)

    def _exchange_words(self, now: float) -> list[Event]:
        """Whose table has changed tells the others of its topic the new words."""
        events: list[Event] = []
        for giver in [member for member in self._members if member.living.version != member.told]:
            giver.told = giver.living.version
            for taker in self._members:
                if taker is giver or not taker.agent.at_work or taker.agent.card.topic != giver.agent.card.topic:
                    continue
                if count := taker.living.hear(giver.living.table):
                    names = giver.agent.card.name, taker.agent.card.name
                    events.append(AgentsExchanged(at=now, giver=names[0], taker=names[1], what="words", count=count))
        return events

    def _news_of_all(self) -> list[Event]:
        news, self._news = [*self._news, *self._crew.manager.roll.news()], []
        return news

    def label(self, sample: bytes, relevant: bool | None, before: bool | None) -> None:
        for member in self._of_the_topic:
            member.learning.label(sample, relevant, before)

    def correct(self, links: Sequence[tuple[Lead, bool]]) -> None:
        known = [(untagged(lead), word) for lead, word in links]
        for member in self._of_the_topic:
            member.learning.correct(known)

    @property
    def heeds_labels(self) -> bool:
        return any(member.learning.heeds_labels for member in self._of_the_topic)

    @property
    def _of_the_topic(self) -> list[Member]:
        """A person's word is about the crawl's own topic, where an agent has that."""
        return [m for m in self._members if m.agent.card.topic == self._crew.topic] or self._members

    def keep(self, now: float) -> dict[str, bytes]:
        return {name: state for m in self._members for name, state in m.learning.keep(now).items()}

    def save(self, now: float) -> None:
        """At the end: everything, and what happened since the last commit."""
        for member in self._members:
            member.learning.save(now)
        self._crew.manager.roll.call(now)
        self._crew.manager.roll.directory.save()
        self._keeper.keep_events(self._news_of_all())


def seen_by(outcome: Outcome, number: int) -> Outcome:
    """An outcome as one agent sees it: with its own verdict and its own ranking where it has one."""
    mine = owner(outcome.lead) == number
    lead = untagged(outcome.lead) if mine else replace(outcome.lead, features=b"")
    analysis: Analysis | None = outcome.analysis
    if analysis is not None and analysis.opinions:
        own = next((o for o in analysis.opinions if o.agent == number and not o.error), analysis.opinions[0])
        analysis = replace(analysis, verdict=own.verdict, links=own.links, opinions=())
    return replace(outcome, lead=lead, analysis=analysis)


def _opinion(outcome: Outcome, number: int, own: bool) -> Verdict | None:
    """What an agent said of a page, if it said anything."""
    analysis = outcome.analysis
    if analysis is None or analysis.verdict is None:
        return None
    said = next((o.verdict for o in analysis.opinions if o.agent == number and not o.error), None)
    if said is None and own:
        said = analysis.opinions[0].verdict if analysis.opinions else analysis.verdict
    return said
