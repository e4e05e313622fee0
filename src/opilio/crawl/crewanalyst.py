"""One page, several minds: parsed and read once, judged by whoever is concerned. Runs where an analyst runs."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from opilio.agents.tags import owner, untagged
from opilio.crawl.analyst import Analyst
from opilio.model.protocols import Learns
from opilio.model.records import Analysis, Fetched, Lead, Opinion, Reading


class CrewAnalyst(Analyst):
    """The agent that asked for a page analyses it; `listeners` of that agent say what they think of it too.

    `ranks`: listeners rank the links of every page; else only of those they find relevant.
    """

    def __init__(
        self,
        analysts: Mapping[int, Analyst],
        listeners: Mapping[int, Sequence[int]],
        ranks: frozenset[int],
        learners: Mapping[str, Learns],
    ) -> None:
        first = analysts[min(analysts)]
        super().__init__(*first.parts, learners=learners, records=first.records)
        self._analysts = analysts
        self._listeners = listeners
        self._ranks = ranks

    def _think(self, lead: Lead, fetched: Fetched, reading: Reading) -> Analysis:
        number = owner(lead) if owner(lead) in self._analysts else min(self._analysts)
        asker, own = self._analysts[number], untagged(lead)
        analysis = asker._think(own, fetched, reading)
        others = [self._opinion(n, reading, own) for n in self._listeners[number]]
        if not others or analysis.verdict is None:
            return analysis
        mine = Opinion(agent=number, verdict=analysis.verdict, links=analysis.links)
        best = max((mine, *others), key=lambda o: (o.verdict.relevant, o.verdict.score)).verdict
        counts, surfaces = analysis.counts, analysis.surfaces
        if best.relevant and not counts:
            counts, surfaces = asker.words(reading)
        return replace(analysis, verdict=best, opinions=(mine, *others), counts=counts, surfaces=surfaces)

    def _opinion(self, number: int, reading: Reading, lead: Lead) -> Opinion:
        analyst = self._analysts[number]
        verdict = analyst.judge(reading)
        ranks = verdict.relevant or number in self._ranks
        links = analyst.rank(reading, verdict, replace(lead, features=b"")) if ranks else b""
        return Opinion(agent=number, verdict=verdict, links=links)
