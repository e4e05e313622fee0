"""Attacks that succeeded on an early version (7e1e3cc), through the command line, which it shares with this one.

    OPILIO_COMMAND=/path/to/the/early/opilio python -m pytest tests/engine/test_engine_known_*.py

runs them against another installed version; all of them fail on the early one. See docs/security.md for the others.
"""

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import zstandard

from checks.other_versions import ROOT, crawl, crawl_command, crawl_through, running
from checks.small_webs import BIRDS, HTML, SmallWeb, grid, page, robots, rows, served, word
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.http import AccessLogEntry

pytestmark = [pytest.mark.slow, pytest.mark.process]


def hosts(log: list[AccessLogEntry]) -> set[str]:
    return {entry.host for entry in log}


def test_title_of_punctuation_does_not_hang_a_worker(tmp_path: Path) -> None:  # F1
    web = {ROOT: page(BIRDS, ["/next"], title="404" + "-" * 90_000 + "x"), f"{ROOT}next": page(f"{BIRDS} next")}
    crawl(tmp_path / "c", web)
    assert rows(tmp_path / "c", "SELECT count(*) FROM page") == [(2,)]


def test_rules_of_many_hosts_take_bounded_memory(tmp_path: Path) -> None:  # F2
    rules = "User-agent: *\n" + "".join(f"Disallow: /{number}/*/x$\n" for number in range(25_000))
    web: dict[str, RecordedResponse] = {}
    for number in range(16):
        web |= {
            f"http://h{number}.example/": page(f"{BIRDS} {number}"),
            f"http://h{number}.example/robots.txt": robots(rules),
        }
    _, megabytes = crawl(tmp_path / "c", web, *(url for url in web if url.endswith("/")))
    assert rows(tmp_path / "c", "SELECT count(*) FROM frontier_url WHERE state = 2") == [(16,)]
    assert megabytes < 300


@contextmanager
def raw_proxy(response: bytes) -> Iterator[str]:
    """A proxy that has no robots.txt and sends these bytes for everything else."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            request = connection.recv(65536)
            missing = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            connection.sendall(missing if b"robots.txt" in request.split(b"\r\n")[0] else response)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_chunks_of_a_byte_take_bounded_memory(tmp_path: Path) -> None:  # F3
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    with raw_proxy(head + b"1\r\ny\r\n" * 3_900_000 + b"0\r\n\r\n") as proxy:
        megabytes = crawl_through(tmp_path / "c", proxy)
    assert rows(tmp_path / "c", "SELECT count(*) FROM frontier_url WHERE state < 2") == [(0,)]
    assert megabytes < 300


def test_private_addresses_are_not_requested_from_a_proxy(tmp_path: Path) -> None:  # F4
    private = ("169.254.169.254", "127.0.0.1:6379", "[::1]")
    log, _ = crawl(tmp_path / "c", {ROOT: page(BIRDS, [f"http://{host}/wren" for host in private])})
    assert hosts(log) == {"a.example"}


class TrapBesideHonestHost(SmallWeb):
    """An honest host about birds; one page in ten links to a host of random words that never ends.

    The pages of the honest host have nearly the same words, if they are `alike`.
    """

    def __init__(self, alike: bool) -> None:
        super().__init__(grid(hosts=1, pages=900))
        self._alike = alike

    @property
    def hosts(self) -> dict[str, int]:
        return super().hosts | {"trap.example": 1}

    def find(self, url: str) -> RecordedResponse | None:
        rng = random.Random(url)
        text = " ".join(word(rng.randrange(10**6)) for _ in range(40))
        links = [f"http://trap.example/maze-{rng.randrange(10**9)}" for _ in range(10)]
        if url.startswith("http://trap.example/maze-"):
            return page(text, links)
        found = super().find(url)
        if found is None:
            return None
        more = "" if self._alike else f"<p>{text}</p>"
        if rng.random() < 0.1:
            more += "".join(f'<p><a href="{link}">small birds: the wren and its nests</a></p>' for link in links)
        return RecordedResponse(200, (HTML,), found.body.replace(b"</body>", f"{more}</body>".encode()))


@pytest.mark.parametrize("alike", [False, True])
def test_trap_beside_an_honest_host_takes_a_small_part_of_the_fetches(tmp_path: Path, alike: bool) -> None:  # F8
    fetches = 800
    with served(TrapBesideHonestHost(alike)) as server:
        limits = (f"stop.fetches={fetches}", "stop.pages=0")
        command = crawl_command(tmp_path / "c", server.proxy, ["http://h0.example/0.html"], *limits)
        with running(command) as process:
            assert process.wait() == 0
        asked = [entry.host for entry in server.log if entry.target != "/robots.txt"]
    assert len(asked) >= 0.9 * fetches
    assert 0 < asked.count("trap.example") < 0.1 * fetches


def test_truncated_encoding_is_not_a_whole_page(tmp_path: Path) -> None:  # F10
    packed = zstandard.compress(page(" ".join(map(word, range(2_000))), ["/next"]).body)
    cut = RecordedResponse(200, (HTML, ("Content-Encoding", "zstd")), packed[: len(packed) // 2])
    crawl(tmp_path / "c", {ROOT: cut})
    assert rows(tmp_path / "c", "SELECT url FROM page") == []


def test_link_in_ruby_parentheses_does_not_lose_the_page(tmp_path: Path) -> None:  # F12
    body = f"<p>{BIRDS}<ruby>wren<rp><a href=m>(</a></rp></ruby>"
    crawl(tmp_path / "c", {ROOT: RecordedResponse(200, (HTML,), body.encode())})
    assert rows(tmp_path / "c", "SELECT url FROM page") == [(ROOT,)]


def test_rule_that_is_cut_allows_nothing(tmp_path: Path) -> None:  # F13
    start = "User-agent: *\nDisallow: /private\n"
    filler = "#" * (500 * 1024 - len(start) - 1 - len("Allow: /private")) + "\n"
    rules = f"{start}{filler}Allow: /private/only/this\n"
    web = {
        f"{ROOT}robots.txt": robots(rules),
        ROOT: page(BIRDS, ["/private/x"]),
        f"{ROOT}private/x": page(f"{BIRDS} private"),
    }
    log, _ = crawl(tmp_path / "c", web)
    assert "/private/x" not in [entry.target for entry in log]


def test_double_byte_order_mark_does_not_hide_the_first_group(tmp_path: Path) -> None:  # F13
    web = {
        f"{ROOT}robots.txt": robots("\ufeff\ufeffUser-agent: *\nDisallow: /private\n"),
        ROOT: page(BIRDS, ["/private/x"]),
        f"{ROOT}private/x": page(f"{BIRDS} private"),
    }
    log, _ = crawl(tmp_path / "c", web)
    assert "/private/x" not in [entry.target for entry in log]


def test_host_with_a_very_large_robots_txt_is_crawled(tmp_path: Path) -> None:  # F13
    rules = robots("User-agent: *\nDisallow: /private\n" + "# wren\n" * 700_000)
    log, _ = crawl(tmp_path / "c", {f"{ROOT}robots.txt": rules, ROOT: page(BIRDS)})
    assert "/" in [entry.target for entry in log]


def test_capital_sharp_s_leads_to_the_same_host(tmp_path: Path) -> None:  # F14
    log, _ = crawl(tmp_path / "c", {ROOT: page(BIRDS, ["http://stra\u1e9ee.example/", "http://stra\u00dfe.example/x"])})
    assert hosts(log) == {"a.example", "xn--strae-oqa.example"}
