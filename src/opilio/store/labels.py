"""The labels that users give pages. Any process appends them, the writing process applies them; the latest counts."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from opilio.core.protocols import Database
from opilio.store.connection import read_rows, read_value

# Stored in place of relevant or irrelevant: the label was removed.
REMOVED_LABEL = -1
MAX_LABEL_ID = (1 << 63) - 1
# A page that moves takes its last label along, unless the target is a page with a label of its own.
_COPY_LABEL = """INSERT INTO label (key, relevant, at, sample) SELECT :target, relevant, :now, sample FROM label
    WHERE key = :key AND NOT EXISTS (SELECT 1 FROM label AS l JOIN page AS p ON p.key = l.key WHERE l.key = :target)
    ORDER BY id DESC LIMIT 1"""


class LabelRow(msgspec.Struct, frozen=True):
    """One label with the terms the judge read on the page."""

    id: int
    key: int
    relevant: int
    sample: bytes


class NewLabel(NamedTuple):
    """A label to append; `relevant` None removes the last one."""

    key: int
    relevant: bool | None
    sample: bytes


class CurrentLabel(NamedTuple):
    relevant: bool
    sample: bytes


def append_labels(db: Database, labels: Iterable[NewLabel], at: float) -> None:
    db.executemany(
        "INSERT INTO label (key, relevant, at, sample) VALUES (?, ?, ?, ?)",
        [(one.key, REMOVED_LABEL if one.relevant is None else int(one.relevant), at, one.sample) for one in labels],
    )


def labels_after(db: Database, number: int) -> list[LabelRow]:
    """The labels after one in order."""
    return list(read_rows(db, LabelRow, "label WHERE id > ? ORDER BY id", (number,)))


def current_label(db: Database, key: int, before: int = MAX_LABEL_ID) -> CurrentLabel | None:
    """The last label of a page with a number below `before`; None where there is none or it was removed."""
    row = db.execute(
        "SELECT relevant, sample FROM label WHERE key = ? AND id < ? ORDER BY id DESC LIMIT 1", (key, before)
    ).fetchone()
    return None if row is None or row[0] == REMOVED_LABEL else CurrentLabel(bool(row[0]), bytes(row[1]))


def label_name(db: Database, key: int) -> str:
    """The current label of a page as users write it: relevant, irrelevant, or nothing."""
    label = current_label(db, key)
    return "" if label is None else "relevant" if label.relevant else "irrelevant"


def has_label_after(db: Database, key: int, number: int) -> bool:
    return read_value(db, "SELECT 1 FROM label WHERE key = ? AND id > ? LIMIT 1", (key, number)) is not None


def labeled_keys(db: Database, keys: Sequence[int]) -> set[int]:
    """Those of the keys that have labels."""
    marks = ", ".join("?" * len(keys))
    return {key for (key,) in db.execute(f"SELECT DISTINCT key FROM label WHERE key IN ({marks})", keys)}


def labeled_originals(db: Database) -> list[int]:
    """The keys of all stored pages that have labels and are not copies."""
    sql = "SELECT DISTINCT l.key FROM label AS l JOIN page AS p ON p.key = l.key WHERE p.duplicate_of = 0"
    return [key for (key,) in db.execute(sql)]


def copy_label(db: Database, key: int, target: int, now: float) -> None:
    """A page moved: its last label goes along."""
    db.execute(_COPY_LABEL, {"key": key, "target": target, "now": now})
