"""What can be replayed or served: a written web or a synthetic one."""

from collections.abc import Mapping
from typing import Protocol

from opilio.lab.warcfile import Answer


class Source(Protocol):
    """Answers by canonical address; None where there is nothing."""

    @property
    def hosts(self) -> Mapping[str, int]: ...

    def find(self, url: str) -> Answer | None: ...
