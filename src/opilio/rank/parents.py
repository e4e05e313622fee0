"""What is known of a URL from the pages it was found on (S1-22, S3-17, X-11), bounded and forgetful."""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

ParentAgg = Literal["sum", "mean", "max", "first"]


def aggregate(values: Sequence[float], how: ParentAgg) -> float:
    """The parents' relevances as one number (S3-E3); nothing known is 0.

    >>> aggregate([0.5, 1.0], "sum"), aggregate([0.5, 1.0], "mean"), aggregate([], "max")
    (1.5, 0.75, 0.0)
    """
    if not values:
        return 0.0
    if how == "sum":
        return sum(values)
    if how == "mean":
        return sum(values) / len(values)
    return max(values) if how == "max" else values[0]


class KnownParents(msgspec.Struct):
    """Link key to (parent key, relevance) of the first `per_link` parents, first finder first.

    When more than `limit` links are known the oldest are forgotten: most of them were fetched long ago.
    """

    limit: int = 50_000
    per_link: int = 5
    known: dict[int, list[tuple[int, float]]] = {}

    def tell(self, parent: int, relevance: float, links: Iterable[int]) -> None:
        """A page of some relevance has these links."""
        for key in links:
            parents = self.known.setdefault(key, [])
            if len(parents) < self.per_link and all(p != parent for p, _ in parents):
                parents.append((parent, relevance))
        while len(self.known) > self.limit:
            del self.known[next(iter(self.known))]

    def of(self, key: int, besides: int) -> list[float]:
        """The relevances of a link's parents, without the page that is asking."""
        return [relevance for parent, relevance in self.known.get(key, ()) if parent != besides]
