"""The judge of kind `dewey` with its options."""

from collections.abc import Callable
from typing import Literal, Protocol

from msgspec.structs import replace

from opilio.judge.dewey import THRESHOLD, DeweyJudge
from opilio.model.errors import ConfigError
from opilio.model.protocols import Judge
from opilio.topic.dewey.galaxy import PAPER, RECOMMENDED, Rule
from opilio.topic.dewey.target import Target

Weighing = Literal["ours", "paper"]
RULES: dict[Weighing, Rule] = {"ours": RECOMMENDED, "paper": PAPER}


class DeweyTools(Protocol):
    """What is asked of the tools."""

    @property
    def target(self) -> Callable[[], Target]: ...


def dewey_judge(
    tools: DeweyTools, *, weighing: Weighing = "ours", max_length: int = 3, threshold: float = THRESHOLD
) -> Judge:
    """See `DeweyJudge`; `weighing` is how dots count: as in the paper, or less for common and ambiguous words."""
    if max_length < 1:
        raise ConfigError(f"judge.max_length: must be at least 1, not {max_length}")
    target = tools.target()
    return DeweyJudge(target.matcher, target.classes, replace(RULES[weighing], max_length=max_length), threshold)
