"""Everything a committee knows, in tables of fixed size, and how that is kept, restored and handed on.

It decides nothing: what is scored how, and what is learnt from what, is the committee's part.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from opilio.learn.credit import Credit
from opilio.learn.densefeatures import FIRM, ON_TRIAL
from opilio.learn.linkqueue import Marks
from opilio.learn.ontrial import TrialModel
from opilio.learn.success import Success
from opilio.learn.wordmodel import WordModel

BITS = 18


class _State(msgspec.Struct, array_like=True):
    names: tuple[str, ...]  # of the dense features
    dense: bytes
    words: bytes
    tables: dict[str, bytes] = {}
    groups: bytes = b""
    credit: bytes = b""
    done: bytes = b""


class Learnt:
    """`features` are the dense ones with their first weights, `tables` the kinds of places whose success is counted."""

    def __init__(self, features: Mapping[str, float], tables: Sequence[str], credit: float) -> None:
        strengths = np.array([FIRM.get(name, 1.0) for name in features])
        places = [at for at, name in enumerate(features) if name in ON_TRIAL]
        self.dense = TrialModel(np.array(list(features.values())), strengths, places)
        self.words = WordModel()
        self._names = tuple(features)
        self._tables = {name: Success(BITS) for name in tables}
        self._groups = Success(BITS + 2)
        self._credit = Credit(credit)
        self._done = Marks()

    def snapshot(self) -> bytes:
        """Everything learnt, without the links that are held: the frontier keeps those."""
        tables = {name: table.snapshot() for name, table in self._tables.items()}
        rest = (part.snapshot() for part in (self._groups, self._credit, self._done))
        return msgspec.msgpack.encode(_State(self._names, self.dense.snapshot(), self.words.snapshot(), tables, *rest))

    def essence(self) -> bytes:
        """What another crawl can begin with: which features and words pay, and nothing of hosts and pages."""
        return msgspec.msgpack.encode(_State(self._names, self.dense.snapshot(), self.words.snapshot()))

    def restore(self, state: bytes) -> None:
        """Go on from a snapshot or an essence; features that it did not know begin at their first weights."""
        kept = msgspec.msgpack.decode(state, type=_State)
        at = {name: place for place, name in enumerate(self._names)}
        self.dense.restore(kept.dense, [at.get(name, -1) for name in kept.names])
        self.words.restore(kept.words)
        for name in kept.tables.keys() & self._tables.keys():
            self._tables[name].restore(kept.tables[name])
        if kept.groups:
            self._groups.restore(kept.groups)
            self._done.restore(kept.done)
        if kept.credit and kept.names == self._names:
            self._credit.restore(kept.credit)
