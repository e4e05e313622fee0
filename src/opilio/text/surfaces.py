"""Which surface form of a term is the commonest (S0-E4): what people are shown instead of stems."""

from collections import Counter
from collections.abc import Iterable

_COUNTED_WHOLE = 200_000  # words counted one by one before counting turns into sampling
_STRIDE = 31  # then every 31st: a prime, so that no layout of a page keeps in step with it


class Surfaces:
    """The words behind each term, and how often they were seen (a sample once enough were)."""

    def __init__(self) -> None:
        self._forms: dict[int, list[str]] = {}
        self._seen: Counter[str] = Counter()
        self._observed = 0

    def add(self, term: int, word: str) -> None:
        """A word met for the first time, with its term."""
        self._forms.setdefault(term, []).append(word)

    def observe(self, words: list[str]) -> None:
        """Count words: all of them at first, then a sample, so that it costs a few microseconds a page."""
        if self._observed > _COUNTED_WHOLE:
            words = words[len(words) % _STRIDE :: _STRIDE]
        self._observed += len(words)
        self._seen.update(words)

    def any_of(self, term: int) -> str:
        """Some word of the term, or an empty string."""
        forms = self._forms.get(term)
        return forms[0] if forms else ""

    def commonest_of(self, term: int) -> str:
        """The form seen most; of equally common ones the shortest, then the first in the alphabet."""
        forms = self._forms.get(term, ())
        return min(forms, key=lambda form: (-self._seen[form], len(form), form), default="")

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
