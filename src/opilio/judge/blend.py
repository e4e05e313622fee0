"""Several judges as one: the weighted mean of their scores."""

from collections.abc import Sequence

from opilio.model.errors import ConfigError
from opilio.model.protocols import Judge
from opilio.model.records import Reading, Reason, Verdict


class BlendJudge:
    """Mean of scores by weight, against one threshold. `judges` are (name, judge, weight)."""

    def __init__(
        self, judges: Sequence[tuple[str, Judge, float]], threshold: float = 0.5, strict: bool = False
    ) -> None:
        if not judges or any(w < 0 for _, _, w in judges) or not sum(w for _, _, w in judges):
            raise ConfigError("judge.blend: give at least one judge with a weight above 0, and none below 0")
        self.judges = tuple(judges)
        self.threshold = threshold
        self.strict = strict

    def judge(self, reading: Reading) -> Verdict:
        """See `Judge`."""
        total = sum(weight for _, _, weight in self.judges)
        score = 0.0
        named: list[Reason] = []
        inner: list[Reason] = []
        for name, judge, weight in self.judges:
            verdict = judge.judge(reading)
            score += verdict.score * weight / total
            named.append(Reason(name, verdict.score, weight / total))
            inner.extend(verdict.reasons)
        score = min(1.0, score)
        relevant = score > self.threshold if self.strict else score >= self.threshold
        return Verdict(score=score, relevant=relevant, reasons=(Reason("blend", score), *named, *inner))
