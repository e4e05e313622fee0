"""Polite, by the server's own log: robots.txt, delays, shared addresses, overload, under concurrency and restarts."""

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from checks.engines import decoded
from checks.killing import kill_often
from checks.small_webs import (
    BIRDS,
    HTML,
    SmallWeb,
    by_host,
    crawl,
    direct,
    events,
    grid,
    known,
    least_gap,
    page,
    redirect,
    robots,
    rows,
    rules_first,
    served,
    settings_for,
    stored,
    tree_of,
    word,
)
from opilio import __version__
from opilio.core.clock import VirtualClock
from opilio.core.events import CrawlStopped, Event, RobotsRead
from opilio.core.settings import PolitenessSettings, merge_trees
from opilio.engine.politeness.host_gate import AddressResolver, HostGate, HostThrottle
from opilio.engine.politeness.robots import RobotsRules
from opilio.fetch.decoding import RecordedResponse
from opilio.testing.stages import MemoryFetcher

DONE, DROPPED = 2, 4


def star(hosts: int, pages: int = 3) -> dict[str, RecordedResponse]:
    """A seed page that links the first page of every host; each host a chain."""
    web = {"http://seed.example/": page(BIRDS, [f"http://h{h}.example/0" for h in range(hosts)])}
    for h in range(hosts):
        for p in range(pages):
            web[f"http://h{h}.example/{p}"] = page(
                f"{BIRDS} {word(h)} {word(1000 + p)}", [f"/{p + 1}"] * (p < pages - 1)
            )
    return web


def test_gaps_hold_with_64_connections_over_many_hosts(tmp_path: Path) -> None:
    web = star(70, 4)
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://seed.example/"], politeness={"delay_s": 0.2}, engine={"connections": 64})
        assert crawl(tmp_path / "c", tree) == "nothing left to fetch"
    assert stored(tmp_path / "c") == tree_of(web)
    assert rules_first(server.log)
    assert least_gap(server.log) >= 0.2
    assert all(len(asked) == len({a.target for a in asked}) for asked in by_host(server.log).values())


def test_every_delay_is_kept_with_64_connections_when_hosts_differ(tmp_path: Path) -> None:
    """Seventy hosts at once: every fifth forbids pages, breaks its robots.txt, wants longer pauses or is overloaded."""
    busy = RecordedResponse(503, (HTML, ("Retry-After", "600")), b"busy")
    web = star(70, 4)
    for h in range(0, 70, 5):
        rules = "User-agent: *\nDisallow: /2\n"
        web[f"http://h{h}.example/robots.txt"] = robots(rules)
        web[f"http://h{h + 1}.example/robots.txt"] = robots("", 500)
        web[f"http://h{h + 2}.example/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.5\n")
        web[f"http://h{h + 3}.example/1"] = busy
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://seed.example/"], politeness={"delay_s": 0.2}, engine={"connections": 64})
        assert crawl(tmp_path / "c", tree).startswith("every host left has to wait")
        log = by_host(server.log)
    asked = {host: [a.target for a in accesses] for host, accesses in log.items()}
    assert rules_first(server.log)
    assert least_gap(server.log) >= 0.2
    for h in range(0, 70, 5):
        assert asked[f"h{h}.example"] == ["/robots.txt", "/0", "/1"], "nothing disallowed"
        assert asked[f"h{h + 1}.example"] == ["/robots.txt"], "5xx: no fetch"
        assert least_gap(log[f"h{h + 2}.example"]) >= 0.5, "the delay in force is the host's"
        assert asked[f"h{h + 3}.example"] == ["/robots.txt", "/0", "/1"], "Retry-After is kept"
        assert asked[f"h{h + 4}.example"] == ["/robots.txt", "/0", "/1", "/2", "/3"]


