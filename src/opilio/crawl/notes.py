"""What is noted of a page beside its verdict: its genre, and the words by which it feeds the topic's table."""

from collections import Counter
from collections.abc import Callable
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Reading
from opilio.text.vocabulary import Vocabulary

EXPANSION_TERMS = 200  # stems of a relevant page that are sent home to feed the topic table
SHOWN_TERMS = 60  # the commonest of them go with the word as it was written: others hardly reach a table

Counts = tuple[tuple[str, int], ...]


class Notes:
    """`feeds`: the table grows by pages; where it does not, no words are sent."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        genre: Callable[[Reading], str],
        feeds: bool = True,
        telling: Callable[[Reading], NDArray[np.int64]] | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self.genre = genre
        self._feeds = feeds
        self._telling = telling

    def sample(self, reading: Reading) -> bytes:
        """The terms that a learning judge is taught with; nothing where the judge does not learn."""
        return b"" if self._telling is None else self._telling(reading).astype(np.uint32).tobytes()

    def words(self, reading: Reading) -> tuple[Counts, tuple[str, ...]]:
        """The commonest stems of the main text (menus say nothing of the topic), and how the first are written."""
        if not self._feeds:
            return (), ()
        terms, book = reading.terms, self._vocabulary
        said = Counter([t for start, end in reading.main for t in terms[start:end]])
        # Sorting all is a quarter of the time of most_common, whose heap runs in Python (measured); ties stay the same.
        common = sorted(said.items(), key=itemgetter(1), reverse=True)[:EXPANSION_TERMS]
        counts = tuple([(book.stem_of(term), n) for term, n in common])
        return counts, tuple([book.surface_of(term) for term, _ in common[:SHOWN_TERMS]])
