"""Snippets and highlighting: the passage of a text that shows why it was found, as text segments without markup."""

import re
from collections.abc import Iterable, Sequence

from opilio.core.errors import QueryError
from opilio.search.query import FILTER_FIELDS, QueryTerm, parse_query, positive_terms
from opilio.search.results import TextSegment
from opilio.search.schema import MAX_BODY_LENGTH, MAX_TITLE_LENGTH, index_terms
from opilio.text.languages import is_stop_word, stop_words
from opilio.text.tokens import UNSPACED_SCRIPTS

# Characters of a snippet, and of the text before the first match.
SNIPPET_LENGTH, CONTEXT_BEFORE = 240, 60
# Share of stop words from which a text counts as sentences, and windows that are checked for it.
PROSE_SHARE, MAX_WINDOWS_READ = 0.15, 20
# Of a text that is longer than those in the index, such as a stored copy.
MAX_SCANNED_CHARACTERS, MAX_MATCHES = MAX_TITLE_LENGTH + MAX_BODY_LENGTH + 1, 2_000
# Combining marks inside words, at which `re` ends a word: combining accents, points of Hebrew and Arabic, vowel signs
# of Indic scripts (without their full stop).
_SIGNS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
    "\u0900-\u0963\u0966-\u0dff"
)
_REST = rf"[^\W_]*+(?:[{_SIGNS}]++[^\W_]*+)*+"  # possessive: never looked at twice
_WORD = rf"[^\W_]{_REST}"
_BLANKS = re.compile(r"\s+")

TermMatch = tuple[int, int, int]  # start, end, number of the term


class Highlighter:
    """Finds the words of a query in texts of one language."""

    def __init__(self, terms: Sequence[QueryTerm], language: str) -> None:
        self.language = language
        # Term -> number of the query word.
        self._numbers: dict[str, int] = {}
        self._prefixes: list[tuple[str, int]] = []
        self._fuzzy_terms: list[tuple[str, int, int]] = []
        self._literals: dict[str, int] = {}
        # Word -> number of the query word it matches, or -1.
        self._match_cache: dict[str, int] = {}
        for number, term in enumerate(terms):
            self._add_term(number, term)
        self._pattern = self._build_pattern()

    def _build_pattern(self) -> re.Pattern[str]:
        """A regular expression for candidate words, because checking every word would take most of a search.

        A stem begins with the first letter of its word; a non-ASCII letter may become any letter when folded.
        """
        initials = {term[0] for term in (*self._numbers, *(beginning for beginning, _ in self._prefixes))}
        ascii_ones = "".join(sorted(re.escape(c) + re.escape(c.upper()) for c in initials if c.isascii()))
        word_with_initial = rf"(?<![^\W_])(?<![{_SIGNS}])(?=[^\W_])[{ascii_ones}\x80-\U0010ffff]{_REST}"
        word = _WORD if self._fuzzy_terms else word_with_initial
        runs = "|".join(re.escape(run) for run in sorted(self._literals, key=lambda run: -len(run)))
        return re.compile(f"{runs}|{UNSPACED_SCRIPTS.pattern[:-1]}|{word}" if runs else word)

    def _add_term(self, number: int, term: QueryTerm) -> None:
        self._literals |= dict.fromkeys(UNSPACED_SCRIPTS.findall(term.text), number)
        plain, stems = index_terms(term.text), index_terms(term.text, self.language)
        if term.kind == "prefix":
            self._prefixes += [(word, number) for word in plain]
        elif term.kind == "fuzzy":
            self._fuzzy_terms += [(word, number, term.distance) for word in plain]
        else:
            self._numbers |= dict.fromkeys((*plain, *stems), number)

    def matches(self, text: str) -> list[TermMatch]:
        """The positions of matches, in order."""
        found: list[TermMatch] = []
        for match in self._pattern.finditer(text, 0, MAX_SCANNED_CHARACTERS):
            word = match[0]
            number = self._match_cache.get(word)
            if number is None:
                number = self._match_cache[word] = self._match_word(word)
            if number >= 0:
                found.append((match.start(), match.end(), number))
                if len(found) == MAX_MATCHES:
                    break
        return found

    def _match_word(self, word: str) -> int:
        if word in self._literals:
            return self._literals[word]
        plain = index_terms(word)
        # The engine splits some words; all parts must match.
        for found in (
            plain,
            index_terms(word, self.language),
        ):
            if found and all(term in self._numbers for term in found):
                return self._numbers[found[0]]
        for term in plain:
            for beginning, number in self._prefixes:
                if term.startswith(beginning):
                    return number
            for similar, number, limit in self._fuzzy_terms:
                if edit_distance(term, similar, limit) <= limit:
                    return number
        return -1


