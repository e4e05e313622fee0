"""Every feature of docs/live-web.md on one site, crawled with the real fetcher and with Chromium."""

import asyncio
import re
from pathlib import Path

import pytest

from checks.hostile_site import Request, answer, site
from checks.live_site import FEATURES, MAX_BYTES, ROOT, link, needs_chromium, rules, text_of
from checks.small_webs import PATIENCE_S, opilio, rows
from opilio.core.settings import Tree
from opilio.core.urls import host_of
from opilio.engine.wiring.session import create_crawl
from opilio.manage.pages import PageTable
from opilio.manage.status import collection_status
from opilio.parse.signals import PageSignals
from opilio.store.page_selection import PageFilter
from opilio.topic.setup import resolve_settings

DOCS = Path(__file__).parents[2] / "docs" / "live-web.md"
# Rows that need another server or a crawl of their own, and the tests that have them.
ELSEWHERE = {
    "`/sitemap.xml` that robots.txt does not name": "engine/test_engine_discovery.py",
    "HTTP/2, TLS, IPv6, IDN": "fetch/test_fetch_guard.py",
    "decompression bombs": "fetch/test_fetch_hostile.py",
    "pages with more than 200,000 tags": "engine/test_engine_documents.py",
    "DNS errors, refused connections, bad certificates": "cli/test_cli_bad_input.py",
}
STATES = {0: "queued", 1: "queued", 2: "done", 3: "failed", 4: "dropped"}


def run_crawl(folder: Path, seed: str, **more: Tree) -> list[Request]:
    """Crawl the site; returns the requests that it got."""
    behaviours = {path: behave for feature in FEATURES.values() for path, behave in feature.answers.items()}
    linked = [path for f in FEATURES.values() for path in (f.answers if f.linked is None else f.linked)]
    named = [*linked, *(url for f in FEATURES.values() for url in f.fates)]
    hosts = {host_of(url) for url in (ROOT, *named) if url.startswith("http")} - {"169.254.169.254"}
    start = text_of("/") + "".join(map(link, linked))

    async def main() -> list[Request]:
        async with site({**behaviours, "/": answer(start.encode()), "/robots.txt": rules}) as served:
            tree: Tree = {
                "strategy": "breadth",
                "topic": {"name": "wrens and other small birds"},
                "seeds": {"urls": [f"{ROOT}{seed}"]},
                "politeness": {"delay_s": 0.0},
                "fetch": {
                    "allow_private": True,
                    "resolve": dict.fromkeys(hosts, f"127.0.0.1:{served.port}"),
                    "retries": 0,
                }
                | {"max_bytes": MAX_BYTES},
                "engine": {"workers": 0},
                "scope": {"deny": ["/denied/*"]},
                "stop": {"patience_s": 0.5},
                **more,
            }
            async with create_crawl(folder, resolve_settings(tree)) as running:
                await asyncio.wait_for(running.engine.run(), PATIENCE_S)
            return served.requests

    return asyncio.run(main())


def fate(folder: Path, url: str) -> str:
    """What became of a URL, with what is recorded of a page."""
    columns = "duplicate_of, noindex, truncated, signals, title"
    found = rows(folder, f"SELECT {columns} FROM page WHERE url = ?", url)
    if not found:
        known = rows(folder, "SELECT state, reason FROM frontier_url WHERE url = ?", url)
        return (known[0][1] or STATES[known[0][0]]) if known else "unknown"
    duplicate_of, noindex, truncated, stated, title = found[0]
    if duplicate_of:
        return "alias"
    words = ["page", *(["noindex"] if noindex else []), *([f"truncated:{truncated}"] if truncated else [])]
    signals = PageSignals.decode(stated)
    words += [f"robots:{','.join(signals.robots)}"] if signals.robots else []
    words += [f"licence:{signals.licence}"] if signals.licence else []
    words += [name for name in ("tdm_reserved", "content_signal", "content_usage") if getattr(signals, name)]
    return " ".join([*words, title] if (title and not title.isascii()) or title == "V\u00f6gel" else words)


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Request]]:
    folder = tmp_path_factory.mktemp("live") / "c"
    return folder, run_crawl(folder, "/")


@pytest.mark.parametrize("name", FEATURES)
def test_feature_is_handled_as_documented(crawled: tuple[Path, list[Request]], name: str) -> None:
    for url, expected in FEATURES[name].fates.items():
        found = fate(crawled[0], url if url.startswith("http") else f"{ROOT}{url}")
        # Of a reason, the beginning names what happened; the rest is detail for the user.
        assert (found if found.startswith("page") else found[: len(expected)]) == expected, url


def test_every_row_of_the_table_has_a_test() -> None:
    tables = DOCS.read_text().split("## Documents")[0]
    documented = {row for row in re.findall(r"^\| ([^|]+) \|", tables, re.MULTILINE) if row not in ("feature", "---")}
    assert documented == {*FEATURES, *ELSEWHERE}
    assert all((Path(__file__).parents[1] / name).is_file() for name in ELSEWHERE.values())


def test_requests_name_the_crawler_and_ask_for_the_language(crawled: tuple[Path, list[Request]]) -> None:
    requests = crawled[1]
    assert {r.headers["accept-language"] for r in requests} == {"en, *;q=0.5"}
    assert all(r.headers["user-agent"].lower().startswith("opilio/") and r.raw.startswith(b"GET ") for r in requests)


def test_exported_text_has_no_cookie_banner(crawled: tuple[Path, list[Request]]) -> None:
    texts = {page.url: page.text for page in PageTable(crawled[0], PageFilter())}
    assert "wren" in texts[f"{ROOT}/banner"] and "biscuits" not in texts[f"{ROOT}/banner"]
    assert f"{ROOT}/noindex" not in texts


def test_walls_and_empty_pages_are_reported_with_advice(crawled: tuple[Path, list[Request]]) -> None:
    status = collection_status(crawled[0])
    walls = {wall.kind: (wall.urls, wall.hosts) for wall in status.walls or ()}
    assert walls == {
        "challenge": (6, ["a.example", "cf.example"]),
        "login": (1, ["a.example"]),
        "consent": (1, ["a.example"]),
    }
    assert status.needs_browser == 1
    shown = opilio("status", crawled[0]).stdout
    assert "bot challenge instead of 6 pages (a.example, cf.example): ask the owner" in shown
    assert "1 page with next to no text without JavaScript: crawl with --browser" in shown


def test_browser_finds_what_scripts_make_and_sends_only_get(tmp_path: Path) -> None:
    needs_chromium()
    requests = run_crawl(tmp_path / "c", "/app", browser={"on": True, "timeout_s": 120.0})
    assert {fate(tmp_path / "c", f"{ROOT}{path}") for path in ("/app", "/made")} == {"page"}
    assert rows(tmp_path / "c", "SELECT rendered FROM page WHERE url = ?", f"{ROOT}/app") == [(1,)]
    assert collection_status(tmp_path / "c").needs_browser == 0
    assert not [r for r in requests if r.target == "/api/order" or not r.raw.startswith(b"GET ")]
