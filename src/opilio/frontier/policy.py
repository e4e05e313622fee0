"""The policies of a frontier: the order of queued URLs, how scores are merged, limits, refusals, and patience.

An order turns a score into a *sort key* that stays valid while the entry waits, so that nothing is re-sorted, and
optionally into a *timer* on which the frontier acts (aging saturates, expiry deletes). Ties are broken by the order of
discovery. A merge policy decides the score of a queued URL that is found again (X-15): the first score never wins just
by being first, unless the policy is `discard`.

With patience, links wait while a much better one is in flight or waits for its host: the good pages of a topic are
often on few hosts, and a host is asked once per delay. A crawl that never lets a connection idle spends most of its
page limit on poor links of other hosts in the meantime (docs/lab/committee.md).

All policies are pure: they hold no entries, read no clock and do no I/O.
"""

from collections.abc import Callable, Set
from enum import StrEnum
from math import ceil, inf, isfinite, log
from random import Random
from typing import Literal, NamedTuple, Protocol

import msgspec

from opilio.core.errors import ConfigError
from opilio.core.records import Lead, Tier
from opilio.core.settings import Amount, Count, Positive, Seconds, Share

AgingMode = Literal["arrival", "paper", "base_tiebreak", "off"]


class QueuePosition(NamedTuple):
    """Where an entry is queued: tier and sort key (higher is sooner), and when the frontier must reposition it."""

    priority: float
    timer: float | None = None
    tier: int = Tier.LINK


class QueueTime(NamedTuple):
    """When: how many URLs were ever inserted, and the time (None keeps an entry's time stamp)."""

    inserted: int
    now: float | None = None


class Order(Protocol):
    """Orders queued URLs.

    `batch_size` > 0: N-best. `max_per_lease` > 0: at most this many URLs per lease (S3-25). `drops_expired`: a due
    timer deletes.
    """

    @property
    def batch_size(self) -> int: ...

    @property
    def max_per_lease(self) -> int: ...

    @property
    def drops_expired(self) -> bool: ...

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition: ...

    def due_before(self, moment: QueueTime) -> float | None: ...

    def display_priority(self, priority: float, inserted: int) -> float: ...


def first_position(order: Order, lead: Lead, seq: int, moment: QueueTime) -> QueuePosition:
    """The position of a new URL. Seeds are sorted by their score alone, whatever the order (S0-E12)."""
    if lead.tier == Tier.FIRST:
        return QueuePosition(finite_or_zero(lead.score), tier=Tier.FIRST)
    return order.position(finite_or_zero(lead.score), seq, moment)


def reposition(order: Order, score: float, seq: int, moment: QueueTime, previous: QueuePosition) -> QueuePosition:
    """The position after a new score. The tier stays; in tiers above the order's own the sort key stays too."""
    if previous.tier > Tier.FIRST:
        return previous
    place = order.position(score, seq, moment, previous)
    return place if place.tier == previous.tier else place._replace(tier=previous.tier)


def merged_position(
    order: Order, lead: Lead, score: float, seq: int, moment: QueueTime, previous: QueuePosition
) -> QueuePosition:
    """The position of a queued URL after another link to it gave it this score; it rises if that is a seed."""
    if lead.tier > previous.tier:
        return first_position(order, lead, seq, moment)
    return reposition(order, score, seq, moment, previous)


def finite_or_zero(score: float) -> float:
    """A score that can be sorted: NaN or infinity from a broken model must not stop the crawl."""
    return score if isfinite(score) else 0.0


class BestFirst(msgspec.Struct, frozen=True, kw_only=True):
    """The best score first."""

    max_per_lease: int = 0

    @property
    def batch_size(self) -> int:
        return 0

    @property
    def drops_expired(self) -> bool:
        return False

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition:
        return QueuePosition(score)

    def due_before(self, moment: QueueTime) -> float | None:
        return None

    def display_priority(self, priority: float, inserted: int) -> float:
        return priority


class Boltzmann(BestFirst, frozen=True, kw_only=True):
    """A link is chosen with a probability proportional to exp(score / temperature) (InfoSpiders, S1-11).

    The largest of the scores with noise of Gumbel's distribution is such a choice, also among the links that are left.
    """

    temperature: float = 0.1

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition:
        # The noise of an entry stays the same while it waits. `random()` may return 0.
        uniform = Random(seq).random() or 1e-300
        return QueuePosition(score - self.temperature * log(-log(uniform)))


class BreadthFirst(BestFirst, frozen=True, kw_only=True):
    """The order of discovery, whatever the score."""

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition:
        return QueuePosition(0.0)


