"""libcurl's fetcher against a server that behaves: what it sends, what it keeps, what it shares."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import pytest
import uvloop

from checks.hostile_site import Behaviour, Site, answer, raw, silent, site
from opilio.core.records import NOT_SENT_FAILURE
from opilio.fetch import cookies
from opilio.fetch.curl import CurlFetcher, conditional_headers, connect_to_entry
from opilio.fetch.http import FetchLimits, NetworkOptions, follow_redirects

T = TypeVar("T")
AGENT = "Opilio/test (+https://opilio.example/bot)"
LOOPS = pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])


def with_site(
    behaviours: Mapping[str, Behaviour],
    job: Callable[[CurlFetcher, Site], Awaitable[T]],
    network: NetworkOptions | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> T:
    """Run a job with a fresh site and fetcher; whatever the job leaves behind is an error (warnings are)."""

    async def start() -> T:
        async with site(behaviours) as served:
            fetcher = CurlFetcher(
                AGENT, limits=FetchLimits(total_s=20), network=network or NetworkOptions(allow_private=True)
            )
            try:
                return await job(fetcher, served)
            finally:
                await fetcher.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(start())


def test_request_names_the_crawler_and_what_it_reads() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        await fetcher.fetch(served.url("/"))
        sent = served.requests[0].headers
        assert sent["user-agent"] == AGENT
        assert "gzip" in sent["accept-encoding"] and "zstd" in sent["accept-encoding"]
        assert sent["accept"].startswith("text/html")
        assert "cookie" not in sent

    with_site({"/": answer(set_cookie="a=b")}, job)


def test_cookies_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the cookies of a jar take too much memory, they are forgotten."""
    monkeypatch.setattr(cookies, "MAX_BYTES", 5_000)

    async def job(fetcher: CurlFetcher, served: Site) -> None:
        for path in ("/small", "/plain", "/large", "/large", "/plain"):
            await fetcher.fetch(served.url(path))
        sent = [request.headers.get("cookie", "") for request in served.requests]
        assert [text.partition("=")[0] for text in sent] == ["", "small", "small", "large", ""]

    pages = {"/small": answer(set_cookie="small=1; path=/"), "/large": answer(set_cookie=f"large={'x' * 3000}; path=/")}
    with_site({**pages, "/plain": answer()}, job, NetworkOptions(allow_private=True, cookies=True))


def test_host_that_sets_very_many_cookies_displaces_those_of_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cookies, "MAX_COOKIES", 4)

    async def job(_: CurlFetcher, served: Site) -> None:
        network = NetworkOptions(allow_private=True, cookies=True, resolve={"*": f"127.0.0.1:{served.port}"})
        fetcher = CurlFetcher(AGENT, network=network)
        good = [f"http://www.h{n}.example/" for n in range(40)]
        for url in (*good, *["http://evil.example/"] * 6, *good, "http://h0.example/"):
            assert (await fetcher.fetch(url)).status == 200
        await fetcher.close()
        sent = ["cookie" in request.headers for request in served.requests]
        # The sixth request of the stranger comes after its jar was emptied.
        assert sent[40:46] == [False, True, True, True, True, False]
        assert sum(sent[46:86]) >= 38
        # Hosts of a domain share a jar, but not their cookies.
        assert not sent[86]

    with_site({"/": answer(set_cookie="small=1; path=/")}, job)


def test_a_request_that_is_too_late_is_not_sent() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        late = True
        fetcher.may_send = lambda url: not (late and url == served.url("/late"))
        failure = (await fetcher.fetch(served.url("/late"))).failure
        assert failure is not None and failure.kind == NOT_SENT_FAILURE
        assert (await fetcher.fetch(served.url("/"))).status == 200
        late = False
        assert (await fetcher.fetch(served.url("/late"))).status == 200
        assert [request.target for request in served.requests] == ["/", "/late"]

    with_site({"/": answer(), "/late": answer()}, job)


def test_connection_is_kept_when_a_host_is_asked_again() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        for _ in range(10):
            assert (await fetcher.fetch(served.url("/"))).status == 200
        assert (served.connections, len(served.requests)) == (1, 10)

    with_site({"/": answer()}, job)


