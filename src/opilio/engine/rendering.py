"""Rendering pages that need JavaScript: which ones, how many, and how the browser's requests are sent.

A page is rendered if it has next to no text but scripts, or if its host turned out to need a browser. What rendering
brings is compared with the plain page, and learned per host: after three pages without a gain no page of
the host is rendered, after two gains every page is, as long as most of them gain.

Every request of the browser passes robots.txt, the delays of its host and the address guard, like any other.
"""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from opilio.core.caches import evict_oldest
from opilio.core.clock import Clock
from opilio.core.protocols import Fetcher
from opilio.core.records import Analysis, FetchResult, Lead
from opilio.core.settings import BrowserSettings
from opilio.core.urls import canonicalize_url
from opilio.engine.politeness.host_gate import HostGate
from opilio.engine.workers.pool import AnalysisPool
from opilio.fetch.browser import LoadResource

MAX_REQUESTS = 60  # for scripts and data, per page
MAX_REDIRECTS = 3
MAX_CACHED_SCRIPTS = 200
# Of one script; larger ones are fetched again.
MAX_CACHED_BYTES = 500_000
MAX_HOSTS = 20_000  # remembered
_GAIN_WORDS, _GAIN_SHARE = 5, 0.2  # more words than the page had, at least
_GAIN_LINK_BYTES = 100  # of the encoded links: about one link
_TRIES_WITHOUT_GAIN = 3
_GAINS_OF_A_HOST = 2


class PageBrowser(Protocol):
    """Runs the scripts of a page."""

    async def render(self, fetched: FetchResult, load: LoadResource) -> bytes: ...

    async def close(self) -> None: ...


class BrowserTools(NamedTuple):
    """The browser, and the fetcher for its requests, which receives responses of any type."""

    browser: PageBrowser
    fetcher: Fetcher


class ResourceLoader:
    """Sends the requests of scripts, with the politeness of the crawl. Scripts are cached, since pages share them."""

    def __init__(self, fetcher: Fetcher, host_gate: HostGate, clock: Clock) -> None:
        self._fetcher = fetcher
        self._host_gate = host_gate
        self._clock = clock
        self._scripts: dict[str, FetchResult] = {}

    async def load(self, url: str, kind: str) -> FetchResult | None:
        """The response to a request of a page, after redirects; None if it is not allowed."""
        target = canonicalize_url(url)
        if target is None:
            return None
        if target in self._scripts:
            return self._scripts[target]
        found = await self._fetch(target)
        for _ in range(MAX_REDIRECTS):
            if found is None or not found.location:
                break
            found = await self._fetch(found.location)
        if found is not None and kind == "script" and len(found.body) <= MAX_CACHED_BYTES and found.failure is None:
            self._scripts[target] = found
            evict_oldest(self._scripts, MAX_CACHED_SCRIPTS)
        return found

    async def _fetch(self, url: str) -> FetchResult | None:
        permit = await self._host_gate.acquire(url, self._clock.now())
        while permit.retry_at and not permit.refusal:
            await self._clock.sleep(permit.retry_at - self._clock.now())
            permit = await self._host_gate.acquire(url, self._clock.now())
        if permit.refusal:
            return None
        try:
            return await self._fetcher.fetch(url)
        finally:
            self._host_gate.release(url, permit.delay_s)


class HostHistory:
    """What rendering brought on each host: pages tried, and pages with a gain."""

    def __init__(self, gains: Iterable[tuple[str, int]] = ()) -> None:
        self._counts: dict[str, tuple[int, int]] = {host: (count, count) for host, count in gains}

    def is_worthwhile(self, host: str, page_is_empty: bool) -> bool:
        """Should a page of this host be rendered?"""
        tries, gains = self._counts.get(host, (0, 0))
        if page_is_empty:
            return gains > 0 or tries < _TRIES_WITHOUT_GAIN
        return gains >= _GAINS_OF_A_HOST and 2 * gains > tries

    def record(self, host: str, gained: bool) -> None:
        tries, gains = self._counts.pop(host, (0, 0))
        self._counts[host] = (tries + 1, gains + gained)
        evict_oldest(self._counts, MAX_HOSTS)


class RenderingPool:
    """Analyzes pages like the pool it wraps; where a page needs a browser, the page is what the browser shows."""

    def __init__(
        self,
        pool: AnalysisPool,
        tools: BrowserTools,
        loader: ResourceLoader,
        settings: BrowserSettings,
        history: HostHistory,
    ) -> None:
        self._pool = pool
        self._browser = tools.browser
        self._loader = loader
        self._pages_left = settings.pages
        self._tabs = asyncio.Semaphore(settings.tabs)
        self._history = history

    async def start(self) -> None:
        await self._pool.start()

    async def wait_for_room(self) -> None:
        await self._pool.wait_for_room()

    @property
    def is_saturated(self) -> bool:
        return self._pool.is_saturated

    def update_state(self, name: str, state: bytes) -> None:
        self._pool.update_state(name, state)

    async def close(self) -> None:
        await self._pool.close()

    async def analyze(self, lead: Lead, fetched: FetchResult) -> Analysis:
        analysis = await self._pool.analyze(lead, fetched)
        if analysis.failure is not None or analysis.verdict is None or b"<script" not in fetched.body:
            return analysis
        if not self._history.is_worthwhile(lead.host, analysis.needs_browser):
            return replace(analysis, needs_browser=False)
        if self._pages_left <= 0:
            return analysis
        self._pages_left -= 1
        html = await self._render(fetched)
        if not html:
            return analysis
        rendered = await self._pool.analyze(lead, replace(fetched, converted=html))
        gained = rendered.failure is None and _is_gain(analysis, rendered)
        self._history.record(lead.host, gained)
        return replace(rendered if gained else analysis, rendered=gained, needs_browser=False)

    async def _render(self, fetched: FetchResult) -> bytes:
        requests = 0

        async def load(url: str, kind: str) -> FetchResult | None:
            nonlocal requests
            requests += 1
            return await self._loader.load(url, kind) if requests <= MAX_REQUESTS else None

        async with self._tabs:
            return await self._browser.render(fetched, load)


def _is_gain(before: Analysis, after: Analysis) -> bool:
    return (
        after.words >= before.words + max(_GAIN_WORDS, _GAIN_SHARE * before.words)
        or len(after.links) > len(before.links) + _GAIN_LINK_BYTES
    )
