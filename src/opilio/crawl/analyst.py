"""Everything between an answer and an outcome that needs no I/O: parse, read, judge, rank, make the record.

Runs inline or in a worker process; holds a read-only snapshot of what the crawl has learnt.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from opilio.crawl.columns import pack
from opilio.crawl.fates import SOFT
from opilio.crawl.kinds import Scorer
from opilio.crawl.notes import Counts, Notes
from opilio.model.errors import ParseError
from opilio.model.protocols import Judge, Learns, Parser
from opilio.model.records import Analysis, Failure, Fetched, Lead, Page, Reading, Verdict
from opilio.parse.announced import announced
from opilio.parse.missing import says_missing
from opilio.store.warc import response_record
from opilio.text.vocabulary import Vocabulary


class FollowsAll:
    """A parser whose pages ask for nothing: for a person who switched `politeness.nofollow` off."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(self, fetched: Fetched) -> Page:
        page = self._parser.parse(fetched)
        links = tuple(replace(link, rel="") if link.rel else link for link in page.links)
        return replace(page, nofollow=False, links=links)


class Means(NamedTuple):
    """What several minds share: the words they have seen, and how pages are parsed and read."""

    vocabulary: Vocabulary
    parser: Parser
    read: Callable[[Page], Reading]
    records: bool


class Analyst:
    """One page's worth of thinking at a time. `learners` are the parts that `restore` refreshes."""

    def __init__(
        self,
        parser: Parser,
        read: Callable[[Page], Reading],
        judge: Judge,
        ranker: Scorer,
        notes: Notes,
        learners: Mapping[str, Learns],
        *,
        records: bool = True,
    ) -> None:
        self._parser = parser
        self._read = read
        self._judge = judge
        self._ranker = ranker
        self._notes = notes
        self.learners = learners
        self.records = records

    @property
    def parts(self) -> tuple[Parser, Callable[[Page], Reading], Judge, Scorer, Notes]:
        """What it thinks with."""
        return self._parser, self._read, self._judge, self._ranker, self._notes

    def restore(self, name: str, state: bytes) -> None:
        """Swap in what the writing process has learnt since."""
        self.learners[name].restore(state)

    def sample(self, fetched: Fetched) -> bytes:
        """The words by which a learning judge knows a page; nothing where the judge does not learn."""
        return self._notes.sample(self.read(fetched))

    def read(self, fetched: Fetched) -> Reading:
        """A stored answer, read as it was when it came."""
        return self._read(self._parser.parse(fetched))

    def verdict(self, fetched: Fetched) -> Verdict:
        """What the judge says of a stored answer now."""
        return self._judge.judge(self.read(fetched))

    def analyse(self, lead: Lead, fetched: Fetched) -> Analysis:
        told = announced(fetched)
        if told:
            return Analysis(announced=told)
        try:
            page = self._parser.parse(fetched)
        except ParseError as error:
            kind, _, detail = str(error).partition(": ")
            return Analysis(failure=Failure(kind or "parse", detail))
        reading = self._read(page)
        missing = says_missing(page)
        if missing:
            return Analysis(failure=Failure(SOFT, missing), fingerprint=reading.fingerprint)
        return self._think(lead, fetched, reading)

    def judge(self, reading: Reading) -> Verdict:
        """What it thinks of a page that was read already."""
        return self._judge.judge(reading)

    def rank(self, reading: Reading, verdict: Verdict, lead: Lead) -> bytes:
        """What it thinks of the page's links (LinkColumns, encoded)."""
        return pack(self._ranker.score(reading, verdict, lead).columns(reading.page.links))

    def words(self, reading: Reading) -> tuple[Counts, tuple[str, ...]]:
        """The words by which the page feeds a table."""
        return self._notes.words(reading)

    def _think(self, lead: Lead, fetched: Fetched, reading: Reading) -> Analysis:
        page, verdict = reading.page, self.judge(reading)
        counts, surfaces = self.words(reading) if verdict.relevant else ((), ())
        return Analysis(
            title=page.title[:500],
            heading=page.main_heading,
            description=page.description[:1000],
            keywords=page.keywords[:500],
            canonical=page.canonical,
            language=reading.language,
            content_type=page.content_type,
            encoding=page.encoding,
            genre=self._notes.genre(reading),
            words=len(reading.terms),
            fingerprint=reading.fingerprint,
            simhash=reading.simhash,
            noindex=page.noindex,
            feeds=page.feeds,
            verdict=verdict,
            links=self.rank(reading, verdict, lead),
            counts=counts,
            surfaces=surfaces,
            sample=self._notes.sample(reading),
            record=response_record(fetched) if self.records else b"",
        )
