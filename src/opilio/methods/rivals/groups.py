"""Queued links in groups, for rivals that choose a group first.

Both rivals choose a group and then any link of it. Here the chosen link of each group, its representative, has the
group's score in the frontier, and all others a score below, so a choice costs as many updates as there are groups.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from opilio.core.records import Lead, Outcome
from opilio.engine.link_scoring import LinkScorerContext, StaticLinkScorer
from opilio.store.versions import newest_linked_pages

# Queued links that are grouped; others keep their score.
MAX_GROUPED_LINKS = 200_000
# Highest score of a link that is not a representative.
WAITING_SCORE = 0.01
# Batches of visits for which a link represents its group.
MAX_ROUNDS = 100
MIN_SCORE_STEP = 1e-3


class GroupedQueue:
    """Queued links by group, with a representative of each group that has links.

    The frontier drops links without notice (a host that is given up), so a representative is replaced after a while.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self._groups: dict[int, list[int]] = {}
        # Key -> host, group.
        self._links: dict[int, tuple[str, int]] = {}
        # Group -> key, round in which it was drawn.
        self._representatives: dict[int, tuple[int, int]] = {}
        self._fetched: set[int] = set()
        self._round = 0

    def add(self, key: int, host: str, group: int) -> None:
        """Add a link that was never fetched; ignored if the link is known or the queue is full."""
        if key not in self._links and key not in self._fetched and len(self._links) < MAX_GROUPED_LINKS:
            self._links[key] = (host, group)
            self._groups.setdefault(group, []).append(key)

    def remove(self, key: int) -> None:
        """Remove a link permanently: it was fetched, refused, or gets a score of its own."""
        self._fetched.add(key)
        found = self._links.pop(key, None)
        if found is not None and self._representatives.get(found[1], (0, 0))[0] == key:
            del self._representatives[found[1]]

    def take_group(self, group: int) -> list[tuple[int, str]]:
        """Empty a group; returns (key, host) of its links, to be added to other groups."""
        keys = [key for key in self._groups.pop(group, ()) if key in self._links]
        self._representatives.pop(group, None)
        return [(key, self._links.pop(key)[0]) for key in keys]

    def representatives(self) -> Iterator[tuple[int, int, str]]:
        """(group, key, host) of each group with links. A group without one gets a random link."""
        self._round += 1
        for group, keys in list(self._groups.items()):
            key, drawn = self._representatives.get(group, (None, 0))
            if key is None or self._round - drawn > MAX_ROUNDS:
                key = self._draw(keys)
                if key is None:
                    del self._groups[group]
                    continue
                self._representatives[group] = (key, self._round)
            yield group, key, self._links[key][0]

    def _draw(self, keys: list[int]) -> int | None:
        """A random link of these; links that are no longer queued are removed on the way."""
        while keys:
            at = self._random.randrange(len(keys))
            if keys[at] in self._links:
                return keys[at]
            keys[at] = keys[-1]
            keys.pop()
        return None


class GroupLinkScorer(StaticLinkScorer):
    """Scores representatives by their group. A rival gives `group_of` (of a lead) and `values` (of representatives)."""

    learns_from_labels = False

    def __init__(
        self, group_of: Callable[[Lead], int], values: Callable[[Mapping[int, int]], Sequence[float]], seed: int = 0
    ) -> None:
        self.queue = GroupedQueue(seed)
        self._group_of = group_of
        self._values = values
        self._random = random.Random(seed)
        # Scores of representatives in the frontier.
        self._sent: dict[int, float] = {}

    def resume(self, context: LinkScorerContext) -> None:
        """Group the queued links of a collection."""
        for page in newest_linked_pages(context.collection.connection, MAX_GROUPED_LINKS):
            self.queue.remove(page.key)
        for entry in context.queued(MAX_GROUPED_LINKS):
            if entry.lead.parent:
                self.queue.add(entry.lead.key, entry.lead.host, self._group_of(entry.lead))

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self.discard([outcome.lead.key])

    def discard(self, keys: Sequence[int]) -> None:
        for key in keys:
            self.queue.remove(key)
            self._sent.pop(key, None)

    def _score_page_links(self, outcome: Outcome) -> list[Lead]:
        leads = []
        for lead in super()._score_page_links(outcome):
            self.queue.add(lead.key, lead.host, self._group_of(lead))
            leads.append(replace(lead, score=self._own_score(lead)))
        return leads

    def _own_score(self, lead: Lead) -> float:  # noqa: ARG002 - for subclasses
        """The score of a link that does not represent its group: any order."""
        return WAITING_SCORE * self._random.random()

    def rescored(self) -> list[tuple[str, int, float]]:
        chosen = {group: (key, host) for group, key, host in self.queue.representatives()}
        scores = self._values({group: key for group, (key, _) in chosen.items()})
        moved = []
        for (key, host), score in zip(chosen.values(), scores, strict=True):
            if abs(self._sent.get(key, -1.0) - score) > MIN_SCORE_STEP:
                self._sent[key] = score
                moved.append((host, key, score))
        return moved
