"""What happened, as typed facts. Learning, logs, metrics, pages and progress listen; the pipeline does not know them.

Every event is documented in docs/events.md (a test asks for it).
"""

from collections.abc import Callable

import msgspec

from opilio.core.records import Outcome


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something that happened at a time."""

    at: float


class CrawlStarted(Event, frozen=True):
    strategy: str
    resumed: bool


class CrawlStopped(Event, frozen=True):
    reason: str
    pages: int
    relevant: int


class SeedsFound(Event, frozen=True):
    """Engines were asked for seeds: before a crawl, or when nothing was left to fetch."""

    query: str
    found: int
    new: int  # that were not known before
    voters: tuple[str, ...] = ()  # who answered
    problems: tuple[str, ...] = ()  # who did not, and why


class BatchCommitted(Event, frozen=True):
    """The visits in it have happened: they are on disk."""

    outcomes: tuple[Outcome, ...]
    queued: int
    # Relevant pages still to be found in the queue, where the ranker can tell
    expected: float | None = None


class RobotsRead(Event, frozen=True):
    host: str
    delay_s: float
    allowed: bool  # False: the whole host is off limits for now


class HostBackedOff(Event, frozen=True):
    host: str
    until: float
    reason: str


class TrapFound(Event, frozen=True):
    host: str
    pattern: str
    reason: str


class TopicChanged(Event, frozen=True):
    version: int
    added: tuple[str, ...]
    size: int
    agent: str = ""  # whose table, where agents have their own


class GraphChanged(Event, frozen=True):
    """The watchdog changed the T-Graph (S2-14)."""

    version: int
    added: int
    refreshed: int
    silenced: int
    dropped: int
    nodes: int
    weights: tuple[float, ...]


class PageLabeled(Event, frozen=True):
    """A person's word about a page was taken up."""

    url: str
    relevant: bool


class LabelRemoved(Event, frozen=True):
    """A person's word about a page no longer counts; the judge's own verdict does again."""

    url: str


class CommandApplied(Event, frozen=True):
    """What a person asked of the crawl was done: pause, resume, stop, ban, exclude, delay, boost, and so on."""

    command: str
    target: str


class PagesLost(Event, frozen=True):
    """Pages whose WARC record never reached the disk (a power cut), or was damaged: they are fetched again."""

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
    """An agent is gone; others go on with its links."""

    agent: str
    reason: str
    urls: int
    taken_over_by: tuple[str, ...]


class AgentsExchanged(Event, frozen=True):
    """An agent told another what it knows (S3-F3)."""

    giver: str
    taker: str
    what: str  # words, links
    count: int


class ProblemsFound(Event, frozen=True):
    """The checker that runs beside a crawl found that something does not agree."""

    problems: tuple[str, ...]


class PageRemoved(Event, frozen=True):
    """A page is no longer part of the collection: gone at two looks, or moved. Its versions stay."""

    url: str
    cause: str
    target: str = ""


class VisitFailed(Event, frozen=True):
    """The engine's per-URL guard caught an error of ours: a bug, recorded, and the crawl goes on."""

    url: str
    error: str


EventListener = Callable[[Event], None]
