"""Agents in the writing process: each takes the responses to its requests, and learns for itself.

`TeamLinkScorer` and `TeamLearning` take the place of a single crawler's scorer and learners in a commit. Between the
two calls of a commit the team remembers which agent takes which outcome. A page goes to the agents of all topics it is
relevant to; among agents of one topic it goes to the requester only, unless they exchange pages (S3-08, S3-F3).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from opilio.core.events import AgentRegistered, AgentsExchanged, Event, VisitFailed
from opilio.core.protocols import FrontierEntry, LinkExplanation, LinkScorer
from opilio.core.records import AgentAnalysis, Analysis, Lead, Outcome, Reading, Verdict
from opilio.core.settings import AgentTeamSettings
from opilio.engine.learning import LearnerGroup
from opilio.methods.agents.agent import DORMANT_STATES, Agent, AgentReport, Population
from opilio.methods.agents.manager import AgentManager
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import EvolvingTopic


@dataclass(slots=True)
class TeamMember:
    """An agent with its learners."""

    agent: Agent
    evolving_topic: EvolvingTopic
    link_scorer: LinkScorer
    learning: LearnerGroup
    # The version of its table that the others have.
    shared_version: int = 0
    # Outcomes of this commit that count as its own.
    own_outcomes: list[Outcome] = field(default_factory=list)
    # Outcomes of this commit that it only learns from.
    shared_outcomes: list[Outcome] = field(default_factory=list)

    def score_links(self, view: Outcome) -> list[Lead]:
        """The links of a page with this agent's scores."""
        return self.link_scorer.score_links([view])[0]


class AgentTeam:
    """Assigns the outcomes of a commit to agents."""

    def __init__(
        self, members: Sequence[TeamMember], manager: AgentManager, settings: AgentTeamSettings, topic: str
    ) -> None:
        self.members = {member.agent.number: member for member in members}
        self.manager = manager
        self.settings = settings
        self.topic = topic
        # Links passed on, by giver and taker.
        self.exchanged_links: dict[tuple[str, str], int] = {}
        # (agent, error) of failed analyses.
        self.failures: list[tuple[str, str]] = []
        self._takers: dict[int, list[tuple[TeamMember, Outcome]]] = {}
        self._offers: dict[int, list[tuple[TeamMember, Outcome]]] = {}

    def assign_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Assign every outcome to the agents it is for."""
        self._takers, self._offers, self.exchanged_links = {}, {}, {}
        for member in self.members.values():
            member.own_outcomes, member.shared_outcomes = [], []
        self.failures = []
        for outcome in outcomes:
            taker = self._requester(outcome)
            self._assign(taker, outcome_for_agent(outcome, taker.agent.number), outcome)
            for opinion in outcome.analysis.agent_analyses if outcome.analysis else ():
                self._count_failures(outcome, opinion)
                if opinion.error:
                    continue
                if opinion.agent not in (outcome.lead.agent, taker.agent.number):
                    self._offer(outcome, opinion, taker)

    def _count_failures(self, outcome: Outcome, opinion: AgentAnalysis) -> None:
        """Count pages in a row at which an agent's analysis failed."""
        agent = self.members[opinion.agent].agent
        agent.consecutive_failures = agent.consecutive_failures + 1 if opinion.error else 0
        if opinion.error:
            self.failures.append((outcome.lead.url, f"{agent.record.name}: {opinion.error}"))

    def _requester(self, outcome: Outcome) -> TeamMember:
        """The agent that requested the page, or its substitute; without one, the missing agent itself."""
        number = outcome.lead.agent
        agent = self.manager.roster.active_agent_for(number)
        return self.members[agent.number if agent is not None else number if number in self.members else 1]

    def _assign(self, member: TeamMember, view: Outcome, outcome: Outcome) -> None:
        member.own_outcomes.append(view)
        self._takers.setdefault(outcome.lead.key, []).append((member, view))

    def _offer(self, outcome: Outcome, opinion: AgentAnalysis, asker: TeamMember) -> None:
        """Assign a page to another agent that judged it."""
        member = self.members[opinion.agent]
        if not member.agent.is_active:
            return
        view = outcome_for_agent(outcome, opinion.agent)
        if member.agent.record.topic != asker.agent.record.topic:
            if opinion.verdict.relevant and self._likes_it_most(outcome, opinion):
                self._assign(member, view, outcome)
            return
        if self.settings.exchange_lessons:
            member.shared_outcomes.append(view)
        if self.settings.exchange_links:
            self._offers.setdefault(outcome.lead.key, []).append((member, view))

    def _likes_it_most(self, outcome: Outcome, opinion: AgentAnalysis) -> bool:
        """Of several agents of one topic the one with the highest score gets the page."""
        topic = self.members[opinion.agent].agent.record.topic
        opinions = outcome.analysis.agent_analyses if outcome.analysis else ()
        rivals = [o for o in opinions if not o.error and self.members[o.agent].agent.record.topic == topic]
        return max(rivals, key=lambda o: (o.verdict.score, -o.agent)) is opinion

    def score_links(self, outcome: Outcome) -> list[Lead]:
        """The links of a page, scored by each agent that took it, and those that others find promising."""
        found = []
        asker = self._requester(outcome)
        # A page that was revisited.
        alone = [(asker, outcome_for_agent(outcome, asker.agent.number))]
        for member, view in self._takers.get(outcome.lead.key, alone):
            found += [replace(lead, agent=member.agent.number) for lead in member.score_links(view)]
        for member, view in self._offers.get(outcome.lead.key, ()):
            fit = [lead for lead in member.score_links(view) if member.agent.is_promising(lead)]
            member.agent.record.received += len(fit)
            pair = asker.agent.record.name, member.agent.record.name
            if fit:
                self.exchanged_links[pair] = self.exchanged_links.get(pair, 0) + len(fit)
            found += [replace(lead, agent=member.agent.number) for lead in fit]
        return found


