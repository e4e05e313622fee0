"""What a T-Graph is made of: a node is one link as it stood on a page, with where it led (S2-E1, S2-29).

One URL may own several nodes. A target document has one node of level 0, filled from the page itself.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0, le=1_000_000_000)]
PARTS = ("ISH", "SH", "MH", "DC")  # the four that are compared (S2-31)


class Destination(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """DIC, the destination information component: where the link leads and what came of it. It is never compared."""

    leads_to: tuple[str, ...] = ()  # ids of nodes that are nearer to a target
    url: str = ""  # what the link points to
    classes: tuple[str, ...] = ()  # D-numbers of the topic
    hits: Count = 0  # links that matched this node and paid
    misses: Count = 0
    silent: bool = False  # it misled: no longer compared, kept as a step on the way of others

    @property
    def tries(self) -> int:
        return self.hits + self.misses


class Node(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """ISH, SH and MH are the headings above the link, DC the text between its break points with the anchor (S2-23)."""

    id: str
    url: str
    level: int
    ish: str = msgspec.field(default="", name="ISH")
    sh: str = msgspec.field(default="", name="SH")
    mh: str = msgspec.field(default="", name="MH")
    dc: str = msgspec.field(default="", name="DC")
    dic: Destination = msgspec.field(default_factory=Destination, name="DIC")

    @property
    def parts(self) -> tuple[str, str, str, str]:
        """The texts that are compared, in the order of PARTS."""
        return self.ish, self.sh, self.mh, self.dc


class Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A page of one layer with its words: what a context graph is trained with (S2-46)."""

    url: str
    level: int
    words: dict[str, Count] = {}