def test_hosts_of_one_address_share_the_delay_when_there_are_several(tmp_path: Path) -> None:
    web = star(9, 2)
    with served(SmallWeb(web), addresses=3) as server:
        tree = settings_for(server, ["http://seed.example/"], politeness={"delay_s": 0.15}, fetch=direct(server))
        assert crawl(tmp_path / "c", tree) == "nothing left to fetch"
        address_of = server.host_addresses
    assert stored(tmp_path / "c") == tree_of(web)
    assert least_gap(server.log) >= 0.15
    for address in set(address_of.values()):
        assert shared(sorted(a.at for a in server.log if address_of[a.host] == address), 0.15)


def shared(asked: Sequence[float], delay_s: float) -> bool:
    """Did these requests leave one after the other? The server notes when it answers, on a busy machine late: two gaps
    may look uneven, all together do not."""
    return asked[-1] - asked[0] >= delay_s * (len(asked) - 1) - delay_s


@pytest.mark.parametrize("delay_s", [0.0, 0.1])
def test_crawl_delay_holds_when_longer_than_ours(tmp_path: Path, delay_s: float) -> None:
    web = grid(2, 4) | {"http://h1.example/robots.txt": robots("User-agent: *\nCrawl-delay: 0.3\n")}
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://h0.example/0.html"], politeness={"delay_s": delay_s})
        crawl(tmp_path / "c", tree)
    assert stored(tmp_path / "c") == tree_of(web)
    assert least_gap(by_host(server.log)["h1.example"]) >= 0.3
    assert rows(tmp_path / "c", "SELECT delay_s FROM frontier_host WHERE name = 'h1.example'") == [(0.3,)]


def test_crawl_delay_holds_across_restarts_when_killed(tmp_path: Path) -> None:
    """The rules of a host are on disk before its first page is asked for, so no process forgets them."""
    web = grid(3, 6) | {f"http://h{h}.example/robots.txt": robots("User-agent: *\nCrawl-delay: 0.25\n") for h in (1, 2)}
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://h0.example/0.html"], politeness={"delay_s": 0.05})
        assert kill_often(tmp_path / "c", tree, 8, 0.5, random.Random(5), server.log) >= 4
    for host in ("h1.example", "h2.example"):
        asked = by_host(server.log)[host]
        # A process that is killed before it has stored the rules leaves no delay to the next one, which may start
        # within a quarter of a second and asks for robots.txt again.
        first_page = next(at for at, entry in enumerate(asked) if entry.target != "/robots.txt")
        assert least_gap(asked[first_page - 1 :]) >= 0.25
    assert least_gap(server.log) >= 0.05


def test_addresses_share_the_delay_across_restarts_when_killed(tmp_path: Path) -> None:
    with served(SmallWeb(star(6, 3)), addresses=1) as server:
        tree = settings_for(server, ["http://seed.example/"], politeness={"delay_s": 0.15}, fetch=direct(server))
        assert kill_often(tmp_path / "c", tree, 6, 0.6, random.Random(3), server.log) >= 3
    starts = [float(decoded(data)["at"]) for data in events(tmp_path / "c", "CrawlStarted")]
    asked = [[a.at for a in server.log if start <= a.at < end] for start, end in pairwise([*starts, float("inf")])]
    lives = [life for life in asked if life]
    assert len(lives) > 2
    assert all(shared(life, 0.15) for life in lives)
    assert min(later[0] - sooner[-1] for sooner, later in pairwise(lives)) >= 0.15


def test_disallowed_paths_are_never_asked_for(tmp_path: Path) -> None:
    web = {
        "http://a.example/robots.txt": robots("User-agent: opilio\nDisallow: /secret\nAllow: /secret/open\n"),
        "http://a.example/": page(links=["/secret/1", "/secret/open", "/free"]),
        "http://a.example/secret/open": page(word(1)),
        "http://a.example/free": page(word(2), links=["/secret/2"]),
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, ["http://a.example/"]))
    asked = {a.target for a in server.log}
    assert asked == {"/robots.txt", "/", "/free", "/secret/open"}
    assert known(tmp_path / "c")["http://a.example/secret/1"] == DROPPED