class TeamLinkScorer:
    """See `LinkScorer`: each agent scores for itself."""

    def __init__(self, team: AgentTeam) -> None:
        self._team = team

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        self._team.assign_outcomes(outcomes)
        for member in self._team.members.values():
            member.link_scorer.observe([*member.own_outcomes, *member.shared_outcomes])

    def score_links(self, outcomes: Sequence[Outcome]) -> list[list[Lead]]:
        return [self._team.score_links(outcome) for outcome in outcomes]

    def discard(self, keys: Sequence[int]) -> None:
        for member in self._team.members.values():
            member.link_scorer.discard(keys)

    def rescored(self) -> Iterable[tuple[str, int, float]]:
        for member in self._team.members.values():
            for host, key, score in member.link_scorer.rescored():
                member.agent.queue.rescore(key, score)
                yield host, key, score

    def explored(self) -> list[tuple[str, int]]:
        return [link for member in self._team.members.values() for link in member.link_scorer.explored()]

    def correct(self, entry: FrontierEntry, before: float, after: float) -> None:
        member = self._team.members.get(entry.lead.agent)
        if member is not None:
            member.link_scorer.correct(entry, before, after)

    @property
    def learns_from_labels(self) -> bool:
        return any(member.link_scorer.learns_from_labels for member in self._team.members.values())

    def explain(self, entry: FrontierEntry, parent: Reading | None = None) -> LinkExplanation | None:
        member = self._team.members.get(entry.lead.agent)
        return member.link_scorer.explain(entry, parent) if member is not None else None

    def save(self, now: float, *, at_end: bool = False) -> None:
        for member in self._team.members.values():
            member.link_scorer.save(now, at_end=at_end)

    @property
    def expected_relevant(self) -> float | None:
        values = [member.link_scorer.expected_relevant for member in self._team.members.values()]
        known = [value for value in values if value is not None]
        return sum(known) if known else None


