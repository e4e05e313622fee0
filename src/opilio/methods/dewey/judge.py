"""The judge `dewey`: is the densest area of a page's D-numbers a class of the topic? (S2-11, S2-21, S2-38)"""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from opilio.core.errors import ConfigError, TopicError
from opilio.core.page import Reading
from opilio.core.protocols import Judge
from opilio.core.records import Reason, Verdict
from opilio.core.settings import Positive, Share
from opilio.methods.dewey.detect import PAPER_RULE, RECOMMENDED_RULE, Galaxy, GalaxyRule, LexiconMatcher, main_galaxy
from opilio.methods.dewey.target import dewey_target
from opilio.topic.build_context import BuildContext

DEWEY_REASONS = 5
DEWEY_THRESHOLD = 0.5


class DeweyJudge:
    """Score = t / (t + o): t the best cell of the topic's classes, o the best cell of all others.

    So 0.5 is reached where the galaxy itself is of the topic, and 0.2 where any cell except outliers is: both readings
    of S2-E6 are thresholds. A page without an index term is unknown, that is, off topic.
    """

    def __init__(
        self,
        matcher: LexiconMatcher,
        classes: Sequence[str],
        rule: GalaxyRule = RECOMMENDED_RULE,
        threshold: float = DEWEY_THRESHOLD,
    ) -> None:
        if not classes:
            raise TopicError('judge.kind = "dewey" needs classes: give topic.dewey, for example ["598"]')
        if not 0.0 <= threshold <= 1.0:
            raise ConfigError(f"judge.threshold: must be between 0 and 1, not {threshold}")
        self.matcher = matcher
        self.classes = tuple(classes)
        self.rule = rule
        self.threshold = threshold

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        galaxy = main_galaxy(reading, self.matcher, self.rule)
        score = galaxy.closeness(self.classes)
        relevant = bool(galaxy.ranked) and score > 0.0 and score >= self.threshold
        return Verdict(score=score, relevant=relevant, reasons=(Reason("dewey", score), *self._cells(galaxy)))

    def _cells(self, galaxy: Galaxy) -> list[Reason]:
        """The best classes by their share of the best one's score."""
        best = galaxy.ranked[0].score if galaxy.ranked else 1.0
        name_of = self.matcher.lexicon.name_of
        return [Reason(f"{code} {name_of(code)}", score / best) for code, score in galaxy.ranked[:DEWEY_REASONS]]


DeweyWeighting = Literal["ours", "paper"]
WEIGHTING_RULES: dict[DeweyWeighting, GalaxyRule] = {"ours": RECOMMENDED_RULE, "paper": PAPER_RULE}


def dewey_judge(
    context: BuildContext,
    *,
    weighing: DeweyWeighting = "ours",
    max_length: Positive = 3,
    threshold: Share = DEWEY_THRESHOLD,
) -> Judge:
    """See `DeweyJudge`; `weighing` is how dots count: as in the paper, or less for common and ambiguous words."""
    target = context.shared(dewey_target)
    return DeweyJudge(
        target.matcher, target.classes, replace(WEIGHTING_RULES[weighing], max_length=max_length), threshold
    )
