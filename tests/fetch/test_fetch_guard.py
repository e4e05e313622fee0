"""The address guard, proxies and TLS."""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypercorn.asyncio import serve
from hypercorn.config import Config
from hypercorn.typing import ASGIReceiveCallable, ASGISendCallable, Scope
from hypothesis import given
from hypothesis import strategies as st

from checks.hostile_site import Request, answer, site
from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url
from opilio.engine.politeness.robots import rules_from_response
from opilio.fetch.addresses import is_public
from opilio.fetch.api_client import ApiClient
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.curl_transfer import Transfer
from opilio.fetch.http import AnyResponse, FetchLimits, NetworkOptions

AGENT = "Opilio/test"

PRIVATE = (
    *("0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.9.9.9", "169.254.169.254", "172.16.0.1", "192.0.0.1"),
    *("192.0.2.1", "192.168.1.1", "198.18.0.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "::ffff:10.0.0.1", "::ffff:127.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1"),
    *("2002:7f00:1::", "2001::1", "2001:db8::1", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1"),
    *("ff02::1", "100::1", "nonsense"),
)
PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::"]


@pytest.mark.parametrize("address", PRIVATE)
def test_address_is_refused_when_it_is_not_public(address: str) -> None:
    assert not is_public(address)


METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "[fd00:ec2::254]",
    "100.100.100.200",
    "168.63.129.16",
    "[::ffff:169.254.169.254]",
]


@pytest.mark.parametrize("address", METADATA)
def test_metadata_of_a_cloud_is_refused_also_when_private_addresses_are_allowed(address: str) -> None:
    found = fetch(f"http://{address}/latest/", NetworkOptions(allow_private=True))
    assert (kind_of(found), found.status) == ("private-address", 0)


def test_metadata_is_refused_when_a_name_leads_to_it() -> None:
    network = NetworkOptions(allow_private=True, resolve={"a.example": "169.254.169.254:80"})
    assert kind_of(fetch("http://a.example/", network)) == "private-address"


@pytest.mark.parametrize("address", PUBLIC)
def test_address_is_public_when_anybody_may_reach_it(address: str) -> None:
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_mapped_address_is_as_public_as_what_it_hides(address: object) -> None:
    assert is_public(f"::ffff:{address}") == is_public(str(address))


@dataclass
class Target:
    family: int
    socktype: int
    protocol: int
    addr: object


def test_failure_is_connect_when_no_socket_can_be_had() -> None:
    """A callback that raises would print a traceback for every request."""
    transfer = Transfer("http://a.example/", FetchLimits(), AnyResponse())
    assert transfer.open_socket(0, Target(family=999, socktype=1, protocol=0, addr=(PUBLIC[0], 80))) == -1
    assert transfer.failure is not None
    assert (transfer.failure.kind, transfer.failure.retry) == ("connect", True)


def fetch(url: str, network: NetworkOptions) -> FetchResult:
    async def start() -> FetchResult:
        fetcher = CurlFetcher(AGENT, network=network)
        try:
            return await fetcher.fetch(url)
        finally:
            await fetcher.close()

    return asyncio.run(start())


def kind_of(found: FetchResult) -> str:
    assert found.failure is not None
    return found.failure.kind


ODD_LOOPBACKS = (
    "http://127.0.0.1:{}/",
    "http://localhost:{}/",
    "http://2130706433:{}/",
    "http://0x7f.1:{}/",
    "http://0177.0.0.1:{}/",
    "http://[::1]:{}/",
    "http://[::ffff:127.0.0.1]:{}/",
    "http://0:{}/",
    "http://rebound.example:{}/",
)


@pytest.mark.parametrize("form", ODD_LOOPBACKS)
def test_no_connection_is_made_when_a_name_leads_to_loopback(form: str) -> None:
    """The name passes as any other; what it leads to does not (DNS rebinding)."""

    async def start() -> None:
        async with site({"/": answer()}) as served:
            network = NetworkOptions(resolve={"rebound.example": "127.0.0.1"})
            fetcher = CurlFetcher(AGENT, network=network)
            for url in {form.format(served.port), canonicalize_url(form.format(served.port)) or ""}:
                found = await fetcher.fetch(url)
                assert kind_of(found) == "private-address" and found.status == 0
            await fetcher.close()
            assert served.connections == 0

    asyncio.run(start())


def test_redirect_target_is_refused_when_it_is_private() -> None:
    async def start() -> None:
        async with site({"/": answer(b"", "302 Found", location="http://169.254.169.254/meta")}) as served:
            open_fetcher = CurlFetcher(AGENT, network=NetworkOptions(allow_private=True))
            location = (await open_fetcher.fetch(served.url("/"))).location
            await open_fetcher.close()
            guarded = CurlFetcher(AGENT)
            assert kind_of(await guarded.fetch(location)) == "private-address"
            await guarded.close()

    asyncio.run(start())


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "file:///etc/passwd", "", "http://", "http://[::1/", "http://a\x00/"]
)
def test_failure_is_url_when_it_can_not_be_asked_for(url: str) -> None:
    assert kind_of(fetch(url, NetworkOptions())) == "url"


