"""The fetcher of real crawls: libcurl under asyncio.

One request, one response. It follows no redirects, retries nothing and knows neither robots.txt nor delays: the engine
decides. Cookies are kept in memory, per host as in a browser, and never written. It supports http and https only and
refuses private addresses.

`CurlDriver` connects libcurl's multi interface with the running loop (plain asyncio or uvloop): libcurl reports the
sockets and the timer it waits for; the loop waits for them; libcurl then does the work. libcurl must not be called from
within its callbacks, so these only record what to do.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import partial

import pycurl
from msgspec.structs import replace

from opilio.core.clock import Clock, SystemClock
from opilio.core.records import NOT_SENT_FAILURE, Failure, FetchResult
from opilio.core.urls import host_of
from opilio.fetch.addresses import refused_proxy_host
from opilio.fetch.cookies import CookieJars
from opilio.fetch.curl_transfer import BodyBudget, Transfer
from opilio.fetch.decoding import ACCEPT_ENCODING
from opilio.fetch.http import (
    CLOSED_CODE,
    FetchLimits,
    NetworkOptions,
    ResponseFilter,
    classify_curl_error,
    parse_retry_after,
    redirect_target,
)
from opilio.fetch.resolver import Addresses, NameResolver

# libcurl's code (0: success) and its message.
TransferEnd = tuple[int, str]


class CurlDriver:
    """Runs easy handles, each at most once at a time.

    libcurl's limit per host is not used: it took 0.14 of 0.22 ms per request (measured), and hosts are leased to one
    holder at a time anyway.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: int) -> None:
        self._loop = loop
        self._timer: asyncio.Handle | None = None
        # File descriptor -> events that libcurl waits for.
        self._sockets: dict[int, int] = {}
        self._running: dict[pycurl.Curl, asyncio.Future[TransferEnd]] = {}
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections)
        self._multi.setopt(pycurl.M_MAX_TOTAL_CONNECTIONS, connections)

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self._running)

    async def run(self, handle: pycurl.Curl) -> TransferEnd:
        """Perform the request of a handle. Cancelling removes the handle, which can then be used again."""
        done: asyncio.Future[TransferEnd] = self._loop.create_future()
        self._running[handle] = done
        self._multi.add_handle(handle)
        try:
            return await done
        finally:
            if self._running.pop(handle, None) is not None:
                self._multi.remove_handle(handle)

    def close(self) -> None:
        """Abort all requests and release sockets and timer."""
        for handle, done in list(self._running.items()):
            self._multi.remove_handle(handle)
            del self._running[handle]
            if not done.done():
                done.set_result((CLOSED_CODE, "the fetcher was closed"))
        self._multi.close()
        for descriptor in list(self._sockets):
            self._watch_socket(descriptor, 0)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_socket(self, event: int, descriptor: int, _multi: object, _data: object) -> None:
        self._watch_socket(descriptor, 0 if event == pycurl.POLL_REMOVE else event)

    def _watch_socket(self, descriptor: int, wanted: int) -> None:
        had = self._sockets.pop(descriptor, 0)
        if wanted:
            self._sockets[descriptor] = wanted
        changed = had ^ wanted
        if changed & pycurl.POLL_IN:
            if wanted & pycurl.POLL_IN:
                self._loop.add_reader(descriptor, self._on_socket_ready, descriptor, pycurl.CSELECT_IN)
            else:
                self._loop.remove_reader(descriptor)
        if changed & pycurl.POLL_OUT:
            if wanted & pycurl.POLL_OUT:
                self._loop.add_writer(descriptor, self._on_socket_ready, descriptor, pycurl.CSELECT_OUT)
            else:
                self._loop.remove_writer(descriptor)

    def _on_timer(self, milliseconds: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds == 0:
            self._timer = self._loop.call_soon(self._on_timeout)
        elif milliseconds > 0:
            self._timer = self._loop.call_later(milliseconds / 1000, self._on_timeout)

    def _on_timeout(self) -> None:
        self._timer = None
        self._on_socket_ready(pycurl.SOCKET_TIMEOUT, 0)

    def _on_socket_ready(self, descriptor: int, event: int) -> None:
        _, still_running = self._multi.socket_action(descriptor, event)
        if still_running < len(self._running):
            self._collect_finished()

    def _collect_finished(self) -> None:
        left = 1
        while left:
            left, succeeded, failed = self._multi.info_read()
            for handle in succeeded:
                self._finish(handle, (0, ""))
            for handle, code, message in failed:
                self._finish(handle, (code, message))

    def _finish(self, handle: pycurl.Curl, ended: TransferEnd) -> None:
        self._multi.remove_handle(handle)
        done = self._running.pop(handle, None)
        if done is not None and not done.done():
            done.set_result(ended)


_PAGES = "text/html,application/xhtml+xml,text/plain;q=0.8,"
_CONDITIONAL_HEADERS = {
    "etag": "If-None-Match",
    "if-none-match": "If-None-Match",
    "last-modified": "If-Modified-Since",
    "if-modified-since": "If-Modified-Since",
}
_NOT_MODIFIED = 304
# Larger than libcurl's 16 KiB, so that most pages arrive in one or two callbacks.
_BUFFER_BYTES = 64 << 10


class CurlFetcher:
    """Fetches with libcurl. `user_agent` should name the crawler and a page with a contact address.

    Belongs to the event loop of its first `fetch`. At most `network.connections` requests are in flight; others wait,
    and their time limit starts when they stop waiting.
    """

    def __init__(
        self,
        user_agent: str,
        *,
        limits: FetchLimits | None = None,
        network: NetworkOptions | None = None,
        accept: ResponseFilter | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._user_agent = user_agent
        self._limits = limits or FetchLimits()
        self._network = network or NetworkOptions()
        self._accept = accept or ResponseFilter()
        self._clock = clock or SystemClock()
        # Asked when the connection is ready: a worker of a cluster must not send a request after its time.
        self.may_send: Callable[[str], bool] | None = None
        self._names = NameResolver(timeout_s=self._limits.connect_s)
        self._connection_slots = asyncio.Semaphore(self._network.connections)
        self._budget = BodyBudget(self._limits.in_flight_bytes, self._network.connections)
        self._idle: list[pycurl.Curl] = []
        self._driver: CurlDriver | None = None
        documents = "".join(f"{kind};q=0.5," for kind in self._accept.documents)
        self._headers = [f"Accept: {_PAGES}{documents}*/*;q=0.1", f"Accept-Encoding: {ACCEPT_ENCODING}"]
        if self._network.language:
            self._headers.append(f"Accept-Language: {self._network.language}, *;q=0.5")
        self._cookies = CookieJars() if self._network.cookies else None

    async def fetch(self, url: str, validators: Mapping[str, str] | None = None) -> FetchResult:
        """Fetch one URL; `validators` (ETag, Last-Modified or the request headers for them) make it conditional."""
        async with self._connection_slots:
            driver = self._driver or self._start()
            handle = self._idle.pop() if self._idle else self._new_handle()
            try:
                return await self._perform(driver, handle, url, validators)
            finally:
                self._idle.append(handle)

    async def addresses(self, name: str) -> Addresses:
        """See `LooksUpNames`."""
        return await self._names.addresses(name)

    async def close(self) -> None:
        """Close every connection; requests in flight end with the failure `closed`."""
        if self._driver is not None:
            self._driver.close()
            self._driver = None
        self._idle.clear()

    def _start(self) -> CurlDriver:
        self._driver = CurlDriver(asyncio.get_running_loop(), self._network.connections)
        return self._driver

    async def _perform(
        self, driver: CurlDriver, handle: pycurl.Curl, url: str, validators: Mapping[str, str] | None
    ) -> FetchResult:
        transfer = Transfer(url, self._limits, self._accept, self._budget)
        started_at = self._clock.now()
        try:
            if host := self._refused_host(url):
                return FetchResult(url=url, started_at=started_at, failure=Failure("private-address", host))
            self._prepare(handle, transfer, validators)
            if (name := self._unresolved_name(url)) and not await self._resolve(handle, url, name):
                failure = Failure("dns", f"no address found for {name}"[:200], retry=True)
                return FetchResult(url=url, started_at=started_at, failure=failure)
        # A URL that libcurl rejects.
        except (pycurl.error, ValueError, TypeError) as problem:
            return FetchResult(url=url, started_at=started_at, failure=Failure("url", str(problem)[:200]))
        try:
            ended = await driver.run(handle)
            fetched = self._build_result(handle, transfer, ended, started_at)
        finally:
            transfer.release()
        if fetched.status == _NOT_MODIFIED and not validators and fetched.failure is None:
            return replace(fetched, failure=Failure("protocol", "304 to an unconditional request"))
        return fetched

    def _refused_host(self, url: str) -> str:
        """With a proxy no socket shows the address of the host, so the URL itself is checked."""
        network = self._network
        return refused_proxy_host(url, allow_private=network.allow_private) if network.proxy else ""

    def _unresolved_name(self, url: str) -> str:
        """The host name to look up; empty if libcurl needs no name server, or a proxy looks it up."""
        name = host_of(url).partition(":")[0]
        last = name.rstrip(".").rpartition(".")[2]
        # The last label of an IPv4 address is a number; an IPv6 address begins with a bracket.
        if self._network.proxy or last == "localhost" or last.isdigit() or name.startswith("["):
            return ""
        return "" if connect_to_entry(url, self._network.resolve) else name

    async def _resolve(self, handle: pycurl.Curl, url: str, name: str) -> bool:
        """Give libcurl the addresses of a host; False if there are none."""
        found = await self._names.addresses(name)
        if not found:
            return False
        listed = ",".join(f"[{address}]" if ":" in address else address for address in found)
        port = host_of(url).partition(":")[2] or ("443" if url.startswith("https:") else "80")
        # With the sign, libcurl forgets them after a minute.
        handle.setopt(pycurl.RESOLVE, [f"+{name}:{port}:{listed}"])
        return True

    def _prepare(self, handle: pycurl.Curl, transfer: Transfer, validators: Mapping[str, str] | None) -> None:
        if not transfer.url.startswith(("http://", "https://")):
            raise ValueError("not an http or https address")
        handle.setopt(pycurl.URL, transfer.url.encode("utf-8"))
        if self._cookies is not None:
            self._cookies.use(handle, transfer.url)
        headers = [*self._headers, *conditional_headers(validators or {})]
        if (identity := self._network.identity) is not None:
            headers += identity.headers(transfer.url, self._clock.now())
            # Sent beside the cookies that the host has set. The handle may have been used for another host.
            if cookies := identity.cookies(transfer.url):
                handle.setopt(pycurl.COOKIE, cookies)
            else:
                handle.unsetopt(pycurl.COOKIE)
        handle.setopt(pycurl.HTTPHEADER, headers)
        handle.setopt(pycurl.HEADERFUNCTION, transfer.on_header)
        handle.setopt(pycurl.WRITEFUNCTION, transfer.on_body)
        if self.may_send is not None:
            handle.setopt(pycurl.PREREQFUNCTION, partial(self._check_send, transfer))
        if not self._network.proxy:
            transfer.allow_private = self._network.allow_private
            handle.setopt(pycurl.OPENSOCKETFUNCTION, transfer.open_socket)
        # Of an earlier host: libcurl would remember its addresses once more.
        handle.unsetopt(pycurl.RESOLVE)
        entry = connect_to_entry(transfer.url, self._network.resolve) if self._network.resolve else ""
        # An entry names its host, so one left from an earlier request affects no other host.
        if entry:
            handle.setopt(pycurl.CONNECT_TO, [entry])

    def _check_send(self, transfer: Transfer, *_addresses: object) -> int:
        if self.may_send is None or self.may_send(transfer.url):
            return int(pycurl.PREREQFUNC_OK)
        transfer.failure = Failure(NOT_SENT_FAILURE, "its time was over when the connection was ready", retry=True)
        return int(pycurl.PREREQFUNC_ABORT)

    def _build_result(
        self, handle: pycurl.Curl, transfer: Transfer, ended: TransferEnd, started_at: float
    ) -> FetchResult:
        code, message = ended
        if code == 0:
            # An address may have been refused before a public one of the same host.
            transfer.failure = None
        elif transfer.failure is None and not transfer.truncated:
            transfer.failure = classify_curl_error(code, message, self._network.proxy)
        body = transfer.finish()
        # 0: only a proxy responded.
        status = transfer.status if handle.getinfo(pycurl.RESPONSE_CODE) else 0
        headers = transfer.headers if status else ()
        found = FetchResult(url=transfer.url, headers=headers)
        location = redirect_target(status, found.header("location"), transfer.url)
        sets_cookie = self._cookies is not None and found.header("set-cookie") != ""
        if self._cookies is not None and sets_cookie:
            self._cookies.add(handle, transfer.url, headers)
        # Often to another spelling of the same URL. With a new cookie, the same request can succeed.
        if location == transfer.url and not sets_cookie:
            location, transfer.failure = "", Failure("redirect-loop", "redirects to itself")
        if self._network.identity is not None:
            headers = self._network.identity.stored_headers(transfer.url, headers)
        return FetchResult(
            url=transfer.url,
            status=status,
            location=location,
            headers=headers,
            body=body,
            size_bytes=len(body),
            address=handle.getinfo(pycurl.PRIMARY_IP) or "",
            started_at=started_at,
            elapsed_s=handle.getinfo(pycurl.TOTAL_TIME),
            retry_after_s=parse_retry_after(found.header("retry-after"), self._clock.now(), self._limits.retry_after_s),
            failure=transfer.failure,
            truncated="" if transfer.failure else transfer.truncated,
        )

    def _new_handle(self) -> pycurl.Curl:
        handle = pycurl.Curl()
        limits, network = self._limits, self._network
        handle.setopt(pycurl.NOSIGNAL, 1)
        handle.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        handle.setopt(pycurl.FOLLOWLOCATION, 0)
        handle.setopt(pycurl.PATH_AS_IS, 1)
        handle.setopt(pycurl.USERAGENT, self._user_agent.encode("utf-8"))
        handle.setopt(pycurl.BUFFERSIZE, _BUFFER_BYTES)
        handle.setopt(pycurl.TIMEOUT_MS, round(limits.total_s * 1000))
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, round(limits.connect_s * 1000))
        handle.setopt(pycurl.LOW_SPEED_LIMIT, limits.slow_bytes_per_s)
        handle.setopt(pycurl.LOW_SPEED_TIME, limits.slow_s)
        # Set even if empty: libcurl would otherwise read http_proxy and no_proxy of the environment, and a direct
        # connection allowed by no_proxy would bypass the address guard.
        handle.setopt(pycurl.PROXY, network.proxy)
        handle.setopt(pycurl.NOPROXY, "")
        set_tls(handle, network)
        if self._cookies is not None:
            # An empty file name starts the cookie engine without reading a file.
            handle.setopt(pycurl.COOKIEFILE, "")
        return handle


def set_tls(handle: pycurl.Curl, network: NetworkOptions) -> None:
    """Trust the system's certificates: the TLS library in pycurl's wheels does not know where they are."""
    has_http2 = pycurl.version_info()[4] & pycurl.VERSION_HTTP2
    handle.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if has_http2 else pycurl.CURL_HTTP_VERSION_1_1)
    if not network.verify_tls:
        handle.setopt(pycurl.SSL_VERIFYPEER, 0)
        handle.setopt(pycurl.SSL_VERIFYHOST, 0)
        return
    system = ssl.get_default_verify_paths()
    if network.ca_file or system.cafile:
        handle.setopt(pycurl.CAINFO, network.ca_file or system.cafile)
    elif system.capath:
        handle.setopt(pycurl.CAPATH, system.capath)


def conditional_headers(validators: Mapping[str, str]) -> list[str]:
    """Header lines that make a request conditional; other names, and values that would break a line, are ignored.

    >>> conditional_headers({"ETag": '"a1"', "Cookie": "x"})
    ['If-None-Match: "a1"']
    """
    return [
        f"{_CONDITIONAL_HEADERS[name.lower()]}: {value}"
        for name, value in validators.items()
        if name.lower() in _CONDITIONAL_HEADERS and value and value.isprintable() and value.isascii()
    ]


def connect_to_entry(url: str, addresses: Mapping[str, str]) -> str:
    """libcurl's CONNECT_TO entry for one URL: connect to another address, with the same Host header.

    >>> connect_to_entry("http://birds.example/", {"birds.example": "127.0.0.1:8080"})
    'birds.example::127.0.0.1:8080'
    """
    host = host_of(url)
    name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "")
    address = addresses.get(host) or addresses.get(name) or addresses.get("*") or ""
    if not address:
        return ""
    if ":" in address and not address.startswith("[") and address.count(":") > 1:
        address = f"[{address}]"
    has_port = ":" in address.rpartition("]")[2]
    return f"{name}:{port}:{address}" if has_port else f"{name}:{port}:{address}:"
