"""One page, several minds: parsed and read once, judged by whoever is concerned. Runs where an analyst runs."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from opilio.agents.tags import owner, untagged
from opilio.crawl.analyst import Analyst
from opilio.model.protocols import Learns
from opilio.model.records import Analysis, Fetched, Lead, Opinion, Reading, Verdict


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
        """What the asker thinks, with what the others say. Where its mind breaks, another thinks in its place."""
        number = owner(lead) if owner(lead) in self._analysts else min(self._analysts)
        own, broken = untagged(lead), list[Opinion]()
        for thinker in (number, *(n for n in self._analysts if n != number)):
            try:
                analysis = self._analysts[thinker]._think(own, fetched, reading)
            except Exception as error:  # noqa: BLE001 - an agent that fails must not cost the page; it is reported
                if thinker == number:
                    first = error
                broken.append(_broken(thinker, error))
                continue
            return self._with_others(analysis, thinker, broken, reading, own)
        raise first

    def _with_others(
        self, analysis: Analysis, thinker: int, broken: list[Opinion], reading: Reading, lead: Lead
    ) -> Analysis:
        asker = broken[0].agent if broken else thinker
        silent = {opinion.agent for opinion in broken} | {thinker}
        others = [self._opinion(n, reading, lead) for n in self._listeners[asker] if n not in silent]
        if analysis.verdict is None or not (others or broken):
            return analysis
        mine = Opinion(agent=thinker, verdict=analysis.verdict, links=analysis.links)
        said = [mine, *(opinion for opinion in others if not opinion.error)]
        best = max(said, key=lambda o: (o.verdict.relevant, o.verdict.score)).verdict
        counts, surfaces = analysis.counts, analysis.surfaces
        if best.relevant and not counts:
            counts, surfaces = self.words(reading)
        return replace(analysis, verdict=best, opinions=(mine, *others, *broken), counts=counts, surfaces=surfaces)

    def _opinion(self, number: int, reading: Reading, lead: Lead) -> Opinion:
        analyst = self._analysts[number]
        try:
            verdict = analyst.judge(reading)
            ranks = verdict.relevant or number in self._ranks
            links = analyst.rank(reading, verdict, replace(lead, features=b"")) if ranks else b""
        except Exception as error:  # noqa: BLE001 - the same: what one agent can't judge is the others' page still
            return _broken(number, error)
        return Opinion(agent=number, verdict=verdict, links=links)


def _broken(number: int, error: Exception) -> Opinion:
    said = f"{type(error).__name__}: {error}"[:300]
    return Opinion(agent=number, verdict=Verdict(score=0.0, relevant=False), error=said)
