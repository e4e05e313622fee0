"""Analyzes a page for several agents: parsed and read once, judged by each agent concerned. Runs in the workers."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from opilio.core.page import Reading
from opilio.core.protocols import OnlineLearner
from opilio.core.records import AgentAnalysis, Analysis, FetchResult, Lead, Verdict
from opilio.engine.analysis import PageAnalyzer


class TeamAnalyzer(PageAnalyzer):
    """The agent that requested a page analyzes it; its `listeners` judge it too.

    `ranks`: agents that score the links of every page they judge; the others only those of relevant pages.
    """

    def __init__(
        self,
        analysts: Mapping[int, PageAnalyzer],
        listeners: Mapping[int, Sequence[int]],
        ranks: frozenset[int],
        learners: Mapping[str, OnlineLearner],
    ) -> None:
        first = analysts[min(analysts)]
        super().__init__(*first.parts, learners=learners, records=first.make_records)
        self._analyzers = analysts
        self._listeners = listeners
        self._always_rank = ranks

    def _analyze_reading(self, lead: Lead, fetched: FetchResult, reading: Reading) -> Analysis:
        """The requester's analysis with the listeners' verdicts; if the requester fails, another agent's analysis."""
        number = lead.agent if lead.agent in self._analyzers else min(self._analyzers)
        broken = list[AgentAnalysis]()
        for thinker in (number, *(n for n in self._analyzers if n != number)):
            try:
                analysis = self._analyzers[thinker]._analyze_reading(lead, fetched, reading)
            except Exception as error:  # noqa: BLE001 - an agent that fails must not cost the page; it is reported
                if thinker == number:
                    first = error
                broken.append(_failed_opinion(thinker, error))
                continue
            return self._with_opinions(analysis, thinker, broken, reading, lead)
        raise first

    def _with_opinions(
        self, analysis: Analysis, thinker: int, broken: list[AgentAnalysis], reading: Reading, lead: Lead
    ) -> Analysis:
        asker = broken[0].agent if broken else thinker
        silent = {opinion.agent for opinion in broken} | {thinker}
        others = [self._opinion(n, reading, lead) for n in self._listeners[asker] if n not in silent]
        if analysis.verdict is None or not (others or broken):
            return analysis
        mine = AgentAnalysis(agent=thinker, verdict=analysis.verdict, links=analysis.links)
        opinions = [mine, *(opinion for opinion in others if not opinion.error)]
        best = max(opinions, key=lambda o: (o.verdict.relevant, o.verdict.score)).verdict
        counts, surfaces = analysis.counts, analysis.surfaces
        if best.relevant and not counts:
            counts, surfaces = self.expansion_terms(reading)
        return replace(
            analysis, verdict=best, agent_analyses=(mine, *others, *broken), counts=counts, surfaces=surfaces
        )

    def _opinion(self, number: int, reading: Reading, lead: Lead) -> AgentAnalysis:
        analyst = self._analyzers[number]
        try:
            verdict = analyst.judge(reading)
            ranks = verdict.relevant or number in self._always_rank
            links = analyst.rank(reading, verdict, replace(lead, features=b"")) if ranks else b""
        except Exception as error:  # noqa: BLE001 - the same: what one agent can't judge is the others' page still
            return _failed_opinion(number, error)
        return AgentAnalysis(agent=number, verdict=verdict, links=links)


def _failed_opinion(number: int, error: Exception) -> AgentAnalysis:
    message = f"{type(error).__name__}: {error}"[:300]
    return AgentAnalysis(agent=number, verdict=Verdict(score=0.0, relevant=False), error=message)