@given(st.text(max_size=40))
def test_fetch_never_raises_when_the_url_is_nonsense(text: str) -> None:
    assert fetch(f"http://127.0.0.1:1/{text}", NetworkOptions(allow_private=True)).failure is not None


def test_failure_is_dns_when_the_name_does_not_exist() -> None:
    """A label of 64 letters is no name (RFC 1035, 2.3.4): no server has to be asked, and none can be slow to say so."""
    found = fetch(f"http://{64 * 'x'}.example/", NetworkOptions())
    assert kind_of(found) == "dns" and found.failure is not None and found.failure.retry


def test_failure_is_connect_without_a_listener() -> None:
    assert kind_of(fetch("http://127.0.0.1:1/", NetworkOptions(allow_private=True))) == "connect"


async def forward(request: Request, writer: asyncio.StreamWriter) -> bool:
    """A tiny forward proxy: it asks the origin server in our name."""
    host, _, port = request.headers["host"].partition(":")
    reader, upstream = await asyncio.open_connection("127.0.0.1", int(port))
    path = request.target.partition(request.headers["host"])[2]
    upstream.write(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
    with suppress(asyncio.IncompleteReadError):
        writer.write(await reader.read(65536))
    upstream.close()
    await upstream.wait_closed()
    return False


def through_proxy(job: Callable[[CurlFetcher, str, list[Request]], Awaitable[None]]) -> None:
    async def start() -> None:
        async with site({"/": answer(b"far")}) as origin, site({}) as proxy:
            proxy.behaviours[f"http://far.example:{origin.port}/"] = forward
            fetcher = CurlFetcher(AGENT, network=NetworkOptions(proxy=f"http://127.0.0.1:{proxy.port}"))
            await job(fetcher, f"far.example:{origin.port}/", proxy.requests)
            await fetcher.close()

    asyncio.run(start())


def test_proxy_is_asked_when_the_user_names_one() -> None:
    """The user's proxy is trusted: it may be on loopback, and it resolves the names."""

    async def job(fetcher: CurlFetcher, target: str, asked: list[Request]) -> None:
        found = await fetcher.fetch(f"http://{target}")
        assert (found.status, found.body, asked[0].target) == (200, b"far", f"http://{target}")

    through_proxy(job)


def test_status_is_none_when_only_the_proxy_spoke() -> None:
    async def job(fetcher: CurlFetcher, target: str, _: list[Request]) -> None:
        found = await fetcher.fetch(f"https://{target}")
        assert (found.status, found.headers, kind_of(found)) == (0, (), "proxy")

    through_proxy(job)


def test_dead_proxy_is_named_without_its_password() -> None:
    found = fetch("http://far.example/robots.txt", NetworkOptions(proxy="http://me:secret@127.0.0.1:1"))
    assert kind_of(found) == "proxy"
    result = "the proxy http://127.0.0.1:1 can't be reached (7)"
    assert (found.failure and found.failure.detail, rules_from_response(found, AGENT, 0.0).why) == (result, result)


PROXIED = (
    *("http://169.254.169.254/latest/", "http://127.0.0.1:6379/", "http://[::1]/", "http://[::ffff:10.0.0.1]/"),
    *("http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/", "http://127.0.0.1./", "http://10.0.0.1/"),
    *("http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://user@127.0.0.1/", "https://[fe80::1]/"),
    *("http://redis:6379/", "http://localhost.localdomain/", "http://nas.local./", "http://metadata.google.internal/"),
)


@pytest.mark.parametrize("url", PROXIED)
def test_proxy_is_not_asked_for_a_private_address(url: str) -> None:
    async def start() -> None:
        async with site({}) as proxy:
            network = NetworkOptions(proxy=proxy.root)
            fetcher, client = CurlFetcher(AGENT, network=network), ApiClient(AGENT, network=network)
            found = [await fetcher.fetch(url), await client.request(url)]
            await fetcher.close()
            await client.close()
            assert {(kind_of(one), one.status) for one in found} == {("private-address", 0)}
            assert proxy.connections == 0

    asyncio.run(start())


def test_proxy_is_asked_for_a_private_address_when_it_is_allowed() -> None:
    async def start() -> None:
        async with site({}) as proxy:
            proxy.behaviours["http://10.0.0.1/"] = answer(b"near")
            fetcher = CurlFetcher(AGENT, network=NetworkOptions(proxy=proxy.root, allow_private=True))
            assert (await fetcher.fetch("http://10.0.0.1/")).body == b"near"
            for metadata in ("169.254.169.254", "metadata.google.internal"):
                assert kind_of(await fetcher.fetch(f"http://{metadata}/")) == "private-address"
            await fetcher.close()
            assert [request.target for request in proxy.requests] == ["http://10.0.0.1/"]

    asyncio.run(start())


def test_engine_named_by_the_user_is_asked_through_a_proxy() -> None:
    async def start() -> None:
        async with site({}) as proxy:
            proxy.behaviours["http://10.0.0.1/"] = answer(b"near")
            client = ApiClient(AGENT, network=NetworkOptions(proxy=proxy.root))
            assert (await client.request("http://10.0.0.1/", trusted=True)).body == b"near"
            await client.close()

    asyncio.run(start())


def test_environment_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start() -> None:
        async with site({"/": answer()}) as served, site({}) as proxy:
            monkeypatch.setitem(os.environ, "http_proxy", proxy.root)
            fetcher = CurlFetcher(AGENT, network=NetworkOptions(allow_private=True))
            assert (await fetcher.fetch(served.url("/"))).status == 200
            await fetcher.close()
            assert proxy.connections == 0

    asyncio.run(start())


@pytest.mark.parametrize(
    ("host", "trust", "verify", "kind"),
    [
        ("birds.example", True, True, ""),
        ("birds.example", False, True, "tls"),
        ("fish.example", True, True, "tls"),
        ("fish.example", False, False, ""),
    ],
    ids=["trusted", "self-signed", "wrong name", "unverified"],
)
def test_certificate_decides_when_asked_over_tls(
    certificate: Path, host: str, trust: bool, verify: bool, kind: str
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    async def start() -> FetchResult:
        async with site({"/": answer()}, context) as served:
            places = {host: f"127.0.0.1:{served.port}"}
            ca_file = str(certificate) if trust else ""
            network = NetworkOptions(allow_private=True, resolve=places, verify_tls=verify, ca_file=ca_file)
            fetcher = CurlFetcher(AGENT, network=network)
            found = await fetcher.fetch(f"https://{host}/")
            await fetcher.close()
            return found

    found = asyncio.run(start())
    assert (found.failure.kind if found.failure else "") == kind
    assert found.status == (0 if kind else 200)


@pytest.mark.parametrize("protocol", ["h2", "http/1.1"])
def test_http_2_is_negotiated_with_servers_that_have_it(certificate: Path, protocol: str) -> None:
    seen: list[tuple[str, str]] = []

    async def app(scope: Scope, _receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        if scope["type"] != "http":
            return
        seen.append((scope["http_version"], scope["path"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/html")]})
        await send({"type": "http.response.body", "body": b"<p>wren " * 9_000, "more_body": False})

    async def start() -> list[FetchResult]:
        listener, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
        places = {"*": f"127.0.0.1:{listener.getsockname()[1]}"}
        network = NetworkOptions(allow_private=True, resolve=places, ca_file=str(certificate))
        config = Config.from_mapping(bind=f"fd://{listener.detach()}", alpn_protocols=[protocol])
        config.certfile = config.keyfile = str(certificate)
        serving = asyncio.create_task(serve(app, config, shutdown_trigger=stop.wait))
        fetcher = CurlFetcher(AGENT, network=network)
        found = await asyncio.gather(*(fetcher.fetch(f"https://birds.example/{n}") for n in range(3)))
        await fetcher.close()
        stop.set()
        await serving
        return found

    assert [(len(r.body), r.failure) for r in asyncio.run(start())] == [(72_000, None)] * 3
    assert sorted(seen) == [("2" if protocol == "h2" else "1.1", f"/{n}") for n in range(3)]