class TeamLearning(LearnerGroup):
    """See `LearnerGroup`: each agent learns for itself; agents also report, renew their leases and exchange words."""

    def __init__(
        self, team: AgentTeam, writer: CollectionWriter, now: float, population: Population | None = None
    ) -> None:
        self._team = team
        self._population = population
        self._writer = writer
        cards = [member.agent.record for member in team.members.values()]
        team.manager.roster.directory.register(cards, now)
        self._events: list[Event] = [
            AgentRegistered(at=now, agent=card.name, topic=card.topic, seeds=card.seeds)
            for card in cards
            if card.state not in DORMANT_STATES
        ]

    @property
    def finish_reason(self) -> str:
        """Why no agent will fetch again (S3-03)."""
        return self._team.manager.roster.finish_reason

    def resume(self) -> dict[str, bytes]:
        changed: dict[str, bytes] = {}
        for member in self._members:
            changed |= member.learning.resume()
            member.shared_version = member.evolving_topic.version
        return changed

    @property
    def _members(self) -> list[TeamMember]:
        return list(self._team.members.values())

    def learn(
        self, outcomes: Sequence[Outcome], now: float, events: list[Event], shared: Sequence[Outcome] = ()
    ) -> None:
        # The team decides which agent learns from which page.
        del shared
        for member in self._members:
            if member.own_outcomes or member.shared_outcomes or member.evolving_topic.expansion.waits_for_seeds:
                member.learning.learn(member.own_outcomes, now, events, member.shared_outcomes)
        for outcome in outcomes:
            self._report(outcome)
        events += [VisitFailed(at=now, url=url, error=error) for url, error in self._team.failures]
        for (giver, taker), count in self._team.exchanged_links.items():
            events.append(AgentsExchanged(at=now, giver=giver, taker=taker, what="links", count=count))
        if self._team.settings.exchange_words:
            events += self._exchange_words(now)
        if self._population is not None:
            events += self._population.update(now)
        self._team.manager.roster.update_goals(now)
        events += self._take_events()
        self._team.manager.roster.directory.save()

    def _report(self, outcome: Outcome) -> None:
        """Report to the directory the verdict of each agent that judged the page."""
        asker = self._team.manager.agents.get(outcome.lead.agent)
        reports = []
        for member in self._members:
            card = member.agent.record
            view = next((view for view in member.own_outcomes if view.lead.key == outcome.lead.key), None)
            own = view is not None and (asker is None or asker is member.agent or not asker.is_active)
            card.fetched += own
            opinion = _verdict_of_agent(outcome, card.number, own)
            if opinion is None or outcome.duplicate_of:
                card.pages += own and opinion is not None
                continue
            card.pages += own
            card.relevant += own and opinion.relevant
            card.shared += view is not None and not own
            reports.append(AgentReport(outcome.lead.key, card.number, own, opinion.score, opinion.relevant))
        self._team.manager.roster.directory.add_reports(reports)

    def _exchange_words(self, now: float) -> list[Event]:
        """Agents whose table has changed send the new words to the others of their topic."""
        events: list[Event] = []
        for giver in [member for member in self._members if member.evolving_topic.version != member.shared_version]:
            giver.shared_version = giver.evolving_topic.version
            for taker in self._members:
                if taker is giver or not taker.agent.is_active or taker.agent.record.topic != giver.agent.record.topic:
                    continue
                if count := taker.evolving_topic.merge_words(giver.evolving_topic.table):
                    names = giver.agent.record.name, taker.agent.record.name
                    events.append(AgentsExchanged(at=now, giver=names[0], taker=names[1], what="words", count=count))
        return events

    def _take_events(self) -> list[Event]:
        news, self._events = [*self._events, *self._team.manager.roster.take_events()], []
        return news

    def label(self, sample: bytes, relevant: bool | None, before: bool | None) -> None:
        for member in self._topic_members:
            member.learning.label(sample, relevant, before)

    def correct_verdicts(self, links: Sequence[tuple[Lead, bool]]) -> None:
        for member in self._topic_members:
            member.learning.correct_verdicts(links)

    def retire_agent(self, name: str, now: float) -> list[Event]:
        roster = self._team.manager.roster
        roster.retire(name, now)
        roster.directory.save()
        return self._take_events()

    @property
    def learns_from_labels(self) -> bool:
        return any(member.learning.learns_from_labels for member in self._topic_members)

    @property
    def _topic_members(self) -> list[TeamMember]:
        """The agents that learn from labels: those of the crawl's own topic, if there are any."""
        return [m for m in self._members if m.agent.record.topic == self._team.topic] or self._members

    def save_changed(self, now: float) -> dict[str, bytes]:
        return {name: state for m in self._members for name, state in m.learning.save_changed(now).items()}

    def save_all(self, now: float) -> None:
        """At the end: save everything, with the events since the last commit."""
        for member in self._members:
            member.learning.save_all(now)
        self._team.manager.roster.final_check(now)
        self._team.manager.roster.directory.save()
        self._writer.write_events(self._take_events())


def outcome_for_agent(outcome: Outcome, number: int) -> Outcome:
    """An outcome as one agent sees it: with its own verdict and its own link scores, if it has them."""
    lead = outcome.lead if outcome.lead.agent == number else replace(outcome.lead, features=b"")
    analysis: Analysis | None = outcome.analysis
    if analysis is not None and analysis.agent_analyses:
        own = next(
            (o for o in analysis.agent_analyses if o.agent == number and not o.error), analysis.agent_analyses[0]
        )
        analysis = replace(analysis, verdict=own.verdict, links=own.links, agent_analyses=())
    return replace(outcome, lead=lead, analysis=analysis)


def _verdict_of_agent(outcome: Outcome, number: int, own: bool) -> Verdict | None:
    """The verdict of an agent on a page, if it has one."""
    analysis = outcome.analysis
    if analysis is None or analysis.verdict is None:
        return None
    verdict = next((o.verdict for o in analysis.agent_analyses if o.agent == number and not o.error), None)
    if verdict is None and own:
        verdict = analysis.agent_analyses[0].verdict if analysis.agent_analyses else analysis.verdict
    return verdict
