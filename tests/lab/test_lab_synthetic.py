"""Synthetic webs: the same bytes from the same seed, and the truth they promise."""

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from opilio.core.errors import OfflineWebError
from opilio.core.records import FetchResult
from opilio.core.urls import canonicalize_url
from opilio.lab.synthetic.plan import ARTICLE, REDIRECT, WebShape
from opilio.lab.synthetic.plan_builder import make_plan
from opilio.lab.synthetic.web import SyntheticWeb, topic_tables, trap_links, write_synthetic_web
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import WebLinkGraph
from opilio.lab.webs.topics import load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.parse.html import HtmlParser
from opilio.text.reading import PageReader
from opilio.text.vocabulary import Vocabulary
from opilio.topic.genre import GenreDetector, default_genres

SMALL = WebShape(
    pages=150, hosts=6, topics=2, trap_pages=8, seed_sets=2, mirrors=0.05, near_mirrors=0.05, redirects=0.05
)


def test_synthetic_web_is_the_same_when_written_twice(small_folder: Path, tmp_path: Path) -> None:
    again = write_synthetic_web(SMALL, tmp_path / "again")
    for name in ("web.warc.gz", "labels.tsv", "topics.toml", "hosts.toml"):
        assert (again / name).read_bytes() == (small_folder / name).read_bytes()


def test_synthetic_web_differs_when_the_seed_does() -> None:
    urls = [SyntheticWeb(WebShape(pages=100, hosts=4, topics=1, seed=s)).plan.url(20) for s in (1, 2)]
    assert urls[0] != urls[1]


def test_synthetic_addresses_are_canonical(small_web: WarcWeb) -> None:
    web = SyntheticWeb(SMALL)
    assert all(canonicalize_url(url) == url for url, _ in web.urls_with_labels())
    assert not small_web.problems


def test_written_and_served_pages_are_the_same(small_web: WarcWeb) -> None:
    served = SyntheticWeb(SMALL)
    for url in small_web.urls[::17]:
        assert served.find(url) == small_web.find(url)


def test_every_relevant_page_is_reached_from_every_seed_set(small_folder: Path, small_web: WarcWeb) -> None:
    topics, problems = load_topics(small_folder)
    labels = load_labels(small_web)
    assert not problems
    for topic in topics:
        assert {s.reaches for s in topic.seed_sets} == {int(labels.relevant(topic).sum())}


def test_tunnels_are_the_only_way_into_a_hidden_part() -> None:
    plan = make_plan(SMALL)
    tunnels = {n for n, p in enumerate(plan.pages) if p.kind == "tunnel"}
    rows = [[] if n in tunnels else plan.targets(n) for n in range(len(plan.pages))]
    depths = WebLinkGraph.from_rows(rows).depths([plan.hosts[0].home])
    hidden = [n for n, p in enumerate(plan.pages) if p.kind == ARTICLE and p.community > 0]
    assert hidden
    assert (depths[np.array(hidden)] < 0).all()


def test_locality_shows_in_the_links_when_it_is_high() -> None:
    plan = make_plan(SMALL)
    same = [plan.pages[n].subject == plan.pages[t].subject for n in plan.articles(0) for t in plan.pages[n].links]
    assert 0.6 < sum(same) / len(same) < 0.95


def test_redirects_lead_to_their_page_and_mirrors_repeat_it() -> None:
    web = SyntheticWeb(SMALL)
    for number, page in enumerate(web.plan.pages):
        answer = web.find(web.plan.url(number))
        assert answer is not None
        if page.kind == REDIRECT:
            assert (answer.status, answer.header("location")) == (301, web.plan.url(page.original))
        if page.kind == "mirror":
            assert answer == web.find(web.plan.url(page.original))


def test_dead_links_find_nothing() -> None:
    web = SyntheticWeb(SMALL)
    dead = [url for page in web.plan.pages for url in page.dead]
    assert dead
    assert all(web.find(url) is None for url in dead)


