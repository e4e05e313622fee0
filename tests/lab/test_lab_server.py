"""A web over real sockets on loopback: by Host header, as a proxy, with faults and a log."""

import asyncio
import socket
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from opilio.core.errors import OfflineWebError
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry, MalformedRequestError, fetch_attempts, parse_request, read_access_log
from opilio.lab.server.server import LabServerConfig, LabWebServer, run_event_loop
from opilio.lab.synthetic.changing import HostFaults, load_faults
from opilio.lab.synthetic.plan import WebShape
from opilio.lab.synthetic.web import SyntheticWeb
from opilio.lab.webs.web import WarcWeb


async def exchange(port: int, request: bytes, address: str = "127.0.0.1") -> bytes:
    """Send bytes, read until the server closes."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


def get(target: str, host: str = "", method: str = "GET", last: bool = True) -> bytes:
    close = "Connection: close\r\n" if last else ""
    return f"{method} {target} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n".encode()


def ask(server: LabWebServer, request: bytes) -> bytes:
    async def main() -> bytes:
        async with server:
            return await exchange(server.port, request)

    return asyncio.run(main())


def test_server_runs_on_uvloop_when_it_is_installed(small_web: WarcWeb) -> None:
    async def main() -> int:
        async with LabWebServer(small_web) as server:
            return (await exchange(server.port, get(small_web.urls[30]))).count(b"HTTP/1.1 200")

    assert run_event_loop(main()) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the system does not say when data came")
def test_request_is_logged_when_it_was_received_however_late_it_is_read(small_web: WarcWeb) -> None:
    server, blocked_s = LabWebServer(small_web), 0.05

    async def main() -> float:
        async with server:
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(get(small_web.urls[30]))
                # As if other processes had the machine: the event loop does not run.
                starts_at = server.handler.clock.now()
                while server.handler.clock.now() < starts_at + blocked_s:
                    pass
                read_after = server.handler.clock.now()
                while not server.log:
                    await asyncio.sleep(0)
            return read_after

    read_after = asyncio.run(main())
    assert server.log[0].at < read_after


def parts(url: str) -> tuple[str, str]:
    host, _, path = url.removeprefix("http://").partition("/")
    return host, f"/{path}"


def test_page_is_the_same_by_host_header_and_as_proxy(small_web: WarcWeb) -> None:
    url = small_web.urls[30]
    host, path = parts(url)
    direct = ask(LabWebServer(small_web), get(path, host))
    proxied = ask(LabWebServer(small_web), get(url))
    assert direct == proxied
    assert direct.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n")
    answer = small_web.find(url)
    assert answer is not None
    assert direct.endswith(b"\r\n\r\n" + answer.body)


def test_host_may_bear_the_port_of_the_server(small_web: WarcWeb) -> None:
    host, path = parts(small_web.urls[30])

    async def main() -> tuple[bytes, list[str]]:
        async with LabWebServer(small_web) as server:
            answer = await exchange(server.port, get(path, f"{host}:{server.port}"))
            return answer, [attempt.url for attempt in fetch_attempts(server.log)]

    answer, asked = asyncio.run(main())
    assert answer.startswith(b"HTTP/1.1 200")
    assert asked == [small_web.urls[30]]


def test_host_keeps_its_port_when_the_web_was_recorded_so() -> None:
    class OnePage:
        hosts: ClassVar[dict[str, int]] = {}

        def find(self, url: str) -> RecordedResponse | None:
            return RecordedResponse(200, (), b"found") if url == f"http://{next(iter(self.hosts))}/" else None

    async def main() -> bytes:
        async with LabWebServer(OnePage()) as server:
            OnePage.hosts = {f"a.example:{server.port}": 1}
            return await exchange(server.port, get("/", f"a.example:{server.port}"))

    assert asyncio.run(main()).endswith(b"found")


def test_tunnel_is_refused_with_what_to_do(small_web: WarcWeb) -> None:
    answer = ask(LabWebServer(small_web), get("a.example:443", "a.example:443", "CONNECT"))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"request the http:// URL" in answer


def test_pipelined_requests_are_answered_in_order_when_the_first_is_slow(small_web: WarcWeb) -> None:
    hosts = sorted(small_web.hosts)[:2]
    slow = {hosts[0]: HostFaults(name=hosts[0], delay_s=0.02)}
    answer = ask(LabWebServer(small_web, faults=slow), get("/", hosts[0], last=False) + get("/none", hosts[1]))
    assert [answer[9:12], answer[answer.rindex(b"HTTP/1.1") + 9 :][:3]] == [b"200", b"404"]


def test_head_gives_the_length_without_the_body(small_web: WarcWeb) -> None:
    host, path = parts(small_web.urls[30])
    answer = ask(LabWebServer(small_web), get(path, host, "HEAD"))
    assert answer.endswith(b"\r\n\r\n")
    assert b"Content-Length: 0" not in answer


def test_unknown_pages_and_methods_are_refused(small_web: WarcWeb) -> None:
    assert ask(LabWebServer(small_web), get("/nowhere", "a.example")).startswith(b"HTTP/1.1 404")
    assert ask(LabWebServer(small_web), get("/", "a.example", "POST")).startswith(b"HTTP/1.1 405")
    assert ask(LabWebServer(small_web), b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400")


def test_robots_are_the_recorded_ones_or_free(small_web: WarcWeb) -> None:
    host = next(iter(small_web.hosts))
    assert b"/private/" in ask(LabWebServer(small_web), get("/robots.txt", host))
    assert ask(LabWebServer(small_web), get("/robots.txt", "other.example")).endswith(b"Disallow:\n")
    closed = LabWebServer(small_web, LabServerConfig(robots=""))
    assert ask(closed, get("/robots.txt", "other.example")).startswith(b"HTTP/1.1 404")


def test_redirects_are_served_as_recorded(small_web: WarcWeb) -> None:
    moved = next(u for u in small_web.urls if "/old/" in u)
    assert ask(LabWebServer(small_web), get(moved)).startswith(b"HTTP/1.1 301 Moved Permanently\r\nLocation: http://")


def test_throttled_host_asks_to_come_back_later(small_web: WarcWeb) -> None:
    host = min(small_web.hosts)
    faults = {host: HostFaults(name=host, most_per_s=1)}
    answer = ask(LabWebServer(small_web, faults=faults), get("/", host, last=False) + get("/", host))
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"HTTP/1.1 429 Too Many Requests" in answer
    assert b"Retry-After: 1" in answer


def test_failing_host_fails_now_and_then(small_web: WarcWeb) -> None:
    host = min(small_web.hosts)
    faults = {host: HostFaults(name=host, error_rate=0.5)}
    answer = ask(LabWebServer(small_web, faults=faults), get("/", host, last=False) * 20 + get("/", host))
    assert answer.count(b"HTTP/1.1 503") + answer.count(b"HTTP/1.1 200") == 21
    assert 0 < answer.count(b"HTTP/1.1 503") < 21


def test_log_names_every_request_and_survives_in_a_file(small_web: WarcWeb, tmp_path: Path) -> None:
    host, path = parts(small_web.urls[30])
    server = LabWebServer(small_web, LabServerConfig(log_file=tmp_path / "log"))
    ask(server, get("/robots.txt", host, last=False) + get(path, host, "HEAD", last=False) + get(path, host))
    assert [(a.target, a.status, a.method) for a in server.log] == [
        ("/robots.txt", 200, "GET"),
        (path, 200, "HEAD"),
        (path, 200, "GET"),
    ]
    assert read_access_log(tmp_path / "log") == server.log
    assert fetch_attempts(server.log) == [(small_web.urls[30], 200)]


def test_log_is_refused_when_it_is_something_else(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello\n")
    with pytest.raises(OfflineWebError, match="no access log"):
        read_access_log(tmp_path / "log")
    assert AccessLogEntry(0.0, "", "", 400, 1).url == ""


def test_hosts_are_shared_out_when_served_on_several_addresses(small_web: WarcWeb) -> None:
    async def main() -> bytes:
        async with LabWebServer(small_web, LabServerConfig(addresses=3)) as server:
            assert set(server.host_addresses.values()) == {"127.0.0.1", "127.0.0.2", "127.0.0.3"}
            return await exchange(server.port, get("/", next(iter(small_web.hosts))), "127.0.0.3")

    assert asyncio.run(main()).startswith(b"HTTP/1.1 200")


def test_synthetic_web_is_served_with_endless_traps() -> None:
    web = SyntheticWeb(WebShape(pages=150, hosts=6, topics=2))
    host = next(h.name for h in web.plan.hosts if "/calendar/" in h.trap_entrances)
    assert ask(LabWebServer(web), get("/calendar/99999/7/", host)).startswith(b"HTTP/1.1 200")


def test_own_address_shows_the_hosts(small_web: WarcWeb) -> None:
    assert b"www." in ask(LabWebServer(small_web), get("/", "127.0.0.1:80"))


def test_faults_come_from_the_folder_when_it_has_some(small_folder: Path, tmp_path: Path) -> None:
    assert sorted(f.delay_s for f in load_faults(small_folder).values()) == [0.0, 0.0, 0.5, 0.5]
    assert load_faults(tmp_path) == {}
    (tmp_path / "hosts.toml").write_text("[[host]]\nnme = 1\n")
    with pytest.raises(OfflineWebError, match=r"hosts\.toml"):
        load_faults(tmp_path)


def test_request_is_awaited_until_it_is_whole() -> None:
    whole = b"POST /a HTTP/1.1\r\nHost: A.example\r\nContent-Length: 2\r\n\r\nhi"
    assert all(parse_request(whole[:n]) is None for n in range(len(whole)))
    request = parse_request(whole + b"GET")
    assert request is not None
    assert (request.host, request.size, request.keep_alive) == ("a.example", len(whole), True)


@pytest.mark.parametrize(
    "wrong",
    [b"x" * 70_000, b"GET\r\n\r\n", b"GET ftp://a HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"],
)
def test_request_is_refused_when_it_is_invalid(wrong: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        parse_request(wrong)


def test_log_that_cant_be_written_is_reported_by_its_name(small_web: WarcWeb, tmp_path: Path) -> None:
    server = LabWebServer(small_web, LabServerConfig(log_file=tmp_path / "none" / "log"))
    with pytest.raises(OfflineWebError, match=r"none/log: the access log can't be written: No such file"):
        ask(server, get("/"))