def test_robots_txt_that_fails_means_no_fetch_when_5xx(tmp_path: Path) -> None:
    web = star(3, 2) | {
        "http://h1.example/robots.txt": robots("", 503),
        "http://h2.example/robots.txt": robots("", 404),
    }
    with served(SmallWeb(web)) as server:
        reason = crawl(tmp_path / "c", settings_for(server, ["http://seed.example/"]))
    assert reason.startswith("every host left has to wait")
    assert {a.target for a in by_host(server.log)["h1.example"]} == {"/robots.txt"}
    assert len(by_host(server.log)["h2.example"]) == 3  # 4xx: no rules, everything is free
    assert len(events(tmp_path / "c", "HostBackedOff")) == 1


def test_rules_that_change_during_a_crawl_are_obeyed_when_the_old_ones_expire(tmp_path: Path) -> None:
    """The crawl is continued a day later; the rules then allow less."""
    web = SmallWeb(star(1, 6))
    with served(web) as server:
        tree = settings_for(server, ["http://seed.example/"])
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 3}})
        before = len(server.log)
        web.answers["http://h0.example/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}}, later_s=2 * 86_400.0)
        later = [access.target for access in by_host(server.log[before:])["h0.example"]]
    assert later == ["/robots.txt"]
    assert DROPPED in known(tmp_path / "c").values()


def test_rules_are_kept_when_robots_txt_redirects(tmp_path: Path) -> None:
    """A redirect of robots.txt is followed in the turn of the host it leads to (RFC 9309, 2.3.1.2)."""
    rules = "User-agent: *\nDisallow: /1\n"
    web = star(4, 3) | {
        "http://h0.example/robots.txt": redirect("/rules.txt"),
        "http://h0.example/rules.txt": robots(rules),
        "http://h1.example/robots.txt": redirect("http://h2.example/robots.txt"),
        "http://h2.example/robots.txt": robots(rules),
        "http://h3.example/robots.txt": redirect("/robots.txt"),  # no end: no rules
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, ["http://seed.example/"], politeness={"delay_s": 0.1}))
    asked = by_host(server.log)
    assert [{a.target for a in asked[f"h{h}.example"]} & {"/1"} for h in range(3)] == [set(), set(), set()]
    assert "/2" in {a.target for a in asked["h3.example"]}
    assert least_gap(server.log) >= 0.1


@pytest.mark.parametrize(("status", "wait"), [(429, "120"), (503, "3600"), (503, "")])
def test_host_is_left_alone_when_it_is_overloaded(tmp_path: Path, status: int, wait: str) -> None:
    headers = (HTML, ("Retry-After", wait)) if wait else (HTML,)
    web = star(2, 4) | {"http://h1.example/0": RecordedResponse(status, headers, b"busy")}
    web["http://seed.example/"] = page(BIRDS, [f"http://h1.example/{p}" for p in range(3)] + ["http://h0.example/0"])
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://seed.example/"], stop={"patience_s": 1.0}, fetch={"retries": 2})
        reason = crawl(tmp_path / "c", tree)
    assert reason.startswith("every host left has to wait")
    assert [a.target for a in by_host(server.log)["h1.example"]] == ["/robots.txt", "/0"]
    (row,) = rows(
        tmp_path / "c",
        "SELECT wake_at - (SELECT at FROM answer WHERE status = ?) FROM frontier_host WHERE name = 'h1.example'",
        status,
    )
    assert row[0] >= float(wait or 2.0)
    assert len(by_host(server.log)["h0.example"]) == 5
    server_log = len(server.log)
    with served(SmallWeb(web)) as again:  # a restart does not forget it either
        crawl(tmp_path / "c", settings_for(again, ["http://seed.example/"], stop={"patience_s": 0.1}))
        assert again.log == []
    assert server_log == len(server.log)


