"""The T-Graphs that rankers begin with in experiments: built once for each set of targets, from the web's own links.

Whoever begins with one knows the back-links of a few relevant pages beforehand, as S2 and the context graph ask: the
report of an experiment says so. No label is read.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property

from opilio.crawl.config import Settings
from opilio.crawl.tgraphs import begins_with_graph, maker_for, state_of
from opilio.lab.backlinks import WebLinks, graph_from, usable
from opilio.lab.crawls import OfflineWeb
from opilio.lab.readings import reading_version
from opilio.tgraph.layers import Bounds


class Graphs:
    """Makes first states; the same targets read the same way are built once."""

    def __init__(self, offline: OfflineWeb) -> None:
        self._offline = offline
        self._known: dict[tuple[object, ...], bytes] = {}

    def begin(self, settings: Settings, targets: Sequence[str]) -> Mapping[str, bytes]:
        """The first state of a ranker that wants a graph; nothing for others, and where there are no targets."""
        learner = begins_with_graph(settings)
        if not targets or not learner or settings.rank.get("graph"):
            return {}
        key = (tuple(targets), reading_version(settings))
        if key not in self._known:
            read = self._offline.readings(settings).reader
            maker = maker_for(settings, self._links.page, read)
            wanted, _ = usable(targets, self._links)
            self._known[key] = state_of(graph_from(self._links, maker, wanted, Bounds()))
        return {learner: self._known[key]}

    @cached_property
    def _links(self) -> WebLinks:
        return WebLinks(self._offline.web, self._offline.pages)
