"""Both fetchers of this folder pass the shared checks; libcurl's under asyncio and under uvloop."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvloop
from msgspec.structs import replace

from checks.hostile_site import Behaviour, Request, answer, site
from opilio.core.records import FetchResult
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import NetworkOptions
from opilio.testing.stages import SITE, FetcherChecks, Job, MemoryFetcher


def serve(page: FetchResult) -> Behaviour:
    headers = {name.replace("-", "_").lower(): value for name, value in page.headers}

    async def behave(request: Request, writer: asyncio.StreamWriter) -> bool:
        tag = page.header("etag")
        if tag and request.headers.get("if-none-match") == tag:
            writer.write(b"HTTP/1.1 304 Not Modified\r\nETag: " + tag.encode() + b"\r\n\r\n")
            return True
        return await answer(page.body, f"{page.status} X", **headers)(request, writer)

    return behave


class TestMemoryFetcher(FetcherChecks):
    @pytest.fixture
    def run(self) -> Callable[[Job[Any]], Any]:
        root = "http://birds.example"
        pages = {
            root + path: replace(page, location=page.header("location") and root + "/robin")
            for path, page in SITE.items()
        }

        async def start(job: Job[Any]) -> Any:
            return await job(MemoryFetcher(pages), root)

        return lambda job: asyncio.run(start(job))


class TestCurlFetcher(FetcherChecks):
    @pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
    def run(self, request: pytest.FixtureRequest) -> Callable[[Job[Any]], Any]:
        async def start(job: Job[Any]) -> Any:
            async with site({path: serve(page) for path, page in SITE.items()}) as served:
                fetcher = CurlFetcher(
                    "Opilio/test (+https://opilio.example/bot)", network=NetworkOptions(allow_private=True)
                )
                try:
                    return await job(fetcher, served.root)
                finally:
                    await fetcher.close()

        def run(job: Job[Any]) -> Any:
            with asyncio.Runner(loop_factory=request.param) as runner:
                return runner.run(start(job))

        return run
