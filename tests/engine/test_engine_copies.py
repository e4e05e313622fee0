"""Copies whose links differ from those of their original: galleries are followed, mirrors and endless chains not."""

from pathlib import Path

import pytest

from checks.engines import PageFetcher, html, plain_tree, run_engine
from checks.small_webs import BIRDS, HTML, SmallWeb, crawl, page, rows, served, settings_for, stored, word
from opilio.core.records import FetchResult
from opilio.engine.discovered_urls import MAX_COPIES_FOLLOWED, MIN_MIRROR_PAGES
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.pages import PageTable
from opilio.manage.why import why
from opilio.store.page_selection import PageFilter

ROOT = "http://a.example/"
COPIES = "SELECT count(*) FROM page WHERE duplicate_of <> 0"


def gallery(pages: int, caption: str = "photo") -> SmallWeb:
    """Listing pages with five pictures each and equal words; every picture has a page of its own."""
    answers = {}
    for n in range(pages):
        items = "".join(f'<a href="/item/{5 * n + k}">{caption}</a>' for k in range(5))
        following = f'<a rel="next" href="/gallery/{n + 1}">next</a>' if n + 1 < pages else ""
        listing = page(BIRDS, title=f"Gallery, page {n}")
        answers[f"{ROOT}gallery/{n}"] = RecordedResponse(200, (HTML,), listing.body + (items + following).encode())
    return SmallWeb(answers | {f"{ROOT}item/{n}": page(f"{BIRDS} {word(n)}") for n in range(5 * pages)})


@pytest.mark.parametrize("caption", ["photo", '<img src="x.png" alt="photo">'])
def test_every_item_of_a_gallery_is_found_when_its_pages_have_equal_words(tmp_path: Path, caption: str) -> None:
    with served(gallery(5, caption)) as server:
        crawl(tmp_path / "c", settings_for(server, [f"{ROOT}gallery/0"]))
    assert {url for url in stored(tmp_path / "c") if "/item/" in url} == {f"{ROOT}item/{n}" for n in range(25)}


def test_listing_pages_that_differ_in_a_digit_are_no_copies(tmp_path: Path) -> None:
    web = {f"{ROOT}{n}": page(f"{BIRDS} Page {n} of 5", [f"/{n + 1}"] if n < 4 else []) for n in range(5)}
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [f"{ROOT}0"]))
    assert rows(tmp_path / "c", COPIES) == [(0,)]


def test_links_of_a_mirror_are_not_followed(tmp_path: Path) -> None:
    """The same site on another host, in another folder, and with links to the original."""
    first = {f"{ROOT}{n}": html(f"{ROOT}{n}", f"{BIRDS} {word(n)} <a href='{n + 1}'>next</a>") for n in range(20)}
    answers: dict[str, FetchResult] = dict(first)
    for base in ("http://b.example/", f"{ROOT}old/"):
        answers |= {
            base + url.removeprefix(ROOT): html(base + url.removeprefix(ROOT), found.body.decode())
            for url, found in first.items()
        }
    seeds = [f"{ROOT}0", "http://b.example/0", f"{ROOT}old/0"]
    fetcher = PageFetcher(answers)
    run_engine(tmp_path / "c", plain_tree(seeds), fetcher)
    # One site is followed to its end, whichever was fetched first; that the other host is a mirror must show first.
    assert len(fetcher.asked) <= len(first) + 1 + 1 + MIN_MIRROR_PAGES


def test_copy_of_a_page_on_another_host_does_not_keep_the_crawl_from_the_site(tmp_path: Path) -> None:
    good, evil = "http://good.example/", "http://evil.example/"
    home = BIRDS + "".join(f"<a href='/{n}'>bird</a>" for n in range(12))
    answers = {url: html(url, home) for url in (evil, good)}
    answers |= {f"{good}{n}": html(f"{good}{n}", f"{BIRDS} {word(n)}") for n in range(12)}
    run_engine(tmp_path / "c", plain_tree([evil, good]), PageFetcher(answers))
    assert rows(tmp_path / "c", COPIES) == [(1,)]
    assert {f"{good}{n}" for n in range(12)} <= set(stored(tmp_path / "c"))


def test_endless_chain_of_copies_ends(tmp_path: Path) -> None:
    length = MAX_COPIES_FOLLOWED + 20
    urls = [f"{ROOT}{word(n)}" for n in range(length)]
    answers = {
        url: html(url, f"{BIRDS} <a href='{following}'>next</a>")
        for url, following in zip(urls, [*urls[1:], ROOT], strict=True)
    }
    fetcher = PageFetcher(answers)
    run_engine(tmp_path / "c", plain_tree(urls[:1], stop={"pages": 0}), fetcher)
    assert len(fetcher.asked) == MAX_COPIES_FOLLOWED + 2


def test_pages_with_one_canonical_url_are_one_page(tmp_path: Path) -> None:
    root = "http://c.example/"
    head = f'<link rel="canonical" href="{root}wren">'
    wrong = f'<link rel="canonical" href="{root}">'
    web = {
        root: page(f"{BIRDS} {word(1)}", ["/wren?print=1", "/wren", "/wren?ref=abc", "/owl"], title="Birds"),
        f"{root}wren": page(f"{BIRDS} {word(2)} {word(3)}", title="Wren", head=head),
        f"{root}wren?print=1": page(f"{BIRDS} {word(2)} {word(3)} {word(4)}", title="Wren", head=head),
        f"{root}wren?ref=abc": page(f"{BIRDS} {word(2)} {word(3)} {word(5)}", title="Wren", head=head),
        f"{root}owl": page(f"{BIRDS} {word(6)}", title="Owl", head=wrong),
    }
    with served(SmallWeb(web)) as server:
        crawl(tmp_path / "c", settings_for(server, [root]))
    pages = {p.url: p for p in PageTable(tmp_path / "c", PageFilter())}
    (wren,) = (url for url in pages if "wren" in url)
    assert set(pages) == {root, f"{root}owl", wren}
    assert pages[wren].values["canonical"] == f"{root}wren"
    assert {wren, *pages[wren].values["aliases"].split()} == {url for url in web if "wren" in url}
    found = why(tmp_path / "c", wren).page
    assert found is not None
    assert {wren, *found.aliases} == {url for url in web if "wren" in url}
