"""What every `Fetcher` does, whatever is behind it, and a fetcher that serves pages from memory.

An implementation serves SITE and gives the checks a way to run a coroutine with a fetcher and the site's root.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from opilio.core.protocols import Fetcher
from opilio.core.records import FetchResult

T = TypeVar("T")
Job = Callable[[Fetcher, str], Awaitable[T]]  # (fetcher, root of the site without a final slash)
Run = Callable[[Job[T]], T]

_HTML = ("Content-Type", "text/html")
SITE = {
    "/": FetchResult(url="/", status=200, headers=(_HTML, ("ETag", '"a1"')), body=b"<p>wren</p>"),
    "/robin": FetchResult(url="/robin", status=200, headers=(_HTML,), body=b"<p>robin</p>"),
    "/moved": FetchResult(url="/moved", status=301, headers=(_HTML, ("Location", "/robin"))),
    "/empty": FetchResult(url="/empty", status=200, headers=(_HTML,)),
}


class FetcherChecks:
    """Subclass it with a fixture `run`."""

    def test_answer_carries_url_status_headers_and_body(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/"))
        assert found.url.endswith("/")
        assert (found.status, found.body, found.failure) == (200, b"<p>wren</p>", None)
        assert found.header("content-type") == "text/html"

    def test_unknown_page_is_an_answer_when_missing(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/nowhere"))
        assert (found.status, found.failure) == (404, None)

    def test_redirect_is_returned_not_followed(self, run: Run[tuple[FetchResult, str]]) -> None:
        async def job(fetcher: Fetcher, root: str) -> tuple[FetchResult, str]:
            return await fetcher.fetch(f"{root}/moved"), root

        found, root = run(job)
        assert (found.status, found.location) == (301, f"{root}/robin")

    def test_body_is_empty_when_the_page_is(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/empty"))
        assert (found.status, found.body, found.failure) == (200, b"", None)

    def test_answer_is_304_when_the_validator_holds(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/", {"If-None-Match": '"a1"'}))
        assert (found.status, found.body, found.failure) == (304, b"", None)

    def test_answer_is_whole_when_the_validator_is_old(self, run: Run[FetchResult]) -> None:
        found = run(lambda fetcher, root: fetcher.fetch(f"{root}/", {"If-None-Match": '"a0"'}))
        assert (found.status, found.body) == (200, b"<p>wren</p>")

    def test_answers_do_not_mix_when_asked_at_once(self, run: Run[list[FetchResult]]) -> None:
        async def job(fetcher: Fetcher, root: str) -> list[FetchResult]:
            return await asyncio.gather(*(fetcher.fetch(root + path) for path in ("/", "/robin") * 8))

        assert [f.body for f in run(job)] == [b"<p>wren</p>", b"<p>robin</p>"] * 8

    def test_close_is_harmless_when_repeated(self, run: Run[None]) -> None:
        async def job(fetcher: Fetcher, root: str) -> None:
            await fetcher.fetch(f"{root}/")
            await fetcher.close()
            await fetcher.close()

        run(job)


class MemoryFetcher:
    """Serves a mapping of canonical URLs; 404 for other URLs, 304 if a validator matches."""

    def __init__(self, pages: Mapping[str, FetchResult]) -> None:
        self._pages = pages

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        page = self._pages.get(url)
        if page is None:
            return FetchResult(url=url, status=404)
        if _is_unmodified(page, validators or {}):
            return replace(page, url=url, status=304, body=b"")
        return replace(page, url=url)

    async def close(self) -> None:
        """Nothing to close."""


def _is_unmodified(page: FetchResult, validators: Mapping[str, str]) -> bool:
    given = {name.lower(): value for name, value in validators.items()}
    tag = given.get("if-none-match") or given.get("etag")
    # RFC 9110, 13.1.3: the date counts only without a tag.
    if tag:
        return tag == page.header("etag")
    date = given.get("if-modified-since") or given.get("last-modified")
    return bool(date) and date == page.header("last-modified")
