"""The links of a page with their scores, one by one: what a ranker returns in columns, with full precision."""

from typing import NamedTuple

from opilio.core.protocols import Ranker
from opilio.core.records import Lead, Link, Reading, Reason, Verdict
from opilio.rank.link_scores import LinkScores


class ScoredLink(NamedTuple):
    link: Link
    score: float
    parts: tuple[Reason, ...]
    dropped: str
    features: bytes


def scored_links(ranker: Ranker, reading: Reading, verdict: Verdict, lead: Lead) -> list[ScoredLink]:
    scores = ranker.score(reading, verdict, lead)
    assert isinstance(scores, LinkScores)
    return links_of(scores, reading.page.links)


def links_of(scores: LinkScores, links: tuple[Link, ...]) -> list[ScoredLink]:
    return [
        ScoredLink(
            link,
            float(scores.scores[at]),
            tuple(Reason(n, float(column[at]), scores.weights.get(n, 1.0)) for n, column in scores.parts.items()),
            scores.dropped.get(at, ""),
            scores.features[at] if scores.features else b"",
        )
        for at, link in enumerate(links)
    ]
