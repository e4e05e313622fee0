"""The schema of the index (S1-08), the analyzers, and pages as documents of the engine.

Stemmed fields contain the terms of the page's own language; `exact` contains title, headings, text and URL as written,
for phrases, prefixes, fuzzy words and suggestions. Stemmed terms of all languages share the same fields; a query is
stemmed in each language of the collection. Scripts written without spaces become overlapping pairs of characters: a
phrase of pairs finds any part of such a text.
"""

import re
import unicodedata
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

import tantivy

from opilio.search.results import FOREVER, LEAD_CHARACTERS, IndexDocument, score_band
from opilio.text.languages import language_code, language_name
from opilio.text.tokens import UNSPACED_SCRIPTS, url_words

MAX_TERM_BYTES = 64  # longer terms are dropped
STEMMED_LANGUAGES = frozenset("ar da nl en fi fr de el hu it no pt ro ru es sv ta tr".split())
PLAIN_ANALYZER = "plain"  # the analyzer without stemming
_UNWANTED = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)

# Only these: NFKC of other characters would join "wren" with a following ™ or footnote number.
_WIDE = re.compile("[\uff00-\uffef]+")


def clean_text(text: str, max_length: int) -> str:
    """Valid text of bounded length without control characters and direction overrides.

    >>> clean_text("a\\u202eb\\x00c\\ud800d", 10)
    'abc?d'
    """
    return _UNWANTED.sub("", replace_surrogates(text[: 2 * max_length]))[:max_length]


def replace_surrogates(text: str) -> str:
    """Text that can be encoded: lone surrogates, as in undecodable arguments, become question marks."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def normalize_for_analysis(text: str) -> str:
    """Text for an analyzer: composed accents, normal width, and scripts without spaces as pairs of characters.

    >>> [normalize_for_analysis(text) for text in ("in 東京都 now", "u\u0308ber", "ＷＲＥＮ")]
    ['in  東京 京都  now', 'über', 'WREN']
    """
    if text.isascii():
        return text
    joined = _WIDE.sub(lambda run: unicodedata.normalize("NFKC", run[0]), unicodedata.normalize("NFC", text))
    return UNSPACED_SCRIPTS.sub(lambda run: f" {_pairs(run[0])} ", joined)


def _pairs(run: str) -> str:
    return " ".join(run[i : i + 2] for i in range(max(1, len(run) - 1)))


@cache
def text_analyzer(language: str = "") -> tantivy.TextAnalyzer:
    """The analyzer of a language; without stemming for an unknown or empty one."""
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(MAX_TERM_BYTES)).filter(tantivy.Filter.lowercase())
    if language in STEMMED_LANGUAGES:
        builder = builder.filter(tantivy.Filter.stemmer(language_name(language)))
    return builder.filter(tantivy.Filter.ascii_fold()).build()


@lru_cache(maxsize=256)
def analyzer_for_language(tag: str) -> tantivy.TextAnalyzer:
    """The analyzer for a page's language tag; languages without a stemmer share one."""
    code = language_code(tag)
    return text_analyzer(code if code in STEMMED_LANGUAGES else "")


def index_terms(text: str, language: str = "") -> list[str]:
    """The index terms of a short text.

    >>> index_terms("Cafés in 東京都", "fr")
    ['caf', 'in', '東京', '京都']
    """
    found: list[str] = analyzer_for_language(language).analyze(normalize_for_analysis(text))
    return found


INDEX_VERSION = 10  # an index of another version is rebuilt
MAX_TITLE_LENGTH, MAX_HEADINGS_LENGTH, MAX_BODY_LENGTH, MAX_ANCHORS_LENGTH, MAX_URL_LENGTH = (
    500,
    10_000,
    200_000,
    4_000,
    2_000,
)
MAX_NAME_LENGTH = 35  # of a language or genre
STEMMED_FIELDS = ("title", "headings", "body", "anchors", "url_words")
EXACT_FIELD = "exact"
# The stems of the beginning of the text, which states what a page is about.
LEAD_FIELD = "lead"
WHOLE_TITLE_FIELD = "whole"  # the whole title as one term
PRE_ANALYZED = "analysed"  # fields with terms separated by spaces
STORED_TEXT_FIELD = "text"  # the stored text for snippets
SHOWN_FIELDS = ("url", "name", STORED_TEXT_FIELD)  # stored as they are shown
FILTER_FIELDS = ("host", "language", "genre", "polarity", "band", "subtopic", "year", "relevant")
TIME_FIELDS = ("date", "since", "until")