def test_page_is_asked_for_again_as_soon_as_the_busy_server_allows(tmp_path: Path) -> None:
    """Retry-After is a promise too: by the server's log the second try comes after it, and soon."""
    busy, there = RecordedResponse(503, (HTML, ("Retry-After", "1")), b"busy"), page(BIRDS)
    answers = iter((busy, there))
    with served(SmallWeb({"http://a.example/": lambda: next(answers)})) as server:
        tree = settings_for(server, ["http://a.example/"], politeness={"delay_s": 0.0}, fetch={"retries": 2})
        assert crawl(tmp_path / "c", tree) == "nothing left to fetch"
    first, second = [a.at for a in by_host(server.log)["a.example"] if a.target == "/"]
    assert 1.0 <= second - first < 15.0  # a back-off would wait fifteen seconds or more
    assert stored(tmp_path / "c") == ["http://a.example/"]


def test_nofollow_of_pages_is_respected(tmp_path: Path) -> None:
    tagged = page(word(3), ["/from-tag"])
    web = {
        "http://a.example/": page(BIRDS, ["/meta", "/tag", "/other", "/link"]),
        "http://a.example/meta": page(word(1), ["/from-meta"], head='<meta name="robots" content="nofollow">'),
        "http://a.example/tag": RecordedResponse(200, (HTML, ("X-Robots-Tag", "opilio: nofollow")), tagged.body),
        "http://a.example/other": page(word(5), ["/from-other"], head='<meta name="otherbot" content="nofollow">'),
        "http://a.example/link": RecordedResponse(
            200, (HTML,), b'<p>Rivers</p><a rel="nofollow" href="/from-link">x</a>'
        ),
        "http://a.example/from-other": page(word(6), head='<meta name="robots" content="noindex">'),
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, ["http://a.example/"]))
        asked = {a.target for a in server.log}
        crawl(tmp_path / "all", settings_for(server, ["http://a.example/"], politeness={"nofollow": False}))
    assert asked == {"/robots.txt", "/", "/meta", "/tag", "/other", "/link", "/from-other"}
    assert rows(tmp_path / "c", "SELECT url FROM page WHERE noindex") == [("http://a.example/from-other",)]
    assert {"/from-meta", "/from-tag", "/from-link"} <= {a.target for a in server.log}


def test_delay_is_the_longer_one_when_http_and_https_differ(tmp_path: Path) -> None:
    """One host, two robots.txt: neither scheme may be asked faster than either wants."""
    seen: list[Event] = []
    web = {
        "http://a.example/robots.txt": robots("User-agent: *\nCrawl-delay: 0.3\n"),
        "http://a.example/": page(links=["https://a.example/1", "/2", "/3"]),
        "http://a.example/2": page(word(2)),
        "http://a.example/3": page(word(3)),
    }
    with served(SmallWeb(web)) as server:
        tree = settings_for(server, ["http://a.example/"], politeness={"delay_s": 0.1})
        crawl(tmp_path / "c", tree, seen.append)
    assert least_gap(server.log) >= 0.3
    result = [e for e in seen if isinstance(e, RobotsRead)]
    assert [(e.host, e.delay_s, e.allowed) for e in result] == [("a.example", 0.3, True), ("a.example", 0.0, False)]
    assert isinstance(seen[-1], CrawlStopped)


def test_rules_are_read_again_when_a_resumed_crawl_has_another_name(tmp_path: Path) -> None:
    rules = robots("User-agent: *\nDisallow:\n\nUser-agent: stranger\nDisallow: /\n")
    with served(SmallWeb(grid(1, 6) | {"http://h0.example/robots.txt": rules})) as server:
        tree = settings_for(server, ["http://h0.example/0.html"], stop={"pages": 2})
        crawl(tmp_path / "c", tree)
        before = len(server.log)
        again = {"politeness": {"agent": "stranger"}, "stop": {"pages": 9}}
        assert crawl(tmp_path / "c", merge_trees(tree, again)) == "nothing left to fetch"
    assert [a.target for a in server.log][before:] == ["/robots.txt"]


