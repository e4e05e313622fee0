"""A ranker that learns which hosts have relevant pages: how a learner is built, started from a file, trained, rescored.

The groups `opilio.start_states`, `opilio.start_training` and `opilio.link_scorers` have its parts under the name of the
ranker.
"""

import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from opilio.core.clock import SystemClock
from opilio.core.errors import ConfigError
from opilio.core.events import ClassifierTrained
from opilio.core.protocols import RANK_STATE, BaseLearner, LinkScorer, Ranker
from opilio.core.records import Lead, Outcome, Reading, Verdict
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.engine.link_scoring import LinkScorerContext, StaticLinkScorer
from opilio.engine.wiring.start import StartTraining
from opilio.rank.link_scores import LinkScores, refused_links
from opilio.topic.setup import BuildContext

MAX_RESCORED = 1_000


class _State(msgspec.Struct):
    version: int = 0
    pages: dict[str, tuple[int, int]] = {}  # by host: relevant pages, and all


class HostRates(BaseLearner):
    """The share of relevant pages of each host. A lesson is stored with its visits and replayed after a kill."""

    def __init__(self) -> None:
        self._state = _State()

    @property
    def version(self) -> int:
        """Grows with every lesson."""
        return self._state.version

    def rate(self, host: str) -> float:
        """0.5 for an unknown host."""
        relevant, pages = self._state.pages.get(host, (0, 0))
        return (relevant + 1) / (pages + 2)

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:
        """The host of each page, and whether it is relevant."""
        found = [(o.lead.host, o.relevant) for o in outcomes if o.analysis is not None and o.analysis.failure is None]
        return msgspec.msgpack.encode(found) if found else b""

    def apply_lesson(self, lesson: bytes) -> None:
        """Count the pages."""
        for host, relevant in msgspec.msgpack.decode(lesson, type=list[tuple[str, bool]]) if lesson else ():
            before = self._state.pages.get(host, (0, 0))
            self._state.pages[host] = (before[0] + relevant, before[1] + 1)
            self._state.version += 1

    def snapshot(self) -> bytes:
        """The whole state."""
        return msgspec.msgpack.encode(self._state)

    def worker_state(self) -> bytes:
        """What the analysis in worker processes needs."""
        return self.snapshot()

    def restore(self, state: bytes) -> None:
        """Continue from a state."""
        self._state = msgspec.msgpack.decode(state, type=_State)


class HostRanker:
    """A link has the rate of its host."""

    def __init__(self) -> None:
        self.rates = HostRates()

    def learners(self) -> dict[str, HostRates]:
        """See `HasLearners`."""
        return {RANK_STATE: self.rates}

    def score(self, reading: Reading, verdict: Verdict, lead: Lead) -> LinkScores:
        """See `Ranker`."""
        del verdict, lead
        scores = np.array([self.rates.rate(host_of(link.url)) for link in reading.page.links], dtype=np.float64)
        return LinkScores(scores, {"host": scores}, refused_links(reading.page))


def host_ranker(_: BuildContext, *, rates: str = "") -> Ranker:
    """The factory of `rank.kind = "hosts"`. The file `rates` is read by `host_start_states`."""
    del rates
    return HostRanker()


def host_start_states(settings: Settings) -> dict[str, bytes]:
    """The first state, from a TOML file of hosts: `"a.example" = [8, 10]` means 8 relevant pages of 10."""
    path = str(settings.rank["rates"])
    if not path:
        return {}
    try:
        pages = msgspec.convert(tomllib.loads(Path(path).read_text(encoding="utf-8")), dict[str, tuple[int, int]])
    except (OSError, ValueError) as error:
        raise ConfigError(f"rank.rates {path}: {error}") from error
    return {RANK_STATE: msgspec.msgpack.encode(_State(len(pages), pages))}


async def train_hosts(_: Path, settings: Settings, notify: Callable[[str], None]) -> StartTraining | None:
    """Before a crawl without a file: count each seed as a relevant page of its host."""
    if settings.rank["rates"]:
        return None
    seeds = list(settings.seeds.urls)
    pages = {host_of(url): (1, 1) for url in seeds}
    notify(f"hosts: trained on {len(seeds)} seeds")
    state = msgspec.msgpack.encode(_State(len(pages), pages))
    event = ClassifierTrained(
        at=SystemClock().now(),
        learner="hosts",
        relevant=len(seeds),
        irrelevant=0,
        parents=0,
        requests=0,
        words=(),
    )
    return StartTraining({RANK_STATE: state}, event)


class HostLinkScorer(StaticLinkScorer):
    """Gives queued links new scores when the rates have changed."""

    def __init__(self, context: LinkScorerContext) -> None:
        self._context = context
        self._rates: HostRates = context.ranker.rates
        self._version = -1

    def rescored(self) -> Iterable[tuple[str, int, float]]:
        """Host, key and new score of the best queued links."""
        if self._version == self._rates.version:
            return []
        self._version = self._rates.version
        leads = [entry.lead for entry in self._context.queued(MAX_RESCORED) if entry.lead.parent]
        return [(lead.host, lead.key, self._rates.rate(lead.host)) for lead in leads]


def host_link_scorer(context: LinkScorerContext) -> LinkScorer:
    """The factory, registered under the ranker's name."""
    return HostLinkScorer(context)
