"""Events: what happened during a crawl, as typed records for logs, metrics, the web interface and learning.

Every event is documented in docs/events.md (checked by a test).
"""

from collections.abc import Callable

import msgspec

from opilio.core.records import Outcome, PageChange


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base class; `at` is the time in seconds since 1970."""

    at: float


class CrawlStarted(Event, frozen=True):
    strategy: str
    resumed: bool


class CrawlStopped(Event, frozen=True):
    reason: str
    pages: int
    relevant: int


class SeedsFound(Event, frozen=True):
    """Seed engines were queried: before a crawl, or when no URL was left to fetch."""

    query: str
    found: int
    new: int  # URLs that were not known before
    voters: tuple[str, ...] = ()  # engines that answered
    problems: tuple[str, ...] = ()  # engines that failed, and why


class BatchCommitted(Event, frozen=True):
    """A batch of visits was written to disk."""

    outcomes: tuple[Outcome, ...]
    queued: int
    # Estimated relevant pages in the queue, if the ranker estimates them.
    expected: float | None = None

    @property
    def new_verdicts(self) -> list[bool]:
        """Whether each judged page is relevant; pages that were stored before are left out."""
        new = [outcome for outcome in self.outcomes if outcome.change is PageChange.NEW]
        return [one.relevant for one in new if one.analysis is not None and one.analysis.verdict is not None]


class RobotsRead(Event, frozen=True):
    host: str
    delay_s: float
    allowed: bool  # False: the whole host is disallowed


class HostBackedOff(Event, frozen=True):
    host: str
    until: float
    reason: str


class TrapFound(Event, frozen=True):
    host: str
    pattern: str
    reason: str


class TrapRetried(Event, frozen=True):
    """URLs of a place that yielded too little are queued for a trial."""

    host: str
    pattern: str
    urls: int


class TopicChanged(Event, frozen=True):
    version: int
    added: tuple[str, ...]
    size: int
    # The agent whose table changed, if agents have their own.
    agent: str = ""


class ClassifierTrained(Event, frozen=True):
    """The classifier of links was trained before the crawl, on pages of seed lists and their parents (S1-13)."""

    learner: str
    relevant: int
    irrelevant: int
    parents: int
    requests: int
    words: tuple[str, ...]


class GraphChanged(Event, frozen=True):
    """The T-Graph was updated (S2-14)."""

    version: int
    added: int
    refreshed: int
    silenced: int
    dropped: int
    nodes: int
    weights: tuple[float, ...]


class PageLabeled(Event, frozen=True):
    """A user's label was applied to a page."""

    url: str
    relevant: bool


class LabelRemoved(Event, frozen=True):
    """A user's label was removed; the judge's own verdict applies again."""

    url: str


class CommandApplied(Event, frozen=True):
    """A user's command was applied: pause, resume, stop, ban, exclude, delay, boost and so on."""

    command: str
    target: str


class PagesLost(Event, frozen=True):
    """Pages whose WARC record was not written (a power cut) or is damaged; they are fetched again."""

    pages: int
    detail: str


class AgentRegistered(Event, frozen=True):
    agent: str
    topic: str
    seeds: int


class AgentFinished(Event, frozen=True):
    agent: str
    state: str
    reason: str


class AgentLost(Event, frozen=True):
    """An agent stopped working; other agents take over its links."""

    agent: str
    reason: str
    urls: int
    taken_over_by: tuple[str, ...]


class AgentsExchanged(Event, frozen=True):
    """An agent shared words or links with another agent (S3-F3)."""

    giver: str
    taker: str
    what: str  # words, links
    count: int


class ProblemsFound(Event, frozen=True):
    """The integrity check that runs beside a crawl found inconsistencies."""

    problems: tuple[str, ...]


class PageRemoved(Event, frozen=True):
    """A page was removed from the collection: missing at two visits, or moved. Its versions stay."""

    url: str
    cause: str
    target: str = ""


class ObjectStorageChanged(Event, frozen=True):
    """The object storage of a collection in PostgreSQL can't be reached, or is back."""

    available: bool
    detail: str


class VisitFailed(Event, frozen=True):
    """The engine's per-URL guard caught an unexpected exception (a bug); the crawl continues."""

    url: str
    error: str


EventListener = Callable[[Event], None]
