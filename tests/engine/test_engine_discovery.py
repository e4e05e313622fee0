"""Sitemaps and feeds in a first crawl, over real sockets."""

import gzip
from pathlib import Path

import pytest

from checks.small_webs import BIRDS, TRAINS, SmallWeb, crawl, page, robots, rows, served, settings_for, stored, word
from opilio.engine.discovered_urls import MAX_URLS_PER_HOST
from opilio.fetch.decoding import RecordedResponse

ROOT = "http://a.example/"
XML = ("Content-Type", "application/xml")
ATOM = '<link rel="alternate" type="application/atom+xml" href="/feed">'


def sitemap(*urls: str, root: str = "urlset", entry: str = "url") -> RecordedResponse:
    listed = "".join(f"<{entry}><loc>{url}</loc></{entry}>" for url in urls)
    return RecordedResponse(200, (XML,), f"<{root}>{listed}</{root}>".encode())


def feed(*urls: str) -> RecordedResponse:
    entries = "".join(f'<entry><link href="{url}"/></entry>' for url in urls)
    return RecordedResponse(200, (("Content-Type", "application/atom+xml"),), f"<feed>{entries}</feed>".encode())


def named(*paths: str) -> RecordedResponse:
    return robots("".join(f"Sitemap: {ROOT}{path}\n" for path in paths))


def found(folder: Path, web: dict[str, RecordedResponse], **more: object) -> set[str]:
    with served(SmallWeb(web)) as server:
        crawl(folder, settings_for(server, [ROOT], **more))
    return set(stored(folder))


def test_pages_of_sitemaps_index_files_compressed_ones_and_feeds_are_found(tmp_path: Path) -> None:
    packed = gzip.compress(sitemap(f"{ROOT}packed").body)
    web = {
        ROOT: page(BIRDS, head=ATOM),
        f"{ROOT}robots.txt": named("index.xml"),
        f"{ROOT}index.xml": sitemap(f"{ROOT}1.xml", f"{ROOT}2.xml.gz", root="sitemapindex", entry="sitemap"),
        f"{ROOT}1.xml": sitemap(f"{ROOT}listed", "http://b.example/not-its-own"),
        f"{ROOT}2.xml.gz": RecordedResponse(200, (("Content-Type", "application/x-gzip"),), packed),
        f"{ROOT}feed": feed(f"{ROOT}news"),
        **{f"{ROOT}{path}": page(f"{BIRDS} {word(n)}") for n, path in enumerate(("listed", "packed", "news"))},
    }
    assert found(tmp_path / "c", web) == {ROOT, f"{ROOT}listed", f"{ROOT}packed", f"{ROOT}news"}


def test_private_addresses_that_a_site_announces_are_not_requested(tmp_path: Path) -> None:
    private = ("http://127.0.0.1:9/x", "http://169.254.169.254/latest", "http://[::1]/x", "http://10.0.0.1/x.xml")
    web = {
        ROOT: page(BIRDS, head='<link rel="alternate" type="application/atom+xml" href="http://127.0.0.1:9/feed">'),
        f"{ROOT}robots.txt": robots("".join(f"Sitemap: {url}\n" for url in (*private, f"{ROOT}index.xml"))),
        f"{ROOT}index.xml": sitemap(*private, f"{ROOT}1.xml", root="sitemapindex", entry="sitemap"),
        f"{ROOT}1.xml": sitemap(*private, f"{ROOT}listed"),
        f"{ROOT}listed": page(f"{BIRDS} {word(1)}"),
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [ROOT]))
        assert {access.host for access in server.log} == {"a.example"}
    assert set(stored(tmp_path / "c")) == {ROOT, f"{ROOT}listed"}


def test_sitemap_is_guessed_only_when_the_crawl_is_limited_to_sites(tmp_path: Path) -> None:
    web = {ROOT: page(BIRDS), f"{ROOT}sitemap.xml": sitemap(f"{ROOT}x"), f"{ROOT}x": page(f"{BIRDS} {word(1)}")}
    web[f"{ROOT}robots.txt"] = robots("")
    assert found(tmp_path / "all", web) == {ROOT}
    assert found(tmp_path / "site", web, scope={"allow": ["a.example"]}) == {ROOT, f"{ROOT}x"}


@pytest.mark.parametrize("text", [TRAINS, BIRDS])
def test_sitemap_of_a_host_counts_when_it_has_a_relevant_page(tmp_path: Path, text: str) -> None:
    other = "http://b.example/"
    web = {
        ROOT: page(BIRDS, [other]),
        other: page(f"{text} {word(2)}"),
        f"{other}robots.txt": robots(f"Sitemap: {other}map.xml\n"),
        f"{other}map.xml": sitemap(f"{other}x"),
        f"{other}x": page(f"{BIRDS} {word(1)}"),
    }
    assert (f"{other}x" in found(tmp_path / "c", web)) is (text == BIRDS)


def test_large_sitemap_is_bounded_and_urls_on_the_topic_come_first(tmp_path: Path) -> None:
    urls = [*(f"{ROOT}p{n}" for n in range(MAX_URLS_PER_HOST + 500)), f"{ROOT}wrens"]
    web = {ROOT: page(BIRDS), f"{ROOT}robots.txt": named("map.xml"), f"{ROOT}map.xml": sitemap(*urls)}
    found(tmp_path / "c", web, stop={"fetches": 5})
    depth = rows(tmp_path / "c", "SELECT count(*) FROM frontier_url WHERE depth = 2")
    assert depth == [(MAX_URLS_PER_HOST,)]
    assert rows(tmp_path / "c", "SELECT count(*) FROM frontier_url WHERE url = ?", f"{ROOT}wrens") == [(1,)]
