"""robots.txt of strangers: the same answers as another matcher, in bounded time and memory."""

import asyncio
import threading
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from opilio.core.clock import VirtualClock
from opilio.core.records import FetchResult
from opilio.core.settings import PolitenessSettings
from opilio.engine.politeness.host_gate import HostGate, HostThrottle
from opilio.engine.politeness.host_signals import Headers
from opilio.engine.politeness.robots import (
    MAX_PARSED_BYTES,
    MAX_QUICK_WILDCARDS,
    RobotsRules,
    _matching_groups,
    rules_from_response,
)
from opilio.engine.politeness.rule_matching import RuleMatcher, crawl_delay_s
from opilio.testing.stages import MemoryFetcher

URL = "http://a.example"
PIECES = ["/", "a", "b", "*", "$", "?", "=", "%2f", "%7e", "~", "é", "%C3%A9", "%2a", "%24", "index.html", "&", "%"]
PATHS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)
LINES = st.one_of(
    st.sampled_from(["User-agent: *", "User-agent: opilio", "User-agent: op", "Crawl-delay: 2", "Crawl-delay: x"]),
    st.builds("{}: /{}".format, st.sampled_from(["Allow", "Disallow"]), PATHS),
)


def rules(body: bytes | str) -> RobotsRules:
    data = body.encode() if isinstance(body, str) else body
    return rules_from_response(FetchResult(url=f"{URL}/robots.txt", status=200, body=data), "opilio", 0.0)


@given(st.lists(LINES, max_size=10), st.lists(PATHS, max_size=4))
def test_rules_decide_like_those_of_protego(lines: list[str], paths: list[str]) -> None:
    text, _ = _matching_groups("\n".join(lines), "opilio")
    other, matcher = Protego.parse(text), RuleMatcher(text, "opilio")
    for path in paths:
        assert matcher.allows(f"{URL}/{path}") == bool(other.can_fetch(f"{URL}/{path}", "opilio"))
    delay = other.crawl_delay("opilio")
    assert crawl_delay_s(text, "opilio") == ((other.crawl_delay("*") if delay is None else delay) or 0.0)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2, b"\xef\xbb", b"\xef", b"\xbb\xbf"])
def test_byte_order_mark_does_not_hide_the_first_group(mark: bytes) -> None:
    assert not rules(mark + b"User-agent: *\nDisallow: /").allows(f"{URL}/a")


def test_line_that_is_cut_does_not_count() -> None:
    head = b"User-agent: *\nDisallow: /\n"
    last = b"\nAllow: /only/this"
    filler = b"#" * (MAX_PARSED_BYTES - len(head) - len(b"\nAllow: /"))
    assert len(head + filler + last) > MAX_PARSED_BYTES
    assert not rules(head + filler + last).allows(f"{URL}/a")


HOSTILE = {
    "prefixes": "\n".join(f"Disallow: /{number:x}/{number}" for number in range(40_000)),
    "wildcards": "\n".join(f"Disallow: /*{number:x}*a*b*c$" for number in range(30_000)),
    "stars": "Disallow: /" + "*a" * 200_000,
    "lengths": "\n".join("Disallow: /" + "a" * length for length in range(900)),
    "signals": "\n".join(["Content-Signal: search=yes"] * 18_000),
    "paths of signals": "\n".join("Content-Usage: /" + "*a/" * 600 + "z train-ai=n" for _ in range(250)),
}
SITEMAPS = "\n".join(f"Sitemap: {URL}/{number}{'x' * 480}" for number in range(1_000))


@pytest.mark.slow
@pytest.mark.parametrize("case", [*HOSTILE, "sitemaps"])
def test_memory_for_hostile_rules_is_bounded(case: str) -> None:
    body = ("User-agent: *\n" + HOSTILE.get(case, SITEMAPS)).encode()
    tracemalloc.start()
    try:
        compiled = rules(body)
        compiled.check(f"{URL}/x")
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used <= compiled.cost_bytes + 20_000


@pytest.mark.parametrize("case", HOSTILE)
def test_matching_hostile_rules_costs_no_more_than_a_thousand_searches(case: str) -> None:
    compiled = rules("User-agent: *\n" + HOSTILE[case])
    url = f"{URL}/" + "ab" * 950
    compiled.check(url)

    def seconds(run: object, times: int) -> float:
        started = time.process_time()
        for _ in range(times):
            run()  # type: ignore[operator]
        return time.process_time() - started

    search = min(seconds(lambda: [url.find("abc") for _ in range(1000)], 3) for _ in range(3))
    assert min(seconds(lambda: compiled.check(url), 3) for _ in range(3)) < 10 * search


@pytest.mark.parametrize("wildcards", [0, MAX_QUICK_WILDCARDS + 1])
def test_url_is_compared_with_many_wildcards_outside_the_event_loop(
    wildcards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "User-agent: *\nDisallow: /private\n" + "".join(f"Disallow: /*{n}b\n" for n in range(wildcards))
    answer = FetchResult(url=f"{URL}/robots.txt", status=200, body=body.encode())
    clock, threads, check = VirtualClock(), list[bool](), RobotsRules.check

    def noted(self: RobotsRules, url: str) -> tuple[bool, Headers]:
        threads.append(threading.current_thread() is threading.main_thread())
        return check(self, url)

    monkeypatch.setattr(RobotsRules, "check", noted)
    nothing: dict[str, bytes] = {}
    fetcher = MemoryFetcher({answer.url: answer})
    gate = HostGate(PolitenessSettings(delay_s=0.0), fetcher, clock, HostThrottle(clock), nothing.get, lambda *_: None)
    permits = [asyncio.run(gate.acquire(f"{URL}/{path}", 0.0)) for path in ("private", "open")]
    assert [bool(permit.refusal) for permit in permits] == [True, False]
    assert threads == [wildcards == 0] * 2


def test_wildcards_beyond_the_limit_forbid_more_not_less() -> None:
    many = "\n".join(f"Disallow: /private{number}/*.html" for number in range(5_000))
    compiled = rules(f"User-agent: *\n{many}\nAllow: /*a")
    assert not compiled.allows(f"{URL}/private4999/a.txt")
    assert not compiled.allows(f"{URL}/private1/a.html")
    assert compiled.allows(f"{URL}/private1/b.txt")
    assert compiled.allows(f"{URL}/open")
