"""Everything between a response and an outcome that needs no I/O: parse, read, judge, rank, make the record.

Runs inline or in a worker process; holds a read-only snapshot of what the crawl has learned.

Besides the verdict: the genre of a page, and its words for the topic's table.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Literal, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from opilio.core.errors import ParseError
from opilio.core.protocols import SITE_TEXT, Judge, Learns, Parser, Ranker
from opilio.core.records import (
    SCOPE_FAILURE,
    SIGNAL_FAILURE,
    SOFT_404,
    Analysis,
    Failure,
    FetchResult,
    Lead,
    Page,
    Reading,
    Reason,
    Tier,
    Verdict,
)
from opilio.core.scope import ScopeSettings, page_refusal
from opilio.core.settings import Settings
from opilio.dedup import digest_body
from opilio.parse.documents.formats import convert_document
from opilio.parse.html import has_too_many_tags
from opilio.parse.page_state import find_wall, soft_404_phrase
from opilio.parse.signals import PageSignals
from opilio.parse.sitemaps import parse_sitemap
from opilio.rank.link_scores import pack
from opilio.store.warc import response_record
from opilio.text.languages import identify_language, language_code
from opilio.text.vocabulary import Vocabulary
from opilio.topic.page_terms import SiteText, shown_text

MAX_DETAIL_CHARS = 300  # of a failure, which may quote a header
MAX_SHELL_TERMS = 40  # of a page that scripts may fill
# Stems of a relevant page for the topic table.
MAX_EXPANSION_TERMS = 200
# The commonest stems, which also have the word as written: others rarely enter a table.
MAX_SURFACE_FORMS = 60
MAX_SITE_TEXT_CHARS = 200  # of the text that a reason shows

TermCounts = tuple[tuple[str, int], ...]


class PageFeatures:
    """`feeds`: whether the table grows by pages; if not, no words are sent."""

    def __init__(
        self,
        vocabulary: Vocabulary,
        genre: Callable[[Reading], str],
        feeds: bool = True,
        judge_terms: Callable[[Reading], NDArray[np.int64]] | None = None,
        with_link_score: Callable[[Verdict, float], Verdict] | None = None,
        site_text: SiteText | None = None,
    ) -> None:
        self._vocabulary = vocabulary
        self.genre = genre
        self._feeds_topic = feeds
        # Later pages that the topic's table learns from: relevant ones, all (S3-11), or none: the table is static.
        self.counted_pages: Literal["relevant", "all", "none"] = "relevant"
        self._judge_terms = judge_terms
        self._with_link_score = with_link_score
        self._site_text = site_text

    def combined_verdict(self, verdict: Verdict, lead: Lead) -> Verdict:
        """The verdict with the evidence of the link, if the judge counts it; a seed has no link."""
        if self._with_link_score is None or not lead.parent or lead.tier != Tier.LINK:
            return verdict
        return self._with_link_score(verdict, lead.score)

    def with_site_text(self, verdict: Verdict, page: Page) -> Verdict:
        """The verdict; its last reason names the text that is not learned from."""
        site_text = self._site_text
        blocks = site_text.blocks_of(page) if site_text else ()
        if site_text is None or not blocks:
            return verdict
        shown = ", ".join(f"“{shown_text(block)}”" for block in blocks)[:MAX_SITE_TEXT_CHARS]
        words = sum(len(site_text.terms_of(block)) for block in blocks)
        return replace(verdict, reasons=(*verdict.reasons, Reason(f"{SITE_TEXT}{shown}", float(words))))

    def site_blocks(self, page: Page) -> bytes:
        """What the learner of site text counts; nothing where there is no such learner."""
        return self._site_text.sample(page) if self._site_text else b""

    def sample(self, reading: Reading) -> bytes:
        """The terms that a learning judge is taught with; nothing where the judge does not learn."""
        return b"" if self._judge_terms is None else self._judge_terms(reading).astype(np.uint32).tobytes()

    def expansion_terms(self, reading: Reading) -> tuple[TermCounts, tuple[str, ...]]:
        """The commonest stems of the main text (menus are not about the topic), and how the first are written."""
        if not self._feeds_topic:
            return (), ()
        terms, book = reading.terms, self._vocabulary
        term_counts = Counter([t for start, end in reading.main_slices for t in terms[start:end]])
        if self._site_text:
            for block in self._site_text.blocks_of(reading.page):
                term_counts.subtract(self._site_text.terms_of(block))
        # Sorting all is a quarter of the time of most_common, whose heap runs in Python (measured); ties stay the same.
        common = sorted(term_counts.items(), key=itemgetter(1), reverse=True)[:MAX_EXPANSION_TERMS]
        counts = tuple([(book.stem_of(term), n) for term, n in common if n > 0])
        return counts, tuple([book.surface_of(term) for term, _ in common[:MAX_SURFACE_FORMS]])


class NofollowIgnoringParser:
    """Ignores nofollow on pages and links, for `politeness.nofollow = false`."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(self, fetched: FetchResult) -> Page:
        page = self._parser.parse(fetched)
        links = tuple(replace(link, rel="") if link.rel else link for link in page.links)
        return replace(page, nofollow=False, links=links)


