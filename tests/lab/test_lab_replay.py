"""The replay fetcher passes every fetcher's checks and is the same run after run."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

import pytest

from opilio.core.clock import VirtualClock
from opilio.core.records import FetchResult
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.experiments.replay import ReplayFetcher
from opilio.lab.synthetic.changing import HostFaults
from opilio.lab.webs.web import WarcWeb
from opilio.testing.stages import SITE, FetcherChecks

ROOT = "http://a.example"


class Pages:
    """The checks' site as a source."""

    hosts: ClassVar = {"a.example": 4}

    def find(self, url: str) -> RecordedResponse | None:
        page = SITE.get(url.removeprefix(ROOT))
        return RecordedResponse(page.status, page.headers, page.body) if page else None


def on_virtual_time(clock: VirtualClock, job: Awaitable[Any]) -> Any:
    async def drive() -> Any:
        task = asyncio.ensure_future(job)
        while not task.done():
            for _ in range(5):
                await asyncio.sleep(0)
            clock.advance()
        return await task

    return asyncio.run(drive())


class TestReplayFetcher(FetcherChecks):
    @pytest.fixture
    def run(self) -> Callable[[Any], Any]:
        clock = VirtualClock()
        return lambda job: on_virtual_time(clock, job(ReplayFetcher(Pages(), clock), ROOT))


def replayed(web: WarcWeb, urls: list[str], seed: int = 0) -> list[FetchResult]:
    clock = VirtualClock()
    fetcher = ReplayFetcher(web, clock, latency_s=0.2, seed=seed)

    async def all_of_them() -> list[FetchResult]:
        return [await fetcher.fetch(url) for url in urls]

    found: list[FetchResult] = on_virtual_time(clock, all_of_them())
    return found


def test_replay_takes_the_same_virtual_time_when_the_seed_is_the_same(small_web: WarcWeb) -> None:
    urls = list(small_web.urls[:20])
    first = replayed(small_web, urls)
    assert first == replayed(small_web, urls)
    assert first != replayed(small_web, urls, seed=1)
    assert all(0.1 <= f.elapsed_s <= 0.3 for f in first)


def test_replay_follows_recorded_redirects_as_locations(small_web: WarcWeb) -> None:
    moved = next(u for u in small_web.urls if "/old/" in u)
    found = replayed(small_web, [moved])[0]
    assert found.status == 301
    assert found.location in small_web.numbers


def test_replay_fails_the_same_requests_when_a_host_is_failing() -> None:
    clock = VirtualClock()
    faults = {"a.example": HostFaults(name="a.example", error_rate=0.5, delay_s=2.0)}

    async def asked(fetcher: ReplayFetcher) -> list[FetchResult]:
        return [await fetcher.fetch(f"{ROOT}/robin") for _ in range(20)]

    first, second = (on_virtual_time(clock, asked(ReplayFetcher(Pages(), clock, faults=faults))) for _ in range(2))
    assert {f.status for f in first} == {200, 503}
    assert [f.status for f in first] == [f.status for f in second]
    assert min(f.elapsed_s for f in first) > 2.0
