"""Typed results of the commands that inspect or label a collection.

The CLI (`--json`), the web pages and the Python API share them. `msgspec.to_builtins(result)` gives the JSON form:
a field that does not apply is None here and absent there.
"""

import msgspec

from opilio.core.display import Displayable
from opilio.core.records import Reason


class Forecast(msgspec.Struct, frozen=True):
    """The relevant pages expected after this number of fetches, with an interval of 80 %."""

    fetches: int
    relevant: int
    low: int
    high: int


class Wall(msgspec.Struct, frozen=True):
    """Hosts that showed a form or a challenge (`kind`) instead of pages, those with most URLs first."""

    kind: str
    urls: int
    hosts: list[str]


class Status(Displayable, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a collection holds and how its last crawl ended."""

    collection: str
    state: str
    stop_reason: str
    strategy: str
    topic: str
    pages: int
    relevant: int
    harvest: float
    fetched: int
    duplicates: int
    size_bytes: int
    queued: int
    done: int
    failed: int
    dropped: int
    hosts: int
    genres: dict[str, int]
    # Share of URL-seen tests that needed no disk access (S4-21).
    front_hit_rate: float | None = None
    # The ranker's estimate of the relevant pages that are still in the queue.
    expected_relevant: float | None = None
    truncated: int = 0  # pages of which a part is missing
    # Pages read as a browser shows them, with the relevant ones among them.
    rendered: int = 0
    rendered_relevant: int = 0
    # Relevant pages that only links of rendered pages led to.
    found_by_rendering: int = 0
    # Nearly empty pages with scripts that were not rendered.
    needs_browser: int = 0
    walls: list[Wall] | None = None  # None if no host showed one
    # One line for each agent by name; None for a crawl without agents.
    agents: dict[str, str] | None = None
    # Relevant pages that a longer crawl would have found, if asked for.
    forecast: list[Forecast] | None = None


class LinkContext(msgspec.Struct, frozen=True, kw_only=True):
    """A link to the explained URL: the page it is on, its anchor, and the parts of its score."""

    page: str
    title: str
    anchor: str
    score: float
    parts: dict[str, float]
    not_followed: str


class ScoreEffect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A feature or word that raises (above 0) or lowers a link's score; a word has no value."""

    what: str
    effect: float
    value: float | None = None


class SiblingResult(msgspec.Struct, frozen=True):
    """How links of the same list turned out: how many were fetched, with which mean reward."""

    page: str
    fetched: int
    mean_reward: float


class RankerExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """How the ranker scores a link with what it has learned up to now."""

    score_now: float
    learnt_from: int
    raised_by: list[ScoreEffect]
    lowered_by: list[ScoreEffect]
    siblings: list[SiblingResult]


class HostWait(msgspec.Struct, frozen=True):
    """Why the host of a queued URL is not asked before a time."""

    until: float
    reason: str


class SeedOrigin(msgspec.Struct, frozen=True):
    """The priority of a seed and what named it."""

    priority: int
    sources: str


class FetchAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One request for the URL and its outcome."""

    at: float
    status: int
    failure: str
    detail: str
    location: str


class PageExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a stored page and the reasons for it; `duplicate_of` is a URL, empty for an original."""

    title: str
    score: float
    # The score, corrected by the user's labels of other pages; None with too few labels.
    probability: float | None
    labels: int  # the number of these labels
    relevant: bool
    reasons: tuple[Reason, ...]
    duplicate_of: str
    near_duplicate: bool
    canonical: str  # as the page states it
    aliases: list[str]  # URLs of its copies, at most 20
    fetched_at: float
    language: str
    genre: str
    # Why a part of the page is missing; empty for a whole page.
    truncated: str
    rendered: bool  # read as a browser shows it


class RevisitStats(msgspec.Struct, frozen=True, kw_only=True):
    """What the revisits of a page have shown."""

    checks: int
    changes: int
    checked_at: float
    changed_at: float
    strikes: int
    found: int
    brought: int


class AgentVerdict(msgspec.Struct, frozen=True):
    """One agent's verdict on a page; `fetched`: it leased the URL itself."""

    agent: str
    fetched: bool
    score: float
    relevant: bool


class Explanation(Displayable, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a URL was fetched, skipped or kept. `found` is False for a URL that was never seen."""

    url: str
    found: bool
    state: str | None = None
    reason: str | None = None
    score: float | None = None
    priority: float | None = None
    depth: int | None = None
    tunnel: int | None = None
    times_found: int | None = None
    moved_to_front: bool = False  # by a user, or by exploration
    redirected_from: list[str] | None = None
    found_on: list[LinkContext]
    path: list[str]
    host_waits: HostWait | None = None
    ranker: RankerExplanation | None = None
    seed: SeedOrigin | None = None
    answers: list[FetchAttempt]
    page: PageExplanation | None = None
    revisits: RevisitStats | None = msgspec.field(default=None, name="looks")
    agents: list[AgentVerdict] | None = None


class HistoryVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A stored version of a page. `until` is None while it is current; `ended`: changed, gone or moved."""

    url: str
    fetched_at: float
    until: float | None
    ended: str
    title: str
    score: float
    relevant: bool
    words: int
    difference: list[str]


class PageHistory(Displayable, msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every stored version of a page, oldest first, and how often it was revisited."""

    url: str
    found: bool
    versions: list[HistoryVersion]
    moved_to: str | None = None
    checks: int | None = None
    changes: int | None = None
    checked_at: float | None = None
    strikes: int | None = None


class PriorityChange(msgspec.Struct, frozen=True):
    """A queued URL whose score changed."""

    url: str
    before: float
    after: float


class LabelReport(Displayable, msgspec.Struct, kw_only=True):
    """What labels changed."""

    labels: int = 0
    verdicts_changed: int = 0
    # A crawl is running: it applies the labels itself.
    running: bool = False
    # Another command holds the write lock: the next crawl applies the labels.
    waits_for: str = ""
    # Does any part of this strategy learn from labels?
    learns: bool = True
    moved: int = 0
    top_moves: list[PriorityChange] = msgspec.field(default_factory=list, name="movers")
