"""Hostile pages through the whole engine: each bounded, recorded, and the crawl continues."""

import asyncio
import gzip
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from checks.engines import PageFetcher, plain_tree, run_engine, states
from checks.hostile_site import Behaviour, answer, endless, raw, silent, site
from checks.small_webs import PATIENCE_S, rows, stored
from opilio.core.errors import ConfigError
from opilio.core.records import FetchResult, Seed
from opilio.engine.reseeding import is_allowed_seed
from opilio.engine.wiring.session import create_crawl, resume_crawl
from opilio.engine.wiring.settings import canonicalize_seeds
from opilio.fetch.curl import CurlFetcher
from opilio.fetch.http import FetchLimits, NetworkOptions
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.store.collection import collection_exists
from opilio.topic.setup import resolve_settings

pytestmark = pytest.mark.slow

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
DONE, FAILED = 2, 3
PAGES: dict[str, tuple[Behaviour, str]] = {
    "endless": (endless(HEAD + b"\r\n", b"wren " * 2000), ""),
    "slow": (silent(HEAD + b"\r\n<p>wr"), "timeout"),
    "mute": (silent(), "timeout"),
    "bomb": (answer(gzip.compress(bytes(30 << 20)), content_encoding="gzip"), "bomb"),
    "headers": (endless(HEAD, b"X-A: b\r\n"), "headers"),
    "garbage": (raw(b"\x00\xff\r\n\r\n"), "protocol"),
    "cut": (raw(HEAD + b"Content-Length: 99\r\n\r\n<p>w"), "truncated"),
    "loop": (answer(b"", "302 Found", location="/loop"), "redirect-loop"),
    "attributes": (answer(b"<p " + b" ".join(b"a%d=b" % n for n in range(100_000)) + b">wren</p>"), ""),
    "nested": (answer(b"<div>" * 50_000 + b"deep wren"), ""),
    "nul": (answer(b"<title>\x00w\x00ren</title><p>wren\x00 <a href='/a\x00b'>x\x00</a>"), ""),
    "charset": (
        answer(b"<meta charset=utf-16><p>\xff\xfe wren \xc3\x28", content_type="text/html; charset=nonsense"),
        "",
    ),
    "binary": (answer(bytes(range(256)) * 200), ""),
    "empty": (answer(b""), ""),
    "links": (answer(b"".join(b"<a href='/l/%d'>wren</a>" % n for n in range(30_000))), ""),
    "last": (answer(b"<title>good</title><p>a small wren</p>"), ""),
}