class NBest(BestFirst, frozen=True, kw_only=True):
    """Choose the N best, fetch all of them, choose again (S1-11).

    The frontier moves the chosen ones to `Tier.FIRST` and leases no lower tier while one of them is queued.
    """

    n: int = 256

    @property
    def batch_size(self) -> int:
        return self.n


class Expiring(BestFirst, frozen=True, kw_only=True):
    """Best first, but an entry that waited longer than its lifetime is deleted, never requested (S3-27, S3-28).

    A better score found later is an update and renews the time stamp; learning (`now` None) does not.
    """

    lifetime_s: float = 3600.0

    @property
    def drops_expired(self) -> bool:
        return True

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition:
        if moment.now is None:
            return QueuePosition(score, previous.timer if previous else None)
        return QueuePosition(score, moment.now + self.lifetime_s)

    def due_before(self, moment: QueueTime) -> float | None:
        return moment.now


class Aging(BestFirst, frozen=True, kw_only=True):
    """Waiting entries rise: after every `every` insertions `factor` is added to each entry below 1 (S2-39).

    Done lazily (S2-E5): all entries below 1 rise alike, so `base - factor * round of entry` orders them permanently.
    The paper does not say in which order entries at 1 leave. In mode `arrival` those that reached 1 first leave first,
    within one round by score: the same sum orders them, and an entry of score s waits for later ones of at most
    (1 - s) / factor rounds, so none starves. In the other modes the timer is the round in which an entry reaches 1:
    there `paper` takes the order of discovery, which forgets the scores after as many rounds, and `base_tiebreak` the
    score they came with: a steady stream of better links keeps a weak one waiting forever. `off` is best-first.
    """

    factor: float = 0.05
    every: int = 100
    mode: AgingMode = "arrival"

    def rounds_to_saturate(self, score: float) -> int:
        """How many rounds lift a score to 1.

        >>> Aging().rounds_to_saturate(0.01), Aging(factor=0.02).rounds_to_saturate(0.01)
        (20, 50)
        """
        # A whole number of steps must not become one more by a rounding error of 1e-16.
        return max(0, ceil((1.0 - score) / self.factor - 1e-9))

    def position(
        self, score: float, seq: int, moment: QueueTime, previous: QueuePosition | None = None
    ) -> QueuePosition:
        if self.mode == "off":
            return QueuePosition(score)
        entered = (seq - 1) // self.every
        if self.mode == "arrival":
            # Scores above 1 do not rise.
            return QueuePosition(score if score > 1.0 else round(score - self.factor * entered, 6))
        ripe = entered + self.rounds_to_saturate(score)
        if moment.inserted // self.every >= ripe:
            return QueuePosition(max(score, 1.0) + self._tiebreak(score))
        return QueuePosition(round(score - self.factor * entered, 6) + self._tiebreak(score), float(ripe))

    def _tiebreak(self, score: float) -> float:
        # Below the sixth digit, to which keys are rounded: it decides between equals only.
        return 1e-8 * score if self.mode == "base_tiebreak" else 0.0

    def due_before(self, moment: QueueTime) -> float | None:
        return None if self.mode in ("arrival", "off") else float(moment.inserted // self.every)

    def display_priority(self, priority: float, inserted: int) -> float:
        if self.mode == "off":
            return priority
        if priority >= 1.0:
            return round(priority, 6)
        return min(1.0, round(priority + self.factor * (inserted // self.every), 6))


MAX_PARENTS = 5


class MergePolicy(StrEnum):
    """How the score of another link to the same URL counts."""

    MAX = "max"  # the better one (default)
    DISCARD = "discard"  # the first one (S4-21)
    SUM = "sum"  # added up over parents (S3-17)
    NOISY_OR = "noisy-or"  # either of them may be right


# With these policies every new parent changes the score.
AGGREGATING_POLICIES = frozenset({MergePolicy.SUM, MergePolicy.NOISY_OR})


class MergeState(NamedTuple):
    """The part of a queued URL's state that merging uses."""

    score: float
    depth: int
    tunnel: int
    parent: int
    # First finder first, at most MAX_PARENTS.
    parents: tuple[int, ...]
    # The new link became the one whose features count.
    better: bool = False


def combine_scores(policy: MergePolicy, old: float, new: float) -> float:
    """The score of a URL that has both.

    >>> (combine_scores(MergePolicy.MAX, 0.2, 0.5), combine_scores(MergePolicy.SUM, 0.25, 0.5),
    ...  combine_scores(MergePolicy.NOISY_OR, 0.5, 0.5))
    (0.5, 0.75, 0.75)
    """
    if policy is MergePolicy.DISCARD:
        return old
    if policy is MergePolicy.SUM:
        return old + max(0.0, new)
    if policy is MergePolicy.NOISY_OR and 0.0 <= old <= 1.0 and 0.0 <= new <= 1.0:
        return 1.0 - (1.0 - old) * (1.0 - new)
    return max(old, new)


def merge_link(policy: MergePolicy, known: MergeState, lead: Lead) -> MergeState:
    """The state after another link. Sums count a parent once, and at most MAX_PARENTS of them."""
    score = finite_or_zero(lead.score)
    fresh = lead.parent != 0 and lead.parent not in known.parents and len(known.parents) < MAX_PARENTS
    counts = fresh or policy not in AGGREGATING_POLICIES
    total = combine_scores(policy, known.score, score) if counts else known.score
    parents = (*known.parents, lead.parent) if fresh else known.parents
    depth = min(known.depth, lead.depth)
    better = policy is not MergePolicy.DISCARD and (
        score > known.score or (score == known.score and lead.tunnel < known.tunnel)
    )
    if better:
        return MergeState(total, depth, lead.tunnel, lead.parent, parents, True)
    return MergeState(total, depth, known.tunnel, known.parent, parents)


# Reasons recorded with dropped URLs.
FRONTIER_FULL = "frontier full"
HOST_TOTAL_REACHED = "host total reached"
EXPIRED = "expired"


class FrontierLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much a frontier may hold; 0 means no limit. Refused and dropped URLs are recorded with the reason."""

    # Above it the entries of lowest priority are dropped in batches.
    queued: int = 0
    host_total: int = 0  # URLs ever accepted from one host

    @property
    def slack(self) -> int:
        """How far `queued` may be exceeded before a batch is dropped: it makes dropping cheap."""
        return self.queued // 16


def any_url(_url: str) -> bool:
    """Match every URL."""
    return True


def refuse_nothing(*_: object) -> str:
    """Refuse no URL."""
    return ""


class FrontierPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a frontier decides. `refusal_reason` returns why a new URL must not be queued, or "" (see `UrlFilter`)."""

    order: Order = BestFirst()
    merge: MergePolicy = MergePolicy.MAX
    limits: FrontierLimits = FrontierLimits()
    refusal_reason: Callable[[Lead], str] = refuse_nothing
    # Hosts that the user wants first. The set may change: the SQLite frontier reads it for every lease.
    boosted: Set[str] = frozenset()
    # Between requests to a host that has no delay of its own.
    delay_s: float = 1.0
    # While a better link is in flight or waits for its host, links below this share of its sort key wait too.
    patience: float = 0.0


def best_first_order(*, top: Count = 0, temperature: Amount = 0.0) -> Order:
    return Boltzmann(max_per_lease=top, temperature=temperature) if temperature else BestFirst(max_per_lease=top)


def breadth_first_order() -> Order:
    return BreadthFirst()


def n_best_order(*, n: Positive = 256) -> Order:
    return NBest(n=n)


def expiring_order(*, lifetime_s: Seconds = 3600.0, top: Count = 0) -> Order:
    return Expiring(lifetime_s=lifetime_s, max_per_lease=top)


def aging_order(*, factor: Share = 0.05, every: Positive = 100, mode: AgingMode = "arrival") -> Order:
    if not factor:
        raise ConfigError(f'order.factor = {factor}: must be above 0; use order.mode = "off" to disable raising')
    return Aging(factor=factor, every=every, mode=mode)


# A better link that waits longer for its host, or for its response, holds up no other.
MAX_PATIENCE_S = 3.0
# When links that were held up are considered again, if no visit ends before.
_POLL_S = 0.05


class Patience:
    """Decides during a lease which links wait: those below `share` of the sort key of a better link; 0: none.

    Only links compete: seeds, boosted URLs and revisits neither wait nor hold up others.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._least = -inf
        # When links that were held up may be leased; 0: none was.
        self.held_until = 0.0

    def begin(self, best_waiting: Callable[[], float | None]) -> None:
        """Begin a lease. `best_waiting`: the best sort key of a link in flight or at a host that wakes soon."""
        self.held_until, self._least = 0.0, -inf
        if self._share:
            self._raise(best_waiting())

    def holds_up(self, tier: int, priority: float, now: float) -> bool:
        """Must the best link of a host wait? If not, it is leased, and worse links wait for it."""
        if tier != Tier.LINK or not self._share:
            return False
        if priority < self._least:
            self.held_until = now + _POLL_S
            return True
        self._raise(priority)
        return False

    def _raise(self, priority: float | None) -> None:
        if priority is not None and priority > 0.0:
            self._least = max(self._least, self._share * priority)
