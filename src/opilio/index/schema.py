"""The fields of the index (S1-08: words with the field and the position they were found at), and pages as documents.

Stemmed fields hold the terms of the page's own language; `exact` holds title, headings, text and address as they
are written, for quoted phrases, prefixes, misspelt words and suggestions.
"""

from datetime import UTC, datetime

import tantivy

from opilio.index.analysis import PLAIN, analyser, analyser_for, clean, spaced, terms
from opilio.index.records import FOREVER, Document, band_of
from opilio.text.urlwords import url_words

VERSION = 3  # an index of another version is thrown away and made again
LONGEST_TITLE, LONGEST_HEADINGS, LONGEST_BODY, LONGEST_ANCHORS, LONGEST_URL = 500, 10_000, 200_000, 4_000, 2_000
LONGEST_NAME = 35  # of a language or genre
STEMMED_FIELDS = ("title", "headings", "body", "anchors", "url_words")
EXACT = "exact"
WHOLE = "whole"  # the whole title as one term: who types it means that page
ANALYSED = "analysed"  # fields whose terms come ready, with blanks between
KEPT = "text"  # the stored text that snippets are made of


def make_schema() -> tantivy.Schema:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw", index_option="basic")
    for name in STEMMED_FIELDS:
        builder.add_text_field(name, tokenizer_name=ANALYSED)
    builder.add_text_field(EXACT, tokenizer_name=PLAIN)
    builder.add_text_field(WHOLE, tokenizer_name="raw", index_option="basic")
    for name in ("url", "name", KEPT):  # stored as they are shown, not indexed again
        builder.add_bytes_field(name, stored=True)
    for name in ("host", "language", "genre", "band", "subtopic", "year", "relevant"):
        builder.add_text_field(name, stored=True, fast=True, tokenizer_name="raw", index_option="basic")
    builder.add_integer_field("key", stored=True, fast=True, indexed=True)
    for name in ("date", "since", "until"):
        builder.add_integer_field(name, stored=True, fast=True, indexed=True)
    builder.add_float_field("relevance", stored=True, fast=True)
    return builder.build()


def register(index: tantivy.Index) -> None:
    """Give the index the analysers its fields name."""
    index.register_tokenizer(PLAIN, analyser())
    index.register_tokenizer(ANALYSED, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build())


def id_of(document: Document) -> str:
    """Under which name a document is replaced: one for the present version of a page, one for each older one."""
    return f"{document.key:x}" if document.until == FOREVER else f"{document.key:x}@{document.seq}"


def as_document(page: Document, subtopic: str = "") -> tantivy.Document:
    """A page as the engine takes it."""
    title, body = clean(page.title, LONGEST_TITLE), clean(page.body, LONGEST_BODY)
    headings, url = clean(page.headings, LONGEST_HEADINGS), clean(page.url, LONGEST_URL)
    anchors = clean("\n".join(page.anchors), LONGEST_ANCHORS)
    words = " ".join(url_words(url))
    document = tantivy.Document()
    document.add_text("id", id_of(page))
    analyse = analyser_for(page.language)
    fields = zip(STEMMED_FIELDS, (title, headings, body, anchors, words), strict=True)
    for name, text in fields:
        # Half the cost of the engine's own form for analysed text (measured), and positions are the same.
        document.add_text(name, " ".join(analyse.analyze(spaced(text))))
    document.add_text(EXACT, spaced("\n".join((title, headings, body, words))))
    document.add_text(WHOLE, whole(title))
    shown = clean(page.description, LONGEST_TITLE)
    for name, text in (("url", url), ("name", title), (KEPT, f"{shown}\n{body}")):
        document.add_bytes(name, text.encode())
    _add_facts(document, page, subtopic)
    return document


def whole(title: str) -> str:
    """A title as one term: its words, however they were written and divided.

    >>> whole("Wrens: a Guide")
    'wrens a guide'
    """
    return " ".join(terms(title))


def _add_facts(document: tantivy.Document, page: Document, subtopic: str) -> None:
    document.add_text("host", clean(page.host, LONGEST_TITLE))
    document.add_text("language", clean(page.language, LONGEST_NAME))
    document.add_text("genre", clean(page.genre, LONGEST_NAME))
    document.add_text("band", band_of(page.score))
    document.add_text("subtopic", subtopic)
    document.add_text("year", year_of(page.date))
    document.add_text("relevant", "yes" if page.relevant else "no")
    document.add_integer("key", page.key)
    document.add_integer("date", int(page.date))
    document.add_integer("since", int(page.fetched_at))
    document.add_integer("until", page.until)
    document.add_float("relevance", page.score)


def year_of(at: float) -> str:
    """The year of a moment; empty where it is none that a calendar has.

    >>> year_of(0.0), year_of(1e18)
    ('1970', '')
    """
    try:
        return str(datetime.fromtimestamp(at, UTC).year)
    except (OverflowError, ValueError, OSError):
        return ""
