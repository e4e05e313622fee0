"""Which surface form of a term is the commonest (S0-E4): what people are shown instead of stems."""

from bisect import insort
from collections import Counter
from collections.abc import Iterable

_LONGEST = 40  # a page may hold one "word" of a megabyte: such are never kept
_STRIDE = 61  # a prime, so that no layout of a page keeps in step with it


class Surfaces:
    """The words behind each term, and how often they were seen.

    The first `counted_whole` words are all counted, after that every 61st.
    """

    def __init__(self, counted_whole: int = 200_000) -> None:
        self._counted_whole = counted_whole
        self._forms: dict[int, list[str]] = {}
        self._seen: Counter[str] = Counter()
        self._observed = 0
        self._written: dict[str, str] = {}

    def add(self, term: int, word: str) -> None:
        """A word met for the first time, with its term."""
        insort(self._forms.setdefault(term, []), word, key=_shortest_first)
        self._seen.setdefault(word, 0)

    def wanted(self, count: int) -> slice:
        """Which of so many words to count: all at first, then a sample, so that it costs a few microseconds a page."""
        return slice(count % _STRIDE, None, _STRIDE) if self._observed >= self._counted_whole else slice(None)

    def observe(self, words: list[str]) -> None:
        """Count those of the words that are wanted."""
        self.count(words[self.wanted(len(words))])

    def count(self, words: list[str]) -> None:
        """Count words that were wanted."""
        self._observed += len(words)
        if max(map(len, words), default=0) > _LONGEST:
            words = [word for word in words if len(word) <= _LONGEST]
        self._seen.update(words)

    def write_as(self, word: str, written: str) -> None:
        """Show a word the way it is written here: `BJP` for `bjp` (S4-E2)."""
        self._written[word] = written

    def any_of(self, term: int) -> str:
        """Some word of the term, or an empty string."""
        forms = self._forms.get(term)
        return forms[0] if forms else ""

    def commonest_of(self, term: int) -> str:
        """The form seen most; of equally common ones the shortest, then the first in the alphabet."""
        forms = self._forms.get(term, ())
        # Most have one form, and are asked for dozens of times. Of equals `max` takes the first: forms are in order.
        commonest = forms[0] if len(forms) == 1 else max(forms, key=self._seen.__getitem__, default="")
        return self._written.get(commonest, commonest)

    def most_seen(self, words: Iterable[str], limit: int) -> list[str]:
        """At most `limit` of the words, those seen most first."""
        return sorted(words, key=lambda word: -self._seen[word])[:limit]

    def keep_only(self, terms: dict[str, int]) -> None:
        """Forget every word but these."""
        self._seen = Counter({word: n for word in terms if (n := self._seen[word])})
        self._forms = {}
        for word, term in terms.items():
            if term > 0:
                self.add(term, word)


def _shortest_first(form: str) -> tuple[int, str]:
    return len(form), form
