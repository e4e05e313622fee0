"""What begins from a given state and learns nothing more, in the shape of a learner: kept and sent like one."""

from collections.abc import Sequence

from opilio.model.records import Outcome


class Given:
    """Keeps the state that it was given; who inherits says in `restore` what to make of it."""

    version = 0

    def __init__(self) -> None:
        self._state = b""

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Nothing."""

    def lesson(self, outcomes: Sequence[Outcome]) -> bytes:  # noqa: ARG002 nothing is learnt
        """Nothing."""
        return b""

    def study(self, lesson: bytes) -> None:
        """Nothing."""

    def sight(self) -> bytes:
        """What it began from."""
        return self._state

    def snapshot(self) -> bytes:
        """What it began from."""
        return self._state
