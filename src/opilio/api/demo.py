"""`opilio.demo_web()`: a synthetic web on loopback, to try crawls without the internet."""

from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from opilio.core.display import Displayable
from opilio.core.settings import Tree
from opilio.lab.server.process import WebServerProcess
from opilio.lab.synthetic.shape import WebShape
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables, write_synthetic_web


class DemoTopic(Displayable, msgspec.Struct, frozen=True, kw_only=True):
    """A topic of a synthetic web with seeds to start from."""

    name: str
    description: str
    keywords: tuple[str, ...]
    seeds: tuple[str, ...]


class DemoWeb:
    """A synthetic web and the process that serves it, until `close()` or the end of a `with` block."""

    def __init__(self, shape: WebShape) -> None:
        self._shape = shape
        self._server = WebServerProcess(shape)
        self.proxy = self._server.proxy

    @property
    def settings(self) -> Tree:
        """Settings of a crawl in this web: through its proxy, without delays between requests."""
        return {"fetch": {"proxy": self.proxy}, "politeness": {"delay_s": 0.0}}

    @cached_property
    def topics(self) -> tuple[DemoTopic, ...]:
        """The topics that the web has pages about."""
        return tuple(map(_to_topic, topic_tables(SyntheticWeb(self._shape).plan)))

    def save(self, folder: str | Path) -> Path:
        """Write the web as an offline web, with labels, for `opilio.compare()`."""
        return write_synthetic_web(self._shape, Path(folder))

    def close(self) -> None:
        """Stop the server."""
        self._server.close()

    def __enter__(self) -> "DemoWeb":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<DemoWeb of {self._shape.pages} articles on {self._shape.hosts} hosts at {self.proxy}>"


def demo_web(*, pages: int = 600, hosts: int = 20, topics: int = 2, seed: int = 7) -> DemoWeb:
    """Serve a synthetic web on this machine. The same arguments give the same web."""
    shape = WebShape(
        pages=pages, hosts=hosts, topics=topics, seed=seed, topical_share=0.3, slow_hosts=0, failing_hosts=0
    )
    return DemoWeb(shape)


def _to_topic(table: dict[str, Any]) -> DemoTopic:
    return DemoTopic(
        name=table["name"],
        description=table["description"],
        keywords=tuple(table["keywords"]),
        seeds=tuple(table["seeds"][0]["urls"]),
    )