def query_highlighter(query: str, language: str) -> Highlighter | None:
    """Finds the words of a query without stop words; None if there are none, or the query is invalid."""
    try:
        terms = positive_terms(parse_query(query))
    except QueryError:
        return None
    wanted = [
        term
        for term in terms
        if term.field not in FILTER_FIELDS.values() and not (term.kind == "word" and is_stop_word(term.text.lower()))
    ]
    return Highlighter(wanted, language) if wanted else None


def highlight(
    text: str, matches: Iterable[TermMatch], start: int = 0, end: int | None = None
) -> tuple[TextSegment, ...]:
    """A passage of text as segments, split at its matches."""
    end = len(text) if end is None else end
    pieces: list[TextSegment] = []
    at = start
    for first, last, _ in matches:
        if first < at or last > end:
            continue
        pieces += [TextSegment(text[at:first]), TextSegment(text[first:last], True)]
        at = last
    pieces.append(TextSegment(text[at:end]))
    return tuple(_collapse_whitespace(pieces))


def build_snippet(text: str, highlighter: Highlighter, length: int = SNIPPET_LENGTH) -> tuple[TextSegment, ...]:
    """The passage with most of the query's words, of sentences if there is one; without any, the beginning."""
    matches = highlighter.matches(text)
    start = _best_start(text, matches, length, highlighter.language)
    start, end = _snap_to_words(text, start, length)
    inside = [m for m in matches if m[0] >= start]
    segments = highlight(text, inside, start, end)
    opened = (TextSegment("… "), *segments) if start > 0 and segments else segments
    return (*opened, TextSegment(" …")) if end < len(text) and opened else opened


def _best_start(text: str, matches: Sequence[TermMatch], length: int, language: str) -> int:
    """The start of the window with most distinct words, then most words, then the first one.

    Of windows with as many distinct words, one of sentences explains more than a menu or the output of a program.
    """
    windows = []
    for i, (start, _, _) in enumerate(matches):
        inside = [number for first, last, number in matches[i : i + 30] if last <= start + length - CONTEXT_BEFORE]
        windows.append((-len(set(inside)), -len(inside), max(0, start - CONTEXT_BEFORE)))
    windows.sort()
    best: list[int] = []
    for words, _, start in windows:
        if words != windows[0][0] or len(best) == MAX_WINDOWS_READ:
            break
        if all(abs(start - other) > length // 2 for other in best):
            best.append(start)
    sentences = (start for start in best if stop_word_share(text[start : start + length], language) >= PROSE_SHARE)
    return next(sentences, best[0] if best else 0)


def stop_word_share(text: str, language: str) -> float:
    """The share of stop words in a text: sentences have many, lists of names, menus and code few.

    >>> stop_word_share("The wren is a bird of the hedge", "en"), stop_word_share("Home Birds Wrens", "en")
    (0.625, 0.0)
    """
    words, ignored = re.findall(r"\w+", text.lower()), stop_words(language)
    return sum(word in ignored for word in words) / max(len(words), 1)


def _snap_to_words(text: str, start: int, length: int) -> tuple[int, int]:
    """Move both ends to nearby white space; prefer to start at a nearby block."""
    if start > 0:
        line = text.rfind("\n", start, start + CONTEXT_BEFORE)
        blank = text.find(" ", start, start + CONTEXT_BEFORE // 2)
        start = line + 1 if line >= 0 else blank + 1 if blank >= 0 else start
    end = min(len(text), start + length)
    if end < len(text):
        blank = max(text.rfind(" ", end - 40, end), text.rfind("\n", end - 40, end))
        end = blank if blank > start else end
    return start, end


def _collapse_whitespace(pieces: Iterable[TextSegment]) -> Iterable[TextSegment]:
    for piece in pieces:
        text = _BLANKS.sub(" ", piece.text)
        if text:
            yield TextSegment(text, piece.marked)


def edit_distance(a: str, b: str, limit: int) -> int:
    """Letters to add, remove, change or swap between two words; more than `limit` if it exceeds that.

    >>> edit_distance("wren", "wern", 2), edit_distance("wren", "robin", 1) > 1
    (1, True)
    """
    if abs(len(a) - len(b)) > limit:
        return limit + 1
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i, letter in enumerate(a, start=1):
        older, before, row = before, row, [i]
        for j, other in enumerate(b, start=1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != other))
            if i > 1 and j > 1 and letter == b[j - 2] and a[i - 2] == other:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > limit:
            return limit + 1
    return row[-1]