@pytest.mark.parametrize("trap", ["/calendar/", "/facets/", "/session/"])
def test_traps_never_end_when_served(trap: str) -> None:
    web = SyntheticWeb(SMALL)
    host = next(h.name for h in web.plan.hosts if trap in h.trap_entrances)
    queue = [f"http://{host}{trap}"]
    for url in islice(iter(queue), 400):
        answer = web.find(url)
        assert answer is not None
        path, _, query = url.removeprefix(f"http://{host}").partition("?")
        targets = (canonicalize_url(href, url) for href, _ in trap_links(path, query) or ())
        queue.extend(t for t in targets if t and t not in queue)
    assert len(queue) > 400


def test_traps_end_where_an_address_makes_no_sense() -> None:
    assert trap_links("/calendar/2024/13/", "") is None
    assert trap_links("/articles/", "") is None


def test_robots_forbid_the_private_pages() -> None:
    web = SyntheticWeb(SMALL)
    answer = web.find(f"http://{web.plan.hosts[0].name}/robots.txt")
    assert answer is not None
    assert b"Disallow: /private/" in answer.body
    assert web.find("http://nowhere.example/robots.txt") is None


def test_ambiguous_word_stands_on_pages_of_both_senses() -> None:
    plan = make_plan(SMALL)
    web = SyntheticWeb(SMALL)
    other = [s.name for s in plan.subjects].index("construction")
    texts = [web.find(plan.url(n)) for subject in (0, other) for n in plan.articles(subject)[:5]]
    assert sum(b"crane" in t.body for t in texts if t) >= 6


GENRES = WebShape(pages=300, hosts=20, topics=1, about=("jaguar",), genres=0.5, traps=(), seed_sets=1)


def test_newspapers_forums_and_blogs_have_their_own_pages_and_link_to_their_kind_s3_39() -> None:
    web, plan = SyntheticWeb(GENRES), make_plan(GENRES)
    genres = [plan.genre(n) for n in range(len(plan.pages))]
    assert {genre: genres.count(genre) > 10 for genre in ("news", "discussions", "blogs")} == dict.fromkeys(
        ("news", "discussions", "blogs"), True
    )
    detector = GenreDetector(default_genres(), Vocabulary().terms)
    read = PageReader(Vocabulary()).read
    right = kin = total = links = 0
    for number, genre in enumerate(genres):
        if genre:
            answer = web.find(plan.url(number))
            assert answer is not None
            page = HtmlParser().parse(
                FetchResult(url=plan.url(number), status=200, headers=answer.headers, body=answer.body)
            )
            right, total = right + (detector.detect(read(page)) == genre), total + 1
            kin += sum(genres[target] == genre for target in plan.pages[number].links)
            links += len(plan.pages[number].links)
    assert right / total > 0.9
    assert kin / links > 2 * genres.count("news") / len(genres)
    assert [t.get("genres") for t in topic_tables(plan)] == [None, ["news"], ["discussions"], ["blogs"]]
    assert plan.label(genres.index("news")).endswith(".news")


def test_copied_host_repeats_its_pages_and_links_within_itself_s0_09() -> None:
    shape = WebShape(pages=150, hosts=6, topics=2, traps=(), mirror_hosts=1)
    web, plan = SyntheticWeb(shape), make_plan(shape)
    copies = [n for n, p in enumerate(plan.pages) if p.kind == "site-copy"]
    assert len(copies) > 10
    for number in copies[:5]:
        copy, original = (web.find(plan.url(n)) for n in (number, plan.pages[number].original))
        assert copy and original
        texts = [
            HtmlParser().parse(FetchResult(url="http://a.example/", status=200, body=a.body)).flow
            for a in (copy, original)
        ]
        assert texts[0] == texts[1]
    hosts = [plan.pages[target].host for number in copies for target in plan.pages[number].links]
    assert hosts.count(len(plan.hosts) - 1) > 0
    sources = {plan.pages[plan.pages[n].original].host for n in copies}
    assert sources.isdisjoint(hosts)


WRONG = [
    {"about": ("nothing",)},
    {"about": ("jaguar",)},
    {"mirror_hosts": 99},
    {"topics": 99},
    {"hosts": 1},
    {"pages": 5},
    {"traps": ("maze",)},
    {"tunnels": 9},
    {"hosts": 5000},
]


@pytest.mark.parametrize("wrong", [*WRONG, {"links": (22, 4)}])
def test_shape_is_refused_when_it_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(OfflineWebError, match="shape"):
        WebShape(**wrong)
