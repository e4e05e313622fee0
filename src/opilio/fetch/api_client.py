"""Requests to APIs that the user configured (search engines): with headers and bodies, any type of response.

Follows no redirects, stores no cookies, retries nothing. Private addresses are refused, except for servers that the
caller marks as trusted because the user named them. Not for crawling: it has no robots.txt and no delays.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import msgspec
import pycurl

from opilio.core.clock import Clock, SystemClock
from opilio.core.records import Failure, FetchResult
from opilio.core.urls import host_of
from opilio.fetch.addresses import refused_proxy_host
from opilio.fetch.curl import CurlDriver, set_tls
from opilio.fetch.curl_transfer import Transfer
from opilio.fetch.decoding import ACCEPT_ENCODING
from opilio.fetch.http import (
    AnyResponse,
    FetchLimits,
    NetworkOptions,
    classify_curl_error,
    parse_retry_after,
    redirect_target,
)

_ACCEPT_HEADERS = ("Accept: application/json, */*;q=0.5", f"Accept-Encoding: {ACCEPT_ENCODING}")
MAX_CONNECTIONS = 16


class ApiClient:
    """Sends requests with libcurl; belongs to the event loop of its first request."""

    def __init__(
        self,
        user_agent: str,
        limits: FetchLimits | None = None,
        network: NetworkOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._user_agent = user_agent
        self._limits = limits or FetchLimits(body_bytes=50 << 20)
        self._network = network or NetworkOptions()
        self._clock = clock or SystemClock()
        self._driver: CurlDriver | None = None
        self._host_locks: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def request(
        self,
        url: str,
        headers: Sequence[tuple[str, str]] = (),
        body: bytes = b"",
        *,
        timeout_s: float = 10.0,
        trusted: bool = False,
    ) -> FetchResult:
        """Send one request, a POST of JSON if there is a body; requests to the same server run one after the other."""
        async with self._host_locks[host_of(url)]:
            return await self._perform(url, headers, body, timeout_s, trusted)

    async def _perform(
        self, url: str, headers: Sequence[tuple[str, str]], body: bytes, timeout_s: float, trusted: bool
    ) -> FetchResult:
        if self._driver is None:
            self._driver = CurlDriver(asyncio.get_running_loop(), MAX_CONNECTIONS)
        transfer = Transfer(url, self._limits, AnyResponse())
        handle = pycurl.Curl()
        started_at = self._clock.now()
        try:
            if not trusted and (host := self._guard(handle, transfer)):
                return FetchResult(url=url, started_at=started_at, failure=Failure("private-address", host))
            self._prepare(handle, transfer, timeout_s)
            handle.setopt(pycurl.HTTPHEADER, header_lines(headers, body))
            if body:
                handle.setopt(pycurl.POSTFIELDS, body)
            code, message = await self._driver.run(handle)
            if code == 0:
                transfer.failure = None
            elif transfer.failure is None:
                transfer.failure = classify_curl_error(code, message, self._network.proxy)
            return self._build_result(handle, transfer, started_at)
        # A URL that libcurl rejects.
        except (pycurl.error, ValueError, TypeError) as problem:
            return FetchResult(url=url, started_at=started_at, failure=Failure("url", str(problem)[:200]))
        finally:
            transfer.release()
            handle.close()

    def _guard(self, handle: pycurl.Curl, transfer: Transfer) -> str:
        """Check the address when a socket is opened. With a proxy, return the host of the URL if it is refused."""
        network = self._network
        if network.proxy:
            return refused_proxy_host(transfer.url, allow_private=network.allow_private)
        transfer.allow_private = network.allow_private
        handle.setopt(pycurl.OPENSOCKETFUNCTION, transfer.open_socket)
        return ""

    async def close(self) -> None:
        """Close every connection."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _prepare(self, handle: pycurl.Curl, transfer: Transfer, timeout_s: float) -> None:
        if not transfer.url.startswith(("http://", "https://")):
            raise ValueError("not an http or https address")
        for option, value in (
            (pycurl.URL, transfer.url.encode("utf-8")),
            (pycurl.USERAGENT, self._user_agent.encode("utf-8")),
            (pycurl.NOSIGNAL, 1),
            (pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS),
            (pycurl.FOLLOWLOCATION, 0),
            (pycurl.TIMEOUT_MS, round(timeout_s * 1000)),
            (pycurl.CONNECTTIMEOUT_MS, round(min(timeout_s, self._limits.connect_s) * 1000)),
            # Set even if empty: see CurlFetcher.
            (pycurl.PROXY, self._network.proxy),
            (pycurl.NOPROXY, ""),
            (pycurl.HEADERFUNCTION, transfer.on_header),
            (pycurl.WRITEFUNCTION, transfer.on_body),
        ):
            handle.setopt(option, value)
        set_tls(handle, self._network)

    def _build_result(self, handle: pycurl.Curl, transfer: Transfer, started_at: float) -> FetchResult:
        body = transfer.finish()
        found = FetchResult(url=transfer.url, headers=transfer.headers)
        cap_s = self._limits.retry_after_s
        return msgspec.structs.replace(
            found,
            status=transfer.status,
            location=redirect_target(transfer.status, found.header("location"), transfer.url),
            body=body,
            size_bytes=len(body),
            started_at=started_at,
            elapsed_s=handle.getinfo(pycurl.TOTAL_TIME),
            retry_after_s=parse_retry_after(found.header("retry-after"), self._clock.now(), cap_s),
            failure=transfer.failure,
        )


def header_lines(headers: Sequence[tuple[str, str]], body: bytes) -> list[str]:
    """The header lines of the request; ValueError for a value with a line break."""
    lines = [f"{name}: {value}" for name, value in headers]
    if any("\r" in line or "\n" in line for line in lines):
        raise ValueError("a header with a line break")
    return [*_ACCEPT_HEADERS, *(["Content-Type: application/json"] if body else []), *lines]