@LOOPS
def test_sixty_four_requests_end_when_asked_at_once(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        found = await asyncio.gather(*(fetcher.fetch(served.url(f"/{i}")) for i in range(64)))
        assert [f.body for f in found] == [b"%d" % i for i in range(64)]
        assert served.connections <= 64

    with_site({f"/{i}": answer(b"%d" % i) for i in range(64)}, job, loop=loop)


def test_requests_wait_when_all_places_are_taken() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        found = await asyncio.gather(*(fetcher.fetch(served.url("/")) for _ in range(9)))
        assert all(f.status == 200 for f in found)
        assert served.connections <= 2

    with_site({"/": answer()}, job, NetworkOptions(allow_private=True, connections=2))


@LOOPS
def test_handle_is_free_again_when_a_fetch_is_cancelled(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        waiting = asyncio.ensure_future(fetcher.fetch(served.url("/silent")))
        while not served.requests:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (await fetcher.fetch(served.url("/"))).status == 200  # there is only one place

    with_site({"/": answer(), "/silent": silent()}, job, NetworkOptions(allow_private=True, connections=1), loop)


def test_fetch_ends_with_a_failure_when_the_fetcher_closes() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        waiting = asyncio.ensure_future(fetcher.fetch(served.url("/silent")))
        while not served.requests:
            await asyncio.sleep(0)
        await fetcher.close()
        failure = (await waiting).failure
        assert failure is not None and failure.kind == "closed"

    with_site({"/silent": silent()}, job)


def test_validators_are_sent_and_nothing_else() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        await fetcher.fetch(served.url("/"), {"etag": '"a1"', "Last-Modified": "yesterday", "Cookie": "a"})
        await fetcher.fetch(served.url("/"))
        first, second = (r.headers for r in served.requests)
        assert (first["if-none-match"], first["if-modified-since"]) == ('"a1"', "yesterday")
        assert "cookie" not in first and "if-none-match" not in second

    with_site({"/": answer()}, job)


def test_validator_is_dropped_when_it_would_break_the_line() -> None:
    assert conditional_headers({"etag": '"a"\r\nX-Evil: 1', "last-modified": "ü"}) == []


@pytest.mark.parametrize(
    ("url", "addresses", "entry"),
    [
        ("http://a.example/", {"a.example": "127.0.0.1"}, "a.example::127.0.0.1:"),
        ("http://a.example:81/", {"a.example:81": "127.0.0.1:9"}, "a.example:81:127.0.0.1:9"),
        ("http://a.example:81/", {"a.example": "::1"}, "a.example:81:[::1]:"),
        ("https://a.example/", {"*": "[::1]:9"}, "a.example::[::1]:9"),
        ("http://[::2]/", {"[::2]": "127.0.0.1"}, "[::2]::127.0.0.1:"),
        ("http://b.example/", {"a.example": "127.0.0.1"}, ""),
    ],
)
def test_connect_to_names_host_and_address(url: str, addresses: dict[str, str], entry: str) -> None:
    assert connect_to_entry(url, addresses) == entry


def test_named_hosts_reach_loopback_when_resolved_by_the_user() -> None:
    async def start() -> None:
        async with site({"/": answer(b"one")}) as one, site({"/": answer(b"two")}) as two:
            places = {"one.example": f"127.0.0.1:{one.port}", "two.example": f"127.0.0.1:{two.port}"}
            fetcher = CurlFetcher(AGENT, network=NetworkOptions(allow_private=True, connections=1, resolve=places))
            bodies = [(await fetcher.fetch(f"http://{h}.example/")).body for h in ("one", "two", "one")]
            unmapped = await fetcher.fetch(one.url("/"))
            await fetcher.close()
            assert bodies == [b"one", b"two", b"one"] and unmapped.body == b"one"
            assert one.requests[0].headers["host"] == "one.example"

    asyncio.run(start())


def test_informational_answers_are_skipped() -> None:
    early = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 2\r\n\r\nhi"

    async def job(fetcher: CurlFetcher, served: Site) -> None:
        found = await fetcher.fetch(served.url("/"))
        assert (found.status, found.body, found.header("link"), found.header("x-a")) == (200, b"hi", "", "1")

    with_site({"/": raw(early)}, job)


def test_retry_after_is_read_when_the_server_is_busy() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        found = await fetcher.fetch(served.url("/"))
        assert (found.status, found.retry_after_s, found.failure) == (503, 17.0, None)

    with_site({"/": answer(b"", "503 Busy", retry_after="17")}, job)


def test_follow_reaches_the_page_when_redirects_end() -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        found = await follow_redirects(fetcher, served.url("/a"))
        assert (found.url, found.status) == (served.url("/c"), 200)

    hops = {"/a": answer(b"", "302 Found", location="b#x"), "/b": answer(b"", "308 There", location="./x/../c")}
    with_site(hops | {"/c": answer()}, job)


@pytest.mark.parametrize("hops", [1, 5])
def test_follow_gives_up_when_redirects_loop(hops: int) -> None:
    async def job(fetcher: CurlFetcher, served: Site) -> None:
        failure = (await follow_redirects(fetcher, served.url("/a"), hops)).failure
        assert failure is not None and failure.kind == "redirect-loop"
        assert len(served.requests) == 2

    with_site({"/a": answer(b"", "302 Found", location="/b"), "/b": answer(b"", "302 Found", location="/a")}, job)
