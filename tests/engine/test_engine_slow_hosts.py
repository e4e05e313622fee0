"""Hosts that do not respond keep no others waiting."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from checks.engines import html, plain_tree, run_engine
from checks.small_webs import BIRDS
from opilio.core.clock import VirtualClock
from opilio.core.events import HostBackedOff
from opilio.core.records import Failure, FetchResult, HostLease
from opilio.engine.in_flight import DomainWindows
from opilio.engine.visit import LeaseResult

CONNECTIONS, RESERVED = 16, 4
TIMEOUT_S, ANSWER_S = 30.0, 0.2
HONEST_HOSTS, HONEST_PAGES = 10, 20


class TrapOfSilentHosts:
    """A page links to very many hosts that never respond; ten honest hosts link to one page after another.

    `domains`: the number of domains of the silent hosts.
    """

    def __init__(self, clock: VirtualClock, domains: int) -> None:
        self._clock = clock
        self._domains = domains
        self.honest: list[float] = []  # the times of the answers

    async def fetch(self, url: str, _: Mapping[str, str] | None = None) -> FetchResult:
        host, _slash, path = url.removeprefix("http://").partition("/")
        if host.startswith("silent"):
            await self._clock.sleep(TIMEOUT_S)
            return FetchResult(url=url, failure=Failure("timeout", "30 s", retry=True))
        await self._clock.sleep(ANSWER_S)
        if host == "trap0.example":
            links = [f"http://silent{n}.trap{n % self._domains}.example/" for n in range(400)]
        else:
            self.honest.append(self._clock.now())
            links = [f"http://{host}/{int(path) + 1}"] if int(path) < HONEST_PAGES else []
        anchors = "".join(f'<a href="{link}">wrens</a> ' for link in links)
        return html(url, f"<p>{BIRDS} {url}</p>{anchors}")

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("domains", [1, 3])
def test_hosts_that_respond_are_visited_when_very_many_do_not(tmp_path: Path, domains: int) -> None:
    """The trap is read first, so that its hosts take all connections that they can get."""
    clock = VirtualClock(1_000_000.0)
    fetcher = TrapOfSilentHosts(clock, domains)
    seeds = ["http://trap0.example/", *(f"http://honest{n}.example/0" for n in range(HONEST_HOSTS))]
    limits = {"engine": {"connections": CONNECTIONS}, "stop": {"minutes": 0.5, "harvest_below": 0.0}}
    tree = plain_tree(seeds, frontier={"traps": False}, **limits)
    reason, events = run_engine(tmp_path / "c", tree, fetcher, clock=clock)
    assert reason.startswith("time is up")
    # Ten hosts on four connections at least; all connections would take HONEST_PAGES * ANSWER_S.
    assert len(fetcher.honest) == HONEST_HOSTS * (HONEST_PAGES + 1)
    assert max(fetcher.honest) < 1_000_000 + 5 * HONEST_PAGES * ANSWER_S
    reports = [event for event in events if isinstance(event, HostBackedOff) and "have not responded" in event.reason]
    assert 1 <= len(reports) <= 2 * domains


def lease(host: str) -> HostLease:
    return HostLease(host=host, token=1, expires_at=60.0, leads=(), delay_s=1.0)


def visited(host: str, *, quick: int = 0, slow: int = 0) -> LeaseResult:
    return LeaseResult(lease=lease(host), quick_responses=quick, slow_requests=slow)


def started(windows: DomainWindows, hosts: list[str], running: list[str]) -> list[str]:
    return [lease.host for lease in windows.split([lease(host) for host in hosts], running, CONNECTIONS, 0.0)[0]]


def test_all_connections_are_used_by_a_domain_that_responds() -> None:
    windows, hosts = DomainWindows(), [f"h{n}.wren.example" for n in range(CONNECTIONS)]
    assert len(started(windows, hosts, [])) == CONNECTIONS - RESERVED
    for host in hosts:
        windows.record(visited(host, quick=1))
    assert started(windows, ["new.wren.example"], hosts[:-1]) == ["new.wren.example"]


def test_last_connections_are_kept_when_a_domain_is_slow() -> None:
    windows = DomainWindows()
    windows.record(visited("a.slow.example", slow=2))
    hosts = [f"h{n}.slow.example" for n in range(CONNECTIONS)]
    assert len(started(windows, hosts, [])) == CONNECTIONS - RESERVED
    running = hosts[: CONNECTIONS - RESERVED]
    assert started(windows, ["x.slow.example", "quick.example"], running) == ["quick.example"]
    for _ in range(20):
        windows.record(visited("a.slow.example", quick=1))
    assert started(windows, ["x.slow.example"], running) == ["x.slow.example"]


def test_postponed_hosts_wait_longer_when_their_domain_is_slower() -> None:
    windows = DomainWindows()
    windows.record(visited("a.slow.example", slow=5))
    windows.record(visited("a.quick.example", quick=20))
    running = [f"h{n}.{domain}.example" for n in range(30) for domain in ("slow", "quick")]
    _, postponed = windows.split([lease("b.slow.example"), lease("b.quick.example")], running, CONNECTIONS, 100.0)
    assert [result.wake_at for result in postponed] == [160.0, 105.0]
    assert [bool(result.wait_reason) for result in postponed] == [True, True]
    _, again = windows.split([lease("c.slow.example")], running, CONNECTIONS, 100.0)
    assert again[0].wait_reason == ""


def test_hosts_of_one_address_are_one_domain() -> None:
    windows = DomainWindows()
    running = [f"192.0.2.1:{port}" for port in range(8000, 8012)]
    assert started(windows, ["192.0.2.1:9000", "192.0.2.2:9000"], running) == ["192.0.2.2:9000"]
    assert started(windows, ["[2001:db8::1]:9000"], ["[2001:db8::1]:1"] * 12) == []