class ScopedParser:
    """Rejects pages whose type or language is out of scope."""

    def __init__(self, parser: Parser, scope: ScopeSettings) -> None:
        self._parser = parser
        self._scope = scope

    def parse(self, fetched: FetchResult) -> Page:
        page = self._parser.parse(fetched)
        language = language_code(page.language) or identify_language(page.flow)
        if refusal := page_refusal(self._scope, page.content_type, language):
            raise ParseError(f"{SCOPE_FAILURE}: {refusal}")
        return page


class HeedingParser:
    """Rejects pages whose signals deny a purpose of `politeness.heed`."""

    def __init__(self, parser: Parser, purposes: Sequence[str]) -> None:
        self._parser = parser
        self._purposes = frozenset(purposes)

    def parse(self, fetched: FetchResult) -> Page:
        page = self._parser.parse(fetched)
        if denied := PageSignals.decode(page.signals).denied() & self._purposes:
            raise ParseError(f"{SIGNAL_FAILURE}: the page denies {', '.join(sorted(denied))}")
        return page


class BodyDigestParser:
    """Adds the MD5 of the body, for `seen.content = "body"`."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(self, fetched: FetchResult) -> Page:
        return replace(self._parser.parse(fetched), body_digest=digest_body(fetched.body))


def with_page_rules(parser: Parser, settings: Settings) -> Parser:
    """The parser with the settings about whole pages applied."""
    if not settings.politeness.nofollow:
        parser = NofollowIgnoringParser(parser)
    if settings.seen.content == "body":
        parser = BodyDigestParser(parser)
    scope = settings.scope
    if scope.types or scope.deny_types or scope.languages or scope.deny_languages:
        parser = ScopedParser(parser, scope)
    if settings.politeness.heed:
        parser = HeedingParser(parser, settings.politeness.heed)
    return parser


class SharedParts(NamedTuple):
    """Parser, reader and vocabulary shared by all analyzers."""

    vocabulary: Vocabulary
    parser: Parser
    read: Callable[[Page], Reading]
    make_records: bool
    wrap_judge: Callable[[Judge], Judge] | None = None


class PageAnalyzer:
    """Analyzes one page at a time. `learners` are the parts that `restore` updates."""

    def __init__(
        self,
        parser: Parser,
        read: Callable[[Page], Reading],
        judge: Judge,
        ranker: Ranker,
        features: PageFeatures,
        learners: Mapping[str, Learns],
        *,
        records: bool = True,
    ) -> None:
        self._parser = parser
        self._read = read
        self._judge = judge
        self._ranker = ranker
        self._features = features
        self.learners = learners
        self.make_records = records

    @property
    def parts(self) -> tuple[Parser, Callable[[Page], Reading], Judge, Ranker, PageFeatures]:
        """Everything that an analyzer is made of, but for its learners."""
        return self._parser, self._read, self._judge, self._ranker, self._features

    def restore(self, name: str, state: bytes) -> None:
        """Load the states that the writing process has learned since."""
        self.learners[name].restore(state)

    def sample(self, fetched: FetchResult) -> bytes:
        """The words by which a learning judge knows a page; nothing where the judge does not learn."""
        return self._features.sample(self.read(fetched))

    def read(self, fetched: FetchResult) -> Reading:
        """The page of a stored response."""
        return self._read(self._parser.parse(fetched))

    def verdict(self, fetched: FetchResult) -> Verdict:
        """The verdict on a stored response by the current judge."""
        return self._judge.judge(self.read(fetched))

    def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        entries = parse_sitemap(fetched)
        if entries:
            return Analysis(sitemap_entries=entries)
        try:
            fetched = convert_document(fetched)
            page = self._parser.parse(fetched)
        except ParseError as error:
            kind, _, detail = str(error).partition(": ")
            return Analysis(failure=Failure(kind or "parse", detail[:MAX_DETAIL_CHARS]))
        reading = self._read(page)
        if wall := find_wall(page, fetched):
            return Analysis(failure=wall)
        missing = soft_404_phrase(page)
        if missing:
            return Analysis(failure=Failure(SOFT_404, missing), fingerprint=reading.fingerprint)
        return self._analyze_reading(lead, fetched, reading)

    def judge(self, reading: Reading) -> Verdict:
        """The verdict on a page."""
        return self._judge.judge(reading)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> bytes:
        """The ranked links of a page (LinkColumns, encoded)."""
        return pack(self._ranker.score(reading, verdict, lead).columns(reading.page.links))

    def expansion_terms(self, reading: Reading) -> tuple[TermCounts, tuple[str, ...]]:
        """The words of the page for the topic's table."""
        return self._features.expansion_terms(reading)

    def _analyze_reading(self, lead: Lead, fetched: FetchResult, reading: Reading) -> Analysis:
        page, alone = reading.page, self.judge(reading)
        verdict = self._features.combined_verdict(alone, lead)
        # A table may be built from all seeds (S3-12); later relevant pages feed it, and others show what is filler.
        counted = self._features.counted_pages
        feeds_topic = lead.depth == 0 or counted == "all" or (counted == "relevant" and verdict.relevant)
        counts, surfaces = self.expansion_terms(reading) if feeds_topic else ((), ())
        return Analysis(
            title=page.title[:500],
            heading=page.main_heading,
            description=page.description[:1000],
            keywords=page.keywords[:500],
            canonical=page.canonical,
            language=reading.language,
            content_type=page.content_type,
            encoding=page.encoding,
            genre=self._features.genre(reading),
            words=len(reading.terms),
            fingerprint=page.body_digest or reading.fingerprint,
            simhash=reading.simhash,
            noindex=page.noindex,
            signals=page.signals,
            truncated=fetched.truncated or ("length" if has_too_many_tags(fetched.body) else ""),
            needs_browser=len(reading.terms) < MAX_SHELL_TERMS and _runs_scripts(fetched.body),
            feeds=page.feeds,
            verdict=self._features.with_site_text(verdict, page),
            # A page's own score: its links must not inherit the evidence of the link to it.
            links=self.rank(reading, alone, lead),
            counts=counts,
            surfaces=surfaces,
            sample_terms=self._features.sample(reading),
            site_blocks=self._features.site_blocks(page),
            warc_record=response_record(fetched) if self.make_records else b"",
        )


def _runs_scripts(body: bytes) -> bool:
    """True if a page has scripts that are not mere data."""
    return body.count(b"<script") > body.count(b"application/ld+json") + body.count(b"application/json")
