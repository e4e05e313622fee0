"""What a committee is told: pages that links were found on, what became of links, and that as a lesson to keep."""

import msgspec


class Visit(msgspec.Struct, frozen=True, array_like=True):
    """What became of a fetched link: its reward (0..1), whether there was a page at all, and whether on the topic."""

    key: int
    url: str
    reward: float
    page: bool
    relevant: bool = False
    passed: bool = False  # nothing was to be learnt: it was refused, or redirected and lives on under another address


class Lesson(msgspec.Struct, frozen=True, array_like=True):
    """Everything that one step of learning depends on beside the model: taught again, it does the same again."""

    visit: Visit
    row: bytes = b""  # the link as it was queued
    said: float = -1.0  # how promising it was held; -1: it was not held
    before: float = -1.0  # the reward it was learnt with, where a person has corrected that


class FoundPage(msgspec.Struct, frozen=True):
    """The page that links were found on."""

    key: int
    relevant: bool
    tunnel: int
