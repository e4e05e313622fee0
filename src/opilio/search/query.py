"""Parses a search query into a tree. A `QueryError` says what to write instead.

wren song            pages with most of the words, best matches first
"wren song"          this phrase; "wren song"~3 with up to three words between
+wren -toy           must have, must not have; also AND, OR, NOT and brackets
title:wren           only in this field
wre* colour~         words with this prefix; similar words (~2: two letters may differ)
https://a.example/b  the page with this URL, and pages that mention it; also without https://
a.example            the pages of this host, and pages that mention it
"""

import math
import re
from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise
from typing import TypeVar

import msgspec

from opilio.core.clock import parse_iso_date
from opilio.core.errors import QueryError
from opilio.core.records import url_key
from opilio.core.urls import canonicalize_url
from opilio.search.results import BANDS, FOREVER
from opilio.search.schema import replace_surrogates
from opilio.text.languages import is_function_bigram
from opilio.text.polarity import POLARITIES
from opilio.text.tokens import UNSPACED_SCRIPTS, is_thai, thai_words

Query = TypeVar("Query")

MAX_QUERY_LENGTH, MAX_TERMS, MAX_NESTING = 1_000, 64, 20
# Characters of Chinese or Japanese; fewer are a word or a name.
MIN_DIVIDED_RUN = 5
TEXT_FIELDS = {
    **dict.fromkeys(("title", "intitle"), "title"),
    **dict.fromkeys(("heading", "headings"), "headings"),
    **dict.fromkeys(("text", "body", "intext"), "body"),
    **dict.fromkeys(("anchor", "anchors", "inanchor"), "anchors"),
    **dict.fromkeys(("url", "inurl"), "url_words"),
}
FILTER_FIELDS = {
    **dict.fromkeys(("host", "site"), "host"),
    **dict.fromkeys(("language", "lang"), "language"),
    **dict.fromkeys(("polarity", "tone"), "polarity"),
    **{name: name for name in ("genre", "subtopic", "band", "year", "relevant")},
}
# Filters with a fixed set of values.
CLOSED_VALUES = {"band": tuple(name for name, _ in BANDS), "relevant": ("yes", "no"), "polarity": POLARITIES}
FIELDS = {**TEXT_FIELDS, **FILTER_FIELDS}
_is_url_like = re.compile(r"[\w-]+(?:\.[\w-]+)+(?::\d+)?(?:/\S*)?").fullmatch
_TOKEN = re.compile(
    r"""\s*(?:(?P<address>https?://(?:[^\s()"]|\([^\s()"]*\))+)
    |(?P<bracket>[()])
    |(?P<sign>[+\-](?=[^\s+\-]))
    |(?:(?P<field>[A-Za-z_]+):(?=["\w]))?(?:"(?P<phrase>[^"]*)"(?P<slop>~\d*)?|(?P<word>[^\s()"]+)))""",
    re.VERBOSE,
)


class QueryTerm(msgspec.Struct, frozen=True, kw_only=True):
    """A word, phrase, prefix or fuzzy word, optionally in one field."""

    text: str
    kind: str = "word"  # word, phrase, prefix, fuzzy, address
    field: str = ""
    # Words between those of a phrase; edits of a fuzzy word.
    distance: int = 0


class QueryGroup(msgspec.Struct, frozen=True, kw_only=True):
    """A group of parts (`must`, `may` or `not`, node). Kind `some` needs most of them, `all` all, `any` one."""

    kind: str
    parts: tuple[tuple[str, "QueryNode"], ...]


QueryNode = QueryTerm | QueryGroup


def parse_query(query: str) -> QueryGroup:
    """The tree of a query; without parts for an empty query."""
    if len(query) > MAX_QUERY_LENGTH:
        raise QueryError(f"the query has {len(query)} characters, more than {MAX_QUERY_LENGTH}; use fewer words")
    parser = _QueryParser(replace_surrogates(query))
    group = parser.parse_group(0)
    if parser.has_more:
        raise QueryError('unmatched ")"; remove it or add "(" before it')
    return group


def check_filter_value(field: str, value: str) -> None:
    """Raise QueryError for a value that no page can have."""
    known = CLOSED_VALUES.get(field)
    if known and value not in known:
        raise QueryError(f'{field} "{value[:40]}" is unknown; known: {", ".join(known)}')


def is_plain_word(node: QueryNode) -> bool:
    """True for a single word without a field."""
    return isinstance(node, QueryTerm) and node.kind == "word" and not node.field


class UrlMatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL in a query stands for: the page with one of these keys, or the pages of these hosts; and its text."""

    text: str
    keys: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()


def match_address(*urls: str) -> UrlMatch:
    """The page with one of these URLs, or a page that contains the first one."""
    return UrlMatch(text=urls[0], keys=tuple(url_key(canonicalize_url(url) or url) for url in urls))


def translate_word(
    text: str, on_url: Callable[[UrlMatch], Query], on_word: Callable[[str], Query | None]
) -> Query | None:
    """Translate a word without a field; one that looks like a URL without its scheme also finds that page or host."""
    url = match_url_like(text)
    return on_word(text) if url is None else on_url(url)


def match_url_like(word: str) -> UrlMatch | None:
    """What a word stands for that looks like a URL without its scheme; None for another word.

    >>> match_url_like("www.A.example").hosts, match_url_like("wren")
    (('a.example', 'www.a.example'), None)
    """
    if not _is_url_like(word):
        return None
    host, _, path = word.partition("/")
    if path:
        return match_address(f"https://{word}", f"http://{word}")
    bare = host.lower().removeprefix("www.")
    return UrlMatch(text=word, hosts=(bare, f"www.{bare}"))


def positive_terms(node: QueryNode) -> list[QueryTerm]:
    """All terms to highlight in hits, in order."""
    if isinstance(node, QueryTerm):
        return [node]
    return [term for occur, part in node.parts if occur != "not" for term in positive_terms(part)]


def check_time(at: float) -> int:
    """The time of a past version, in whole seconds; QueryError if it is no time."""
    if not math.isfinite(at):
        raise QueryError(f"at: {at} is not a time; write seconds since 1970")
    return max(-FOREVER, min(int(at), FOREVER - 2))


def parse_day(text: str, name: str) -> int | None:
    """An ISO date as seconds since 1970; QueryError if it is invalid."""
    if not text:
        return None
    found = parse_iso_date(text)
    if found is None:
        raise QueryError(f'{name}: "{text[:40]}" is not a date; write it as 2026-01-31')
    return int(found)


class _QueryParser:
    """Parses one query. Juxtaposition binds loosest, then OR, then AND: a b OR c is a (b OR c)."""

    def __init__(self, query: str) -> None:
        self._tokens = _tokens(query)
        self._at = 0

    @property
    def has_more(self) -> bool:
        return self._at < len(self._tokens)

    def _peek(self) -> str | QueryTerm:
        return self._tokens[self._at] if self.has_more else ""

    def parse_group(self, depth: int) -> QueryGroup:
        if depth > MAX_NESTING:
            raise QueryError(f"brackets are nested more than {MAX_NESTING} deep; simplify the query")
        parts: list[tuple[str, QueryNode]] = []
        while self.has_more and self._peek() != ")":
            occur = self._occur()
            parts.append((occur, self._chain("OR", depth)))
        return QueryGroup(kind="some", parts=tuple(parts))

    def _occur(self) -> str:
        occur = {"+": "must", "-": "not", "NOT": "not"}.get(str(self._peek()), "may")
        if occur != "may":
            self._at += 1
        return occur

    def _chain(self, operator: str, depth: int) -> QueryNode:
        """Operands joined by an operator; a single operand is returned as it is."""
        negated: list[bool] = []
        operands = [self._operand(operator, depth, negated)]
        while self._peek() == operator:
            self._at += 1
            operands.append(self._operand(operator, depth, negated))
        if len(operands) == 1 and not negated[0]:
            return operands[0]
        kind, plain = ("any", "may") if operator == "OR" else ("all", "must")
        parts = tuple(("not" if no else plain, node) for no, node in zip(negated, operands, strict=True))
        return QueryGroup(kind=kind, parts=parts)

    def _operand(self, operator: str, depth: int, negated: list[bool]) -> QueryNode:
        if operator == "OR":
            negated.append(False)
            return self._chain("AND", depth)
        negated.append(self._occur() == "not")
        return self._primary(depth)

    def _primary(self, depth: int) -> QueryNode:
        found = self._peek()
        self._at += 1
        if isinstance(found, QueryTerm):
            return found
        if found == "(":
            group = self.parse_group(depth + 1)
            if self._peek() != ")":
                raise QueryError('unclosed "("; add ")" where the group ends')
            self._at += 1
            return group
        if found in ("AND", "OR", "NOT"):
            raise QueryError(f'{found} needs a word on each side; put "{found}" in quotes to search for it as a word')
        raise QueryError("the query ends with an operator; add a word, or remove the operator")


def _tokens(query: str) -> list[str | QueryTerm]:
    found: list[str | QueryTerm] = []
    text = query.rstrip()
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise QueryError(f'unclosed quote at character {text.index(chr(34), at) + 1}; add " at its end')
        at = match.end()
        token = _token(match)
        if token is not None:
            found.append(token)
    found = _split_questions(found)
    if sum(isinstance(token, QueryTerm) for token in found) > MAX_TERMS:
        raise QueryError(f"the query has more than {MAX_TERMS} words; use fewer")
    return found


def _split_questions(tokens: list[str | QueryTerm]) -> list[str | QueryTerm]:
    """A query of words only, with those of scripts without spaces divided: no page has a question as a whole."""
    if not all(isinstance(token, QueryTerm) for token in tokens):
        return tokens
    divided: list[str | QueryTerm] = []
    for token in tokens:
        if isinstance(token, QueryTerm) and is_plain_word(token):
            divided += [QueryTerm(text=part) for part in _divide(token.text) if any(map(str.isalnum, part))]
        else:
            divided.append(token)
    return divided if len(divided) <= MAX_TERMS else tokens


def _divide(word: str) -> list[str]:
    """The parts of a word: Thai words, and pairs of characters without function words of long runs of other scripts.

    >>> _divide("แมวกินปลา?"), _divide("鉄道の歴史"), _divide("東京都"), _divide("wren's")
    (['แมว', 'กิน', 'ปลา', '?'], ['鉄道', '歴史'], ['東京都'], ["wren's"])
    """
    if word.isascii():
        return [word]
    parts: list[str] = []
    at = 0
    for run in UNSPACED_SCRIPTS.finditer(word):
        parts += [word[at : run.start()], *_divide_run(run.group())]
        at = run.end()
    return [part for part in (*parts, word[at:]) if part]


def _divide_run(run: str) -> list[str]:
    if is_thai(run):
        return thai_words(run)
    if len(run) < MIN_DIVIDED_RUN:
        return [run]
    pairs = dict.fromkeys(map("".join, pairwise(run)))
    return [pair for pair in pairs if not is_function_bigram(pair)] or [run]


def _token(match: re.Match[str]) -> str | QueryTerm | None:
    if match["address"]:
        return QueryTerm(text=match["address"], kind="address")
    if operator := match["bracket"] or match["sign"]:
        return operator
    if match["word"] in ("AND", "OR", "NOT") and not match["field"]:
        return match["word"]
    field, prefix = _field(match["field"] or "")
    if field in CLOSED_VALUES:
        check_filter_value(field, (match["phrase"] or match["word"] or "").strip().lower())
    if match["phrase"] is not None:
        slop = match["slop"] or ""
        return QueryTerm(text=prefix + match["phrase"], kind="phrase", field=field, distance=_number(slop, 3, 50))
    return _word(prefix + match["word"], field)


def _field(written: str) -> tuple[str, str]:
    """The field of a prefix; an unknown one is part of the text (http://, Re: and the like)."""
    name = written.lower()
    if not name or name in FIELDS:
        return FIELDS.get(name, ""), ""
    close = get_close_matches(name, FIELDS, 1, 0.75)
    if close:
        raise QueryError(f'"{written}:" is not a field; did you mean "{close[0]}:"? Put it in quotes to search for it')
    return "", f"{written} "


def _word(word: str, field: str) -> QueryTerm | None:
    if field in FILTER_FIELDS.values():
        return QueryTerm(text=word, field=field)
    fuzzy = re.fullmatch(r"(.*\w)~(\d*)", word)
    if fuzzy:
        return QueryTerm(text=fuzzy[1], kind="fuzzy", field=field, distance=_number(f"~{fuzzy[2]}", 1, 2))
    if word.endswith("*") and len(stem := word.rstrip("*")) == 1:
        raise QueryError(f'"{word}" matches too much; write at least two letters before the *')
    if word.endswith("*") and stem:
        return QueryTerm(text=stem, kind="prefix", field=field)
    return QueryTerm(text=word, field=field) if any(map(str.isalnum, word)) else None


def _number(written: str, default: int, most: int) -> int:
    """
    >>> _number("", 3, 50), _number("~", 3, 50), _number("~99", 3, 50)
    (0, 3, 50)
    """
    if not written:
        return 0
    return min(int(written[1:6] or default), most)
