"""Finds the phrases of a lexicon in words or terms, the longest first (S2-24, S4-E1).

Only a lexicon defines phrases: a rule such as "always adjacent" would make one term of `lok sabha polls 2014` (S4-E1).
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class PhraseMatcher(Generic[T]):
    """Finds sequences of tokens. `lexicon` maps each sequence to the token that replaces it."""

    def __init__(self, lexicon: Mapping[tuple[T, ...], T]) -> None:
        self._lexicon = {parts: phrase for parts, phrase in lexicon.items() if parts}
        lengths: dict[T, set[int]] = {}
        for parts in self._lexicon:
            lengths.setdefault(parts[0], set()).add(len(parts))
        # One lookup per length instead of one per phrase: some words begin hundreds of phrases.
        self._lengths = {first: sorted(found, reverse=True) for first, found in lengths.items()}

    def matches(self, tokens: Sequence[T]) -> list[tuple[int, int, T]]:
        """(start, end, phrase) of every phrase, from left to right, without overlaps, the longest at each place."""
        found: list[tuple[int, int, T]] = []
        free = 0
        for start in [i for i, token in enumerate(tokens) if token in self._lengths]:
            match = self._longest_at(tokens, start) if start >= free else None
            if match is not None:
                found.append(match)
                free = match[1]
        return found

    def join(self, tokens: Sequence[T]) -> list[T]:
        """The tokens with every phrase as one token."""
        joined: list[T] = []
        done = 0
        for start, end, phrase in self.matches(tokens):
            joined += tokens[done:start]
            joined.append(phrase)
            done = end
        joined += tokens[done:]
        return joined

    def _longest_at(self, tokens: Sequence[T], start: int) -> tuple[int, int, T] | None:
        for length in self._lengths[tokens[start]]:
            parts = tuple(tokens[start : start + length])
            phrase = self._lexicon.get(parts)
            if phrase is not None:
                return start, start + len(parts), phrase
        return None
