"""Serving a lease: the host is asked for one page at a time, but need not wait until we have read the one before."""

import asyncio
import random
from collections.abc import Mapping

from checks.engines import PageFetcher, html
from opilio.core.clock import SystemClock
from opilio.core.records import NOT_SENT_FAILURE, Analysis, Failure, FetchResult, HostLease, Lead, url_key
from opilio.core.settings import PolitenessSettings
from opilio.engine.politeness.host_gate import HostGate, HostThrottle
from opilio.engine.visit import LeaseResult, VisitLimits, Visitor

HOST = "a.example"
URLS = [f"http://{HOST}/{n}" for n in range(4)]


class Reader:
    """A pool that analyzes pages when a test says so, in any order."""

    def __init__(self, *, full: bool = False) -> None:
        self.is_saturated = full
        self.waiting: list[asyncio.Future[Analysis]] = []
        self.room = asyncio.Event()
        self.room.set()

    async def wait_for_room(self) -> None:
        await self.room.wait()

    async def analyze(self, lead: Lead, _: FetchResult) -> Analysis:
        if self.is_saturated:
            return Analysis(title=lead.url)
        future: asyncio.Future[Analysis] = asyncio.get_running_loop().create_future()
        self.waiting.append(future)
        await future
        return Analysis(title=lead.url)

    async def until(self, pages: int) -> None:
        for _ in range(1000):
            if len(self.waiting) >= pages:
                return
            await asyncio.sleep(0)
        raise AssertionError(f"only {len(self.waiting)} pages reached the reader")

    def read(self, *places: int) -> None:
        for place in places:
            self.waiting[place].set_result(Analysis())

    async def start(self) -> None:
        pass

    def update_state(self, name: str, state: bytes) -> None:
        pass

    async def close(self) -> None:
        pass


def served() -> LeaseResult:
    leads = tuple(Lead(url=url, key=url_key(url), host=HOST) for url in URLS)
    return LeaseResult(lease=HostLease(host=HOST, token=1, expires_at=1e12, leads=leads, delay_s=0.0))


def visitor(reader: Reader, fetcher: PageFetcher) -> Visitor:
    clock, nothing_kept = SystemClock(), dict[str, bytes]()
    polite = PolitenessSettings(delay_s=0.0)
    gate = HostGate(polite, fetcher, clock, HostThrottle(clock), nothing_kept.get, lambda *_: None)
    return Visitor(fetcher, reader, gate, clock, VisitLimits(), random.Random(0))


def site() -> PageFetcher:
    return PageFetcher({url: html(url, "x") for url in URLS})


def test_nothing_is_requested_while_the_pool_has_no_room() -> None:
    """Else every connection could bring a large body, and all of them would wait in memory."""

    async def main() -> tuple[list[str], list[str]]:
        reader, fetcher = Reader(full=True), site()
        reader.room.clear()
        serving = asyncio.ensure_future(visitor(reader, fetcher).serve(served()))
        for _ in range(20):
            await asyncio.sleep(0)
        before = list(fetcher.asked)
        reader.room.set()
        await serving
        return before, fetcher.asked

    before, after = asyncio.run(main())
    assert before == []
    assert after[-len(URLS) :] == URLS


def test_next_page_is_asked_for_while_one_is_read() -> None:
    async def main() -> LeaseResult:
        reader, one = Reader(), served()
        serving = asyncio.ensure_future(visitor(reader, site()).serve(one))
        await reader.until(len(URLS))
        assert one.requesting
        reader.read(3, 1, 0, 2)
        await serving
        return one

    one = asyncio.run(main())
    assert [outcome.lead.url for outcome in one.outcomes] == URLS  # in the order they were asked for
    assert len(one.url_results) == len(URLS)
    assert not one.requesting


def test_a_request_that_was_not_sent_leaves_no_result() -> None:
    class Late(PageFetcher):
        async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
            if url == URLS[1]:
                return FetchResult(url=url, failure=Failure(NOT_SENT_FAILURE, retry=True))
            return await super().fetch(url, validators)

    one = served()
    asyncio.run(visitor(Reader(full=True), Late({url: html(url, "x") for url in URLS})).serve(one))
    assert [result.key for result in one.url_results] == [url_key(URLS[0])]
    assert len(one.outcomes) == 1


def test_pages_are_read_one_by_one_when_the_readers_have_enough() -> None:
    reader, fetcher, one = Reader(full=True), site(), served()
    asyncio.run(visitor(reader, fetcher).serve(one))
    assert [outcome.lead.url for outcome in one.outcomes] == URLS
    assert fetcher.asked == [f"http://{HOST}/robots.txt", *URLS]


def test_visit_that_is_cut_short_brings_what_was_read() -> None:
    async def main() -> LeaseResult:
        reader, one = Reader(), served()
        serving = asyncio.ensure_future(visitor(reader, site()).serve(one))
        await reader.until(len(URLS))
        reader.read(0, 2)
        await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.wait([serving])
        await asyncio.sleep(0)
        assert serving.cancelled()
        assert len(asyncio.all_tasks()) == 1  # nothing is returned
        return one

    one = asyncio.run(main())
    assert [outcome.lead.url for outcome in one.outcomes] == [URLS[0], URLS[2]]
    assert [result.key for result in one.url_results] == [url_key(URLS[0]), url_key(URLS[2])]
