"""Puts together what judges visits of stored pages and what plans them; refuses settings that can't be."""

from opilio.crawl.again import Again
from opilio.crawl.config import Settings
from opilio.crawl.revisits import Revisits
from opilio.frontier.revisits import POLICIES
from opilio.model.errors import ConfigError
from opilio.model.protocols import ContentSeen, Frontier
from opilio.store.collection import Collection


def check_revisits(settings: Settings) -> None:
    """ConfigError for a policy that is unknown."""
    policy = settings.revisit.policy
    if policy not in POLICIES:
        raise ConfigError(f"revisit.policy = '{policy}': is unknown; known: {', '.join(POLICIES)}")


def looking_again(
    settings: Settings, collection: Collection, frontier: Frontier, seen: ContentSeen | None, now: float
) -> tuple[Again, Revisits | None]:
    """What every crawl needs, and what one needs that looks again."""
    again = Again(collection, frontier, seen, settings.revisit.second_look_s)
    if not settings.revisit.on or settings.revisit.share <= 0:
        return again, None
    revisits = Revisits(collection, frontier, again, settings.revisit)
    revisits.load(now)
    return again, revisits
