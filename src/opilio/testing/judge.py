"""What every judge keeps to. Call `check_judge(make, on_topic)` with a function that makes a fresh one."""

from collections.abc import Callable

from opilio.core.protocols import Judge
from opilio.testing.readings import reading_of

PAGES = ("", "~ menu only", "wren nest song wren", "tax law court", "the wren\ncourt law", "wren " * 500)


def check_judge(make: Callable[[], Judge], on_topic: str = "wren nest song wren") -> None:
    judge = make()
    for text in PAGES:
        verdict = judge.judge(reading_of(text))
        assert 0.0 <= verdict.score <= 1.0
        assert verdict.reasons and all(r.name for r in verdict.reasons)
        assert verdict == judge.judge(reading_of(text)) == make().judge(reading_of(text))
    assert not judge.judge(reading_of("")).relevant
    assert judge.judge(reading_of(on_topic)).score > judge.judge(reading_of("tax law court")).score
