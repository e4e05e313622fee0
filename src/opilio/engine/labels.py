"""Labels that users give pages: rows of the table `label`, found by their number in the next transaction.

Verdict, judge and ranker follow at once. A label is valid until it is removed, also if the page has changed, was
missing for a while, or moved.
"""

from collections.abc import Sequence

import msgspec

from opilio.core.events import Event, LabelRemoved, PageLabeled
from opilio.core.protocols import Frontier, FrontierEntry, LinkScorer
from opilio.core.records import Outcome, PageChange, Reason, url_key
from opilio.core.urls import host_of
from opilio.engine.learning import LearnerGroup
from opilio.store.annotations import copy_annotations
from opilio.store.collection import Collection
from opilio.store.labels import (
    REMOVED_LABEL,
    LabelRow,
    copy_label,
    current_label,
    has_label_after,
    labeled_keys,
    labeled_originals,
    labels_after,
)
from opilio.store.page_selection import learned_reward
from opilio.store.pages import is_relevant, judged_page, page_host
from opilio.store.writer import CollectionWriter, override_verdict

LABEL_REASON = "labelled by hand"
# The number of the last label that was applied.
LAST_LABEL_META_KEY = "labels_taken"


class LabelInbox:
    """Applies labels that were added since the last check."""

    def __init__(
        self,
        collection: Collection,
        writer: CollectionWriter,
        frontier: Frontier,
        learning: LearnerGroup,
        link_scorer: LinkScorer,
    ) -> None:
        self._collection = collection
        self._writer = writer
        self._frontier = frontier
        self._learning = learning
        self._link_scorer = link_scorer
        self._last_applied_id = int(collection.meta(LAST_LABEL_META_KEY, "0"))

    def apply_new(self, now: float) -> list[Event]:
        """Apply new labels in their order, inside a unit of work. Without new ones it costs one query."""
        rows = labels_after(self._collection.connection, self._last_applied_id)
        events: list[Event] = []
        before: dict[int, bool] = {}
        for row in rows:
            before.setdefault(row.key, self._is_relevant(row.key))
            word = None if row.relevant == REMOVED_LABEL else bool(row.relevant)
            events += self._apply(row.id, row.key, word, bytes(row.sample), now)
            self._last_applied_id = row.id
        if rows:
            self._retrain(before)
            self._collection.set_meta(**{LAST_LABEL_META_KEY: self._last_applied_id})
        return events

    def override_verdicts(self, outcomes: Sequence[Outcome], now: float) -> list[Outcome]:
        """The outcomes with the user's earlier labels in the place of the judge's verdicts."""
        for outcome in outcomes:
            if outcome.change is PageChange.MOVED:
                copy_annotations(self._collection.connection, outcome.lead.key, url_key(outcome.fetched.location))
        labeled = labeled_keys(self._collection.connection, [outcome.lead.key for outcome in outcomes])
        return [self._override_verdict(one, now) if one.lead.key in labeled else one for one in outcomes]

    def _override_verdict(self, outcome: Outcome, now: float) -> Outcome:
        key, analysis = outcome.lead.key, outcome.analysis
        if outcome.change is PageChange.MOVED:
            target = url_key(outcome.fetched.location)
            copy_label(self._collection.connection, key, target, now)
        # Newer labels are applied later.
        label = current_label(self._collection.connection, key, before=self._last_applied_id + 1)
        if label is None or analysis is None or analysis.verdict is None or outcome.duplicate_of:
            return outcome
        verdict = override_verdict(analysis.verdict, label[0], _label_reason(label[0]))
        return msgspec.structs.replace(outcome, analysis=msgspec.structs.replace(analysis, verdict=verdict))

    def _apply(self, id_: int, key: int, relevant: bool | None, sample: bytes, now: float) -> list[Event]:
        page = judged_page(self._collection.connection, key)
        if page is None:
            return []
        url, host = page.url, page.host
        before = self._previous_label(id_, key)
        if relevant is None:
            return self._remove_label(key, sample, before, LabelRemoved(at=now, url=url))
        self._writer.set_label(key, relevant, _label_reason(relevant))
        if before is not relevant:
            self._learning.label(sample, relevant, before)
            self._correct_link_score(host, key, learned_reward(page), float(relevant))
        return [PageLabeled(at=now, url=url, relevant=relevant)]

    def _remove_label(self, key: int, sample: bytes, before: bool | None, event: LabelRemoved) -> list[Event]:
        """Restores the judge's verdict and undoes the label in judge and ranker (idempotent)."""
        if before is None:
            return []
        self._learning.label(sample, None, before)
        scores = self._writer.remove_label(key, LABEL_REASON)
        page = judged_page(self._collection.connection, key)
        # Else the page was fetched and judged again since.
        if scores is not None and page is not None:
            self._correct_link_score(host_of(event.url), key, scores[0], learned_reward(page))
        return [event]

    def _correct_link_score(self, host: str, key: int, before: float, after: float) -> None:
        entry = self._frontier.entry(host, key)
        if entry is not None:
            self._link_scorer.correct(entry, before, after)

    def _retrain(self, before: dict[int, bool]) -> None:
        """Pass all changed verdicts at once to a ranker that learns from verdicts: it is fitted again."""
        changed = {key: now for key, was in before.items() if (now := self._is_relevant(key)) != was}
        found = ((self._entry(key), now) for key, now in changed.items())
        self._learning.correct_verdicts([(entry.lead, now) for entry, now in found if entry is not None])

    def _is_relevant(self, key: int) -> bool:
        return is_relevant(self._collection.connection, key)

    def _entry(self, key: int) -> FrontierEntry | None:
        host = page_host(self._collection.connection, key)
        return self._frontier.entry(host, key) if host else None

    def _previous_label(self, id_: int, key: int) -> bool | None:
        """The earlier label of the page that is still valid."""
        label = current_label(self._collection.connection, key, before=id_)
        return None if label is None else label[0]


def _label_reason(relevant: bool) -> Reason:
    return Reason(LABEL_REASON, float(relevant))


def reapply_labels(collection: Collection, writer: CollectionWriter) -> None:
    """Set every page to its last label, inside a transaction. Nothing is learned from it."""
    for key in labeled_originals(collection.connection):
        label = current_label(collection.connection, key)
        if label is None:
            writer.remove_label(key, LABEL_REASON)
        else:
            writer.set_label(key, label[0], _label_reason(label[0]))


def pending_labels(collection: Collection) -> list[LabelRow]:
    """The labels that a crawl has not applied yet, in their order."""
    return labels_after(collection.connection, int(collection.meta(LAST_LABEL_META_KEY, "0")))


def has_pending_label(collection: Collection, key: int) -> bool:
    """Whether a label was not applied yet: its command was killed, or a crawl will apply it."""
    taken = int(collection.meta(LAST_LABEL_META_KEY, "0"))
    return has_label_after(collection.connection, key, taken)
