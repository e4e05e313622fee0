"""The kinds of orders that a configuration can name for the frontier, with their options."""

from opilio.core.errors import ConfigError
from opilio.core.settings import Count, Positive, Seconds
from opilio.frontier.policy import Aging, AgingMode, BestFirst, BreadthFirst, Expiring, NBest, Order


def best_first_order(*, top: Count = 0) -> Order:
    return BestFirst(max_per_lease=top)


def breadth_first_order() -> Order:
    return BreadthFirst()


def n_best_order(*, n: Positive = 256) -> Order:
    return NBest(n=n)


def expiring_order(*, lifetime_s: Seconds = 3600.0, top: Count = 0) -> Order:
    return Expiring(lifetime_s=lifetime_s, max_per_lease=top)


def aging_order(*, factor: float = 0.05, every: Positive = 100, mode: AgingMode = "base_tiebreak") -> Order:
    if not 0.0 < factor <= 1.0:
        raise ConfigError(f'order.factor = {factor}: must be above 0, at most 1; with order.mode = "off" nothing rises')
    return Aging(factor=factor, every=every, mode=mode)
