"""A learner with a journal, without what is particular to one: the base of judges and rankers that learn."""

from collections.abc import Sequence

from opilio.core.events import Event
from opilio.core.records import Lead, Outcome

JUDGE_STATE, RANK_STATE, TOPIC_STATE = "judge", "rank", "topic"  # names of states among the snapshots


class BaseLearner:
    """Defaults of `Learns`. A subclass has `version`, `snapshot` and `restore`, and overrides what it learns from."""

    saves_every_version = False
    learns_from_labels = False

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Learn from visits, without a journal."""
        self.apply_lesson(self.make_lesson(outcomes))

    def make_lesson(self, outcomes: Sequence[Outcome]) -> bytes:  # noqa: ARG002 - for subclasses
        """What these visits teach, for the journal; empty where they teach nothing."""
        return b""

    def label_lesson(self, sample: bytes, relevant: bool | None, before: bool | None = None) -> bytes:  # noqa: ARG002
        """What a label of a page teaches, given the sample of its terms; None withdraws the label `before`."""
        return b""

    def correction_lesson(self, links: Sequence[tuple[Lead, bool]]) -> bytes:  # noqa: ARG002 - for subclasses
        """What it teaches that these links led to pages which labels made relevant or irrelevant."""
        return b""

    def apply_lesson(self, lesson: bytes) -> None:
        """Learn from a lesson: a new one, or one of the journal."""

    def take_events(self, now: float) -> Sequence[Event]:  # noqa: ARG002 - for subclasses
        """What to report since the last call."""
        return ()
