"""What becomes of a queued URL that is found again (X-15): pure.

The first score never wins just by being first, unless the policy is `discard`.
"""

from enum import StrEnum
from typing import NamedTuple

from opilio.frontier.order import sane
from opilio.model.records import Lead

MAX_PARENTS = 5


class Merge(StrEnum):
    """How the score of another link to the same URL counts."""

    MAX = "max"  # the better one (default)
    DISCARD = "discard"  # the first one (S0-07, S4-21)
    SUM = "sum"  # added up over parents (S3-17)
    NOISY_OR = "noisy-or"  # either of them may be right


AGGREGATES = frozenset({Merge.SUM, Merge.NOISY_OR})  # every new parent changes the score


class Context(NamedTuple):
    """What is known of a queued URL as far as merging goes."""

    score: float
    depth: int
    tunnel: int
    parent: int
    parents: tuple[int, ...]  # first finder first, at most MAX_PARENTS
    better: bool = False  # the new link became the one whose features count


def combined(policy: Merge, old: float, new: float) -> float:
    """The score of a URL that has both.

    >>> combined(Merge.MAX, 0.2, 0.5), combined(Merge.SUM, 0.25, 0.5), combined(Merge.NOISY_OR, 0.5, 0.5)
    (0.5, 0.75, 0.75)
    """
    if policy is Merge.DISCARD:
        return old
    if policy is Merge.SUM:
        return old + max(0.0, new)
    if policy is Merge.NOISY_OR and 0.0 <= old <= 1.0 and 0.0 <= new <= 1.0:
        return 1.0 - (1.0 - old) * (1.0 - new)
    return max(old, new)


def merge(policy: Merge, known: Context, lead: Lead) -> Context:
    """What is known after another link. Sums count a parent once, and at most MAX_PARENTS of them."""
    score = sane(lead.score)
    fresh = lead.parent != 0 and lead.parent not in known.parents and len(known.parents) < MAX_PARENTS
    counts = fresh or policy not in AGGREGATES
    total = combined(policy, known.score, score) if counts else known.score
    parents = (*known.parents, lead.parent) if fresh else known.parents
    depth = min(known.depth, lead.depth)
    better = policy is not Merge.DISCARD and (
        score > known.score or (score == known.score and lead.tunnel < known.tunnel)
    )
    if better:
        return Context(total, depth, lead.tunnel, lead.parent, parents, True)
    return Context(total, depth, known.tunnel, known.parent, parents)