@pytest.fixture(scope="module", params=[0, 1], ids=["inline", "worker"])
def crawled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A crawl of all of them, each on a host of its own; then one of those that never end, which costs their time."""
    folder = tmp_path_factory.mktemp("hostile") / "c"

    async def main(names: Iterable[str], timeout_s: float) -> str:
        behaviours = {f"/{name}": behave for name, (behave, _) in PAGES.items()}
        async with site(behaviours) as served:
            tree = {
                "strategy": "breadth",
                "topic": {"name": "wrens and other small birds"},
                "seeds": {"urls": [f"http://{name}.example/{name}" for name in names]},
                "politeness": {"delay_s": 0.0, "share_address": False},
                "fetch": {
                    "allow_private": True,
                    "resolve": {"*": f"127.0.0.1:{served.port}"},
                    "timeout_s": timeout_s,
                    "max_bytes": 1_500_000,
                    "retries": 0,
                },
                "engine": {"workers": request.param},
                "stop": {"patience_s": 15.0},
                "frontier": {"max_depth": 1, "max_per_host": 50},
            }
            async with (
                resume_crawl(folder, tree)
                if collection_exists(folder)
                else create_crawl(folder, resolve_settings(tree)) as running
            ):
                return await asyncio.wait_for(running.engine.run(), PATIENCE_S)

    for never_end, timeout_s in ((False, PATIENCE_S), (True, 4.0)):
        names = [name for name, (_, kind) in PAGES.items() if (kind == "timeout") is never_end]
        assert asyncio.run(main(names, timeout_s)) == "nothing left to fetch"
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_page_is_bounded_and_recorded_when_it_is(crawled: Path, name: str) -> None:
    kind = PAGES[name][1]
    url = f"http://{name}.example/{name}"
    facts = why(crawled, url)
    (asked,) = facts.answers
    assert asked.failure == kind or (kind == "" and asked.failure in ("", "empty", "parse", "binary")), facts
    assert facts.state in (("failed",) if kind else ("done", "failed", "dropped"))
    assert (facts.page is not None) == (asked.failure == "")


def test_good_page_is_kept_and_everything_agrees_when_others_are_hostile(crawled: Path) -> None:
    assert "http://last.example/last" in stored(crawled)
    assert verify(crawled) == []
    assert rows(crawled, "SELECT count(*) FROM event WHERE kind = 'VisitFailed'") == [(0,)]


def test_links_are_bounded_when_a_page_has_too_many(crawled: Path) -> None:
    (found,) = rows(crawled, "SELECT total FROM frontier_host WHERE name = 'links.example'")
    assert found[0] == 50


class Outside:
    """Public hosts from a table; everything else by the real fetcher, which guards our own network."""

    def __init__(self, public: Mapping[str, FetchResult], proxy: str = "") -> None:
        self._public = public
        self._real = CurlFetcher("test", limits=FetchLimits(total_s=5), network=NetworkOptions(proxy=proxy))

    async def fetch(self, url: str, _: Mapping[str, str] | None = None) -> FetchResult:
        return self._public[url] if url in self._public else await self._real.fetch(url)

    async def close(self) -> None:
        await self._real.close()


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:9/admin", "http://[::1]/x", "http://169.254.169.254/x", "http://10.0.0.1/x"]
)
@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:1"])
def test_redirect_is_refused_when_it_leads_to_a_private_address(tmp_path: Path, target: str, proxy: str) -> None:
    public = "http://public.example/"
    fetcher = Outside({public: FetchResult(url=public, status=302, location=target)}, proxy)
    run_engine(tmp_path / "c", plain_tree([public]), fetcher)
    facts = why(tmp_path / "c", target)
    assert (facts.state, facts.answers[0].failure) == ("failed", "private-address")


@pytest.mark.parametrize("proxy", ["", "http://127.0.0.1:1"])
@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://[::ffff:a00:1]/", "http://localhost./"])
def test_private_seed_is_refused_unless_it_is_allowed(url: str, proxy: str) -> None:
    """One of the user's is an error; one that an engine found is dropped."""
    settings = resolve_settings({"topic": {"name": "wrens"}, "seeds": {"urls": [url]}, "fetch": {"proxy": proxy}})
    with pytest.raises(ConfigError, match="allow it with --allow-private"):
        canonicalize_seeds(settings)
    assert not is_allowed_seed(settings, Seed(url=url))
    settings.fetch.allow_private = True
    assert len(canonicalize_seeds(settings).seeds.urls) == 1
    assert is_allowed_seed(settings, Seed(url=url))


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("http://10.0.0.1/x", "private-address: needs --allow-private (cloud metadata is always refused)"),
        ("http://169.254.169.254/x", "private-address: cloud metadata is never requested"),
        ("http://[fd00:ec2::254]/x", "private-address: cloud metadata is never requested"),
    ],
)
def test_link_is_dropped_when_the_rules_of_its_host_are_at_a_private_address(
    tmp_path: Path, target: str, reason: str
) -> None:
    """With robots.txt on, the guard meets that file first: the URL must not wait for ever."""
    public = "http://public.example/"
    answers = {
        public: FetchResult(url=public, status=302, location=target),
        f"{public}robots.txt": FetchResult(url=f"{public}robots.txt", status=404),
    }
    tree = plain_tree([public])
    tree["politeness"] = {**tree["politeness"], "robots": True}
    stopped, _ = run_engine(tmp_path / "c", tree, Outside(answers))
    assert stopped == "nothing left to fetch"
    facts = why(tmp_path / "c", target)
    assert (facts.state, facts.reason) == ("dropped", reason)


def test_bodies_are_read_in_bounded_time_when_they_repeat_one_thing(tmp_path: Path) -> None:
    """Things that make naive parsers quadratic."""
    root = "http://a.example/"
    bodies = [
        b"<" * 300_000,
        b"<a " * 100_000,
        b"&" * 300_000,
        b"<!--" * 70_000,
        b"<p><table>" * 20_000,
        b"</p>" * 100_000,
    ]
    answers = {
        f"{root}{n}": FetchResult(url=f"{root}{n}", status=200, headers=(("Content-Type", "text/html"),), body=body)
        for n, body in enumerate(bodies)
    }
    reason, _ = run_engine(tmp_path / "c", plain_tree(list(answers)), PageFetcher(answers))
    assert reason == "nothing left to fetch"
    assert all(state in (DONE, FAILED) for state, _ in states(tmp_path / "c").values())