def test_pause_of_both_schemes_is_known_after_a_restart_when_one_was_read() -> None:
    """http asked for the pause, and after the restart only https is asked."""
    kept = {
        f"{scheme}://a.example": msgspec.msgpack.encode(RobotsRules(agent="Opilio", expires_at=1e12, delay_s=delay_s))
        for scheme, delay_s in (("http", 20.0), ("https", 0.0))
    }
    clock = VirtualClock()
    gate = HostGate(PolitenessSettings(), MemoryFetcher({}), clock, HostThrottle(clock), kept.get, lambda *_: None)
    assert asyncio.run(gate.acquire("https://a.example/", 0.0)).delay_s == 20.0


class SharedStarts:
    """Starts at an address that are given to several processes, a second apart."""

    def __init__(self) -> None:
        self.free_at = 0.0
        self.late: list[str] = []

    def max_late_s(self, _address: str) -> float:
        return 0.4

    def report_late(self, address: str) -> None:
        self.late.append(address)

    def reserve(self, _address: str, now: float, delay_s: float) -> float:
        start = max(now, self.free_at)
        self.free_at = start + delay_s
        return start


def test_a_start_that_has_passed_is_reserved_again() -> None:
    """The host was fetched from by another worker meanwhile; so was its address."""
    clock, starts = VirtualClock(100.0), SharedStarts()
    throttle = HostThrottle(clock, AddressResolver({"a.example": "127.0.0.1"}), 0.0, starts)
    starts.free_at = 105.0
    assert asyncio.run(throttle.acquire("a.example", 0.0, 1.0, 0.5)) == 105.0
    starts.free_at = 110.2
    clock.advance(until=110.0)
    assert asyncio.run(throttle.acquire("a.example", 0.0, 1.0, 0.0)) == 110.2
    assert starts.free_at == 111.2


def test_a_request_is_not_sent_after_its_start_has_lapsed() -> None:
    clock, starts = VirtualClock(100.0), SharedStarts()
    throttle = HostThrottle(clock, AddressResolver({"a.example": "127.0.0.1"}), 0.0, starts)
    assert asyncio.run(throttle.acquire("a.example", 0.0, 1.0, 0.5)) == 0.0
    clock.advance(until=100.4)
    assert throttle.may_send("http://a.example/")
    clock.advance(until=100.5)
    assert not throttle.may_send("http://a.example/")
    assert throttle.may_send("http://unknown.example/")
    assert starts.late == ["127.0.0.1"]


@pytest.mark.parametrize(("set_by_user", "wait_s"), [({}, 1.0), ({"slow.example": 20.0}, 20.0)])
def test_delay_that_a_host_asks_for_does_not_slow_its_address(set_by_user: dict[str, float], wait_s: float) -> None:
    clock = VirtualClock(100.0)
    throttle = HostThrottle(clock, AddressResolver({"*": "127.0.0.1"}))
    throttle.shared_delay_s, throttle.host_delays_s = 1.0, set_by_user
    assert asyncio.run(throttle.acquire("slow.example", 0.0, 20.0, 0.5)) == 0.0
    throttle.release("slow.example", 20.0)
    assert asyncio.run(throttle.acquire("other.example", 0.0, 1.0, 0.5)) == 100.0 + wait_s


def test_user_agent_is_honest(tmp_path: Path) -> None:
    agents: list[str] = []

    async def note(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        agents.extend(line.partition(": ")[2] for line in head.split("\r\n") if line.lower().startswith("user-agent"))
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        from opilio.engine.wiring.session import create_crawl as begin
        from opilio.topic.setup import resolve_settings as resolve

        async with await asyncio.start_server(note, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            tree = {
                "strategy": "breadth",
                "topic": {"name": "wrens"},
                "seeds": {"urls": [f"http://127.0.0.1:{port}/"]},
                "engine": {"workers": 0},
                "politeness": {"delay_s": 0.0, "contact": "https://example.org/crawler"},
                "fetch": {"allow_private": True},
            }
            async with begin(tmp_path / "c", resolve(tree)) as running:
                await running.engine.run()

    asyncio.run(main())
    assert agents == [f"Opilio/{__version__} (+https://example.org/crawler)"] * 2