def make_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in STEMMED_FIELDS:
        builder.add_text_field(name, tokenizer_name=PRE_ANALYZED)
    builder.add_text_field(LEAD_FIELD, tokenizer_name=PRE_ANALYZED, index_option="basic")
    builder.add_text_field(EXACT_FIELD, tokenizer_name=PLAIN_ANALYZER)
    builder.add_text_field(WHOLE_TITLE_FIELD, tokenizer_name="raw", index_option="basic")
    # Stored as they are shown, not indexed again
    for name in SHOWN_FIELDS:
        builder.add_bytes_field(name, stored=True)
    for name in FILTER_FIELDS:
        builder.add_text_field(name, stored=True, fast=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("key", stored=True, fast=True, indexed=True)
    for name in TIME_FIELDS:
        builder.add_integer_field(name, stored=True, fast=True, indexed=True)
    builder.add_float_field("relevance", stored=True, fast=True)
    return builder.build()


def register_analyzers(index: tantivy.Index) -> None:
    """Register the analyzers of the fields."""
    index.register_tokenizer(PLAIN_ANALYZER, text_analyzer())
    index.register_tokenizer(PRE_ANALYZED, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def document_id(document: IndexDocument) -> str:
    """The id of a document: one for the current version of a page, one for each past version."""
    return f"{document.key:x}" if document.until == FOREVER else f"{document.key:x}@{document.seq}"


def document_fields(page: IndexDocument, subtopic: str = "") -> dict[str, Any]:
    """The fields of a page. Stemmed fields are terms separated by spaces."""
    title, body = clean_text(page.title, MAX_TITLE_LENGTH), clean_text(page.body, MAX_BODY_LENGTH)
    headings, url = clean_text(page.headings, MAX_HEADINGS_LENGTH), clean_text(page.url, MAX_URL_LENGTH)
    anchors = clean_text("\n".join(page.anchors), MAX_ANCHORS_LENGTH)
    words = " ".join(url_words(url))
    analyzer = analyzer_for_language(page.language)
    description = clean_text(page.description, MAX_TITLE_LENGTH)
    lead = f"{description}\n{body[:LEAD_CHARACTERS]}"
    texts = zip((*STEMMED_FIELDS, LEAD_FIELD), (title, headings, body, anchors, words, lead), strict=True)
    return {
        # Half the cost of the engine's own format for analyzed text (measured), with the same positions.
        **{name: " ".join(analyzer.analyze(normalize_for_analysis(text))) for name, text in texts},
        EXACT_FIELD: normalize_for_analysis("\n".join((title, headings, body, words))),
        WHOLE_TITLE_FIELD: title_term(title),
        "url": url,
        "name": title,
        STORED_TEXT_FIELD: f"{description}\n{body}",
        "host": clean_text(page.host, MAX_TITLE_LENGTH),
        "language": clean_text(page.language, MAX_NAME_LENGTH),
        "genre": clean_text(page.genre, MAX_NAME_LENGTH),
        "polarity": page.polarity,
        "band": score_band(page.score),
        "subtopic": subtopic,
        "year": year_of(page.date),
        "relevant": "yes" if page.relevant else "no",
        "key": page.key,
        "date": int(page.date),
        "since": int(page.fetched_at),
        "until": page.until,
        "relevance": page.score,
    }


def to_engine_document(page: IndexDocument, subtopic: str = "") -> tantivy.Document:
    """A page as a document of the engine."""
    fields = document_fields(page, subtopic)
    document = tantivy.Document()
    document.add_text("id", document_id(page))
    for name in (*STEMMED_FIELDS, LEAD_FIELD, EXACT_FIELD, WHOLE_TITLE_FIELD, *FILTER_FIELDS):
        document.add_text(name, fields[name])
    for name in SHOWN_FIELDS:
        document.add_bytes(name, fields[name].encode())
    for name in ("key", *TIME_FIELDS):
        document.add_integer(name, fields[name])
    document.add_float("relevance", fields["relevance"])
    return document


def title_term(title: str) -> str:
    """A title as one term: its words in normalized form.

    >>> title_term("Wrens: a Guide")
    'wrens a guide'
    """
    return " ".join(index_terms(title))


def year_of(at: float) -> str:
    """The year of a time; empty if it is out of range.

    >>> year_of(0.0), year_of(1e18)
    ('1970', '')
    """
    try:
        return str(datetime.fromtimestamp(at, UTC).year)
    except (OverflowError, ValueError, OSError):
        return ""
