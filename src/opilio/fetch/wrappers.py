"""A fetcher that serves pages from memory, for tests and small jobs. It has the contract of every fetcher."""

from collections.abc import Mapping

from msgspec.structs import replace

from opilio.core.records import FetchResult


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
