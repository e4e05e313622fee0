"""Sitemaps and feeds: one parser for seeds and revisits."""

import pytest

from checks.growth import TOO_STEEP, growth
from opilio.core.records import FetchResult
from opilio.parse.sitemaps import parse_sitemap, sitemap_entries
from opilio.seeds.url_lists import parse_sitemap_urls

PREFIXED = (
    '<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9">'
    "<s:url><s:loc>/wren</s:loc><s:lastmod>1970-01-02</s:lastmod></s:url></s:urlset>"
)


def test_sitemap_with_namespace_prefixes_is_read_for_seeds_and_revisits() -> None:
    fetched = FetchResult(url="http://a.example/", body=PREFIXED.encode(), headers=(("Content-Type", "text/xml"),))
    (entry,) = parse_sitemap(fetched)
    assert (entry.url, entry.modified_at, entry.is_sitemap) == ("http://a.example/wren", 86400.0, False)
    assert parse_sitemap_urls(PREFIXED, "http://a.example/").pages == ["http://a.example/wren"]


def test_index_of_sitemaps_lists_sitemaps_and_cdata_is_text() -> None:
    xml = "<sitemapindex><sitemap><loc><![CDATA[/a.xml?x=1&y=2]]></loc></sitemap></sitemapindex>"
    found = parse_sitemap_urls(xml, "http://a.example/")
    assert (list(found.pages), found.sitemaps) == ([], ["http://a.example/a.xml?x=1&y=2"])


def test_characters_of_urls_are_bounded() -> None:
    entries = "".join(f"<url><loc>/{'x' * 1_900}{number}</loc></url>" for number in range(1_000))
    body = f"<urlset>{entries}</urlset>".encode()
    found = parse_sitemap(FetchResult(url="http://a.example/", body=body, headers=(("Content-Type", "text/xml"),)))
    assert 900_000 < sum(len(entry.url) for entry in found) <= 1_000_000


@pytest.mark.parametrize(
    ("entry", "url"),
    [
        # The links of a blog's entry, in the order in which a large service writes them.
        (
            '<entry><link rel="edit" href="/e"/><link rel="self" href="/s"/><link rel="alternate" href="/w"/></entry>',
            "http://a.example/w",
        ),
        ('<entry><link rel="self" href="/s"/><link href="/wren"/></entry>', "http://a.example/wren"),
        ('<entry><link rel="enclosure" href="/wren.mp3"/><link rel="self" href="/s"/></entry>', "http://a.example/s"),
        ('<item><guid isPermaLink="true">http://a.example/wren</guid></item>', "http://a.example/wren"),
        ("<item><guid><![CDATA[http://a.example/wren]]></guid></item>", "http://a.example/wren"),
        ("<item><guid>http://a.example/?p=1</guid><link>/wren</link></item>", "http://a.example/wren"),
        ('<item><guid isPermaLink="false">http://a.example/?p=1</guid></item>', None),
        ("<item><guid>tag:a.example,2026:1</guid></item>", None),
    ],
)
def test_entry_of_a_feed_is_its_page(entry: str, url: str | None) -> None:
    found = [listed.url for listed in sitemap_entries(f"<feed>{entry}</feed>", "http://a.example/")]
    assert found == [url] * (url is not None)


def test_number_of_very_many_digits_loses_no_sitemap() -> None:
    xml = f"<urlset><url><loc>/a&#{'9' * 5_000};</loc></url><url><loc>/b</loc></url></urlset>"
    assert [entry.url[-2:] for entry in sitemap_entries(xml, "http://a.example/")] == ["BD", "/b"]


@pytest.mark.parametrize(
    "piece",
    ["<url><loc>", "<url>", "<loc>", "<link>", "<link></", "<![CDATA[", "<a:url>", "<lastmod>", "<url</url", "<guid>"],
)
def test_unclosed_elements_take_linear_time(piece: str) -> None:
    """A sitemap of 100 KB took 9 s, and four times as much per doubling."""

    def xml(length: int) -> str:
        count = length // len(piece)
        return f"<urlset><url>{piece * count}</url>{piece * count}"

    assert growth(lambda text: list(sitemap_entries(text, "http://a.example/")), xml, 100_000) < TOO_STEEP
