"""Waste control: places that yield nothing are given up and tried again later; listings and redirects are not."""

import itertools
from collections.abc import Collection as AnyCollection

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from opilio.core.events import Event, TrapFound, TrapRetried
from opilio.core.records import Analysis, FetchResult, Lead, Outcome, UrlState, Verdict, url_key
from opilio.core.urls import host_of
from opilio.engine.politeness.host_yield import GivenUpPlace, YieldLimits, places_of
from opilio.engine.politeness.traps import load_given_up, save_given_up
from opilio.engine.politeness.waste_control import YieldMonitor
from opilio.frontier.memory import MemoryFrontier
from opilio.frontier.policy import FrontierPolicy
from opilio.lab.experiments.traps import TrapOptions, run_trap_case
from opilio.store.collection import Collection

GOOD = [f"http://good.example/a/{n}" for n in range(2_000)]


def lead(url: str, parent: str = "", score: float = 0.5) -> Lead:
    return Lead(url=url, key=url_key(url), host=host_of(url), score=score, parent=url_key(parent) if parent else 0)


def outcome(url: str, relevant: bool = False, parent: str = "", location: str = "", duplicate_of: int = 0) -> Outcome:
    fetched = FetchResult(url=url, status=301 if location else 200, location=location)
    analysis = None if location else Analysis(verdict=Verdict(score=float(relevant), relevant=relevant))
    return Outcome(lead=lead(url, parent), fetched=fetched, analysis=analysis, duplicate_of=duplicate_of)


def relevant_page(url: str, terms: NDArray[np.uint32]) -> Outcome:
    analysis = Analysis(verdict=Verdict(score=1.0, relevant=True), sample_terms=terms.tobytes())
    return Outcome(lead=lead(url), fetched=FetchResult(url=url), analysis=analysis)


def page_of_same_words(url: str) -> Outcome:
    return relevant_page(url, np.arange(10, dtype=np.uint32))


class Crawl:
    """A monitor and a frontier; an honest host yields a relevant page in two."""

    def __init__(self, limits: YieldLimits | None = None, given_up: list[GivenUpPlace] | None = None) -> None:
        self.monitor = YieldMonitor(limits, given_up or [])
        self.frontier = MemoryFrontier(
            FrontierPolicy(refusal_reason=lambda lead: self.monitor.refusal_reason(lead.url))
        )
        self.events: list[Event] = []
        self._good = itertools.count()
        self.protected: set[str] = set()
        # Something is always left to fetch.
        self.frontier.add([lead("http://rest.example/")], 0.0)

    def fetch(self, *outcomes: Outcome) -> None:
        self.events += self.monitor.update(outcomes, self.frontier, self.protected, 0.0)

    def fetch_good(self, count: int) -> None:
        for number in itertools.islice(self._good, count):
            self.fetch(outcome(GOOD[number], relevant=number % 2 == 0))

    @property
    def patterns(self) -> list[str]:
        return [event.pattern for event in self.events if isinstance(event, TrapFound)]


def trap_urls(count: int) -> list[str]:
    return [f"http://trap.example/maze/{n}" for n in range(count)]


def run_into_trap(crawl: Crawl, most: int = 60) -> int:
    """Fetch from the trap until it is given up; returns how many fetches that took."""
    for number, url in enumerate(trap_urls(most), 1):
        crawl.fetch(outcome(url))
        if crawl.patterns:
            return number
    return most


def test_place_that_yields_nothing_is_given_up_with_a_reason() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    crawl.frontier.add([lead(url) for url in trap_urls(100)], 0.0)
    crawl.frontier.add([lead("http://trap.example/about")], 0.0)
    fetches = run_into_trap(crawl)
    assert fetches <= 30
    assert crawl.patterns == ["*://trap.example/maze/*"]
    entry = crawl.frontier.entry("trap.example", url_key(trap_urls(100)[-1]))
    assert entry is not None
    assert (entry.state, entry.reason) == (
        UrlState.DROPPED,
        f"trap: low yield of *://trap.example/maze/*: 0 of {fetches} fetches brought a new relevant page",
    )
    assert crawl.monitor.refusal_reason("http://trap.example/maze/new") == entry.reason
    # The rest of the host stays.
    assert crawl.monitor.refusal_reason("http://trap.example/contact") == ""
    about = crawl.frontier.entry("trap.example", url_key("http://trap.example/about"))
    assert about is not None
    assert about.state is UrlState.QUEUED


@pytest.mark.parametrize(
    ("waste", "kept", "pattern"),
    [
        ("{page}?from={n}&print=1", "{page}?lang=en", "*://good.example/*[?&;]print=*"),
        ("{page};sid={n}?visit={n}", "{page}", "*://good.example/*[?&;]visit=*"),
        ("{host}/a/b/diary/2031-{n}", "{host}/a/b/diary/about", "*://good.example/a/b/diary/[0-9]*-[0-9]*"),
        ("{host}/list?q={n}&colour={n}", "{host}/list/1", "*://good.example/list[?]*"),
    ],
)
def test_pattern_of_urls_among_good_pages_is_given_up(waste: str, kept: str, pattern: str) -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    host = "http://good.example"
    for n in range(40):
        page = f"{host}/a/b/{n}"
        crawl.fetch(outcome(page, relevant=n % 2 == 0), outcome(waste.format(host=host, page=page, n=n)))
    assert crawl.patterns == [pattern]
    assert crawl.monitor.refusal_reason(waste.format(host=host, page=f"{host}/c/77", n=7777))
    assert not crawl.monitor.refusal_reason(kept.format(host=host, page=f"{host}/a/b/77"))
    assert not crawl.monitor.refusal_reason(f"{host}/a/b/78")


def test_parameter_given_up_on_some_hosts_takes_fewer_fetches_on_the_next() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    taken = []
    for host in range(4):
        before = len(crawl.patterns)
        for n in range(60):
            if len(crawl.patterns) > before:
                break
            page = f"http://blog{host}.example/{n}.html"
            crawl.fetch(outcome(page, relevant=n % 2 == 0), outcome(f"{page}?reply={n}"))
        taken.append(n)
    assert crawl.patterns == [f"*://blog{host}.example/*[?&;]reply=*" for host in range(4)]
    assert taken[0] > taken[1] > taken[2] >= 5


def test_another_view_of_a_page_is_a_copy() -> None:
    crawl, fresh = Crawl(), Crawl()
    for each in (crawl, fresh):
        each.fetch_good(40)
    for n in range(40):
        page, words = f"http://site.example/{n}.html", np.arange(100 * n, 100 * n + 40, dtype=np.uint32)
        crawl.fetch(relevant_page(page, words), relevant_page(f"{page}?view={n}", words))
        fresh.fetch(relevant_page(page, words), relevant_page(f"{page}?view={n}", words + 10_000))
    assert crawl.patterns == ["*://site.example/*[?&;]view=*"]
    assert fresh.patterns == []


def test_parameter_that_brings_relevant_pages_is_kept() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    for n in range(60):
        crawl.fetch(outcome(f"http://shop.example/?item={n}&colour=3", relevant=n % 5 == 0))
    assert crawl.patterns == []


def test_only_urls_of_the_pattern_are_dropped() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    waiting = {"http://good.example/x/day-7": False, "http://good.example/x/day-7-in-the-field": True}
    crawl.frontier.add([lead(url) for url in waiting], 0.0)
    for n in range(40):
        good, day = outcome(f"http://good.example/x/{n}/a", relevant=n % 2 == 0), f"http://good.example/x/day-{n}"
        crawl.fetch(good, outcome(day))
    assert crawl.patterns == ["*://good.example/x/day-[0-9]*"]
    states = {url: crawl.frontier.entry("good.example", url_key(url)) for url in waiting}
    assert {url: e is not None and e.state is UrlState.QUEUED for url, e in states.items()} == waiting


def test_copies_take_fewer_fetches() -> None:
    crawl, copies = Crawl(), Crawl()
    for each in (crawl, copies):
        each.fetch_good(40)
    fetches = run_into_trap(crawl)
    for url in trap_urls(fetches - 1):
        copies.fetch(outcome(url, relevant=True, duplicate_of=1))
    assert copies.patterns == crawl.patterns


def test_relevant_pages_of_the_same_words_are_copies_beside_others() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    for number in range(100):
        crawl.fetch(page_of_same_words(f"http://farm.example/{number}"))
    assert crawl.patterns == ["*://farm.example/*"]


def test_relevant_pages_of_the_same_words_are_no_copies_without_others() -> None:
    crawl = Crawl()
    for number, url in enumerate(trap_urls(60)):
        crawl.fetch(page_of_same_words(f"http://shop.example/{number}"), outcome(url))
    assert crawl.patterns == ["*://trap.example/maze/*"]


def test_nothing_is_given_up_before_the_crawl_yields_anything() -> None:
    crawl = Crawl()
    assert run_into_trap(crawl, 300) == 300
    assert crawl.events == []


def test_listing_that_leads_to_relevant_pages_elsewhere_is_kept() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    for number in range(200):
        listing = f"http://list.example/index?page={number}"
        crawl.fetch(outcome(listing), outcome(f"http://good.example/b/{number}", relevant=True, parent=listing))
    assert crawl.events == []


def test_redirects_that_lead_to_relevant_pages_are_kept() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    for number in range(200):
        old, new = f"http://moved.example/old/{number}", f"http://good.example/b/{number}"
        crawl.fetch(outcome(old, location=new), outcome(new, relevant=True))
    assert crawl.events == []


def test_host_that_the_user_boosted_is_never_given_up() -> None:
    crawl = Crawl()
    crawl.protected = {"trap.example"}
    crawl.fetch_good(40)
    assert run_into_trap(crawl) == 60


def fetch_hosts(crawl: Crawl, name: str, count: int, hits: int) -> None:
    """Fetch ten pages of each of some hosts; `hits` of them are relevant."""
    for host in range(count):
        start = f"http://{name}{host}.example/"
        crawl.fetch(*(outcome(f"{start}{page}", relevant=page < hits, parent=start) for page in range(10)))


def misses_until_given_up(crawl: Crawl, host: str) -> int:
    before = len(crawl.patterns)
    for page in range(100):
        crawl.fetch(outcome(f"http://{host}/{page}", parent="http://seed.example/"))
        if len(crawl.patterns) > before:
            assert crawl.patterns[-1] == f"*://{host}/*"
            return page + 1
    return 100


def test_host_that_begins_unlike_productive_hosts_is_given_up_early() -> None:
    few, many = Crawl(), Crawl()
    fetch_hosts(few, "good", 4, hits=6)
    fetch_hosts(many, "good", 8, hits=6)
    first = misses_until_given_up(many, "trap0.example")
    assert first < misses_until_given_up(few, "trap0.example")
    # After some traps the next one takes fewer fetches.
    for number in range(1, 6):
        last = misses_until_given_up(many, f"trap{number}.example")
    assert 6 <= last < first


def test_links_of_a_stranger_say_little_of_a_host() -> None:
    """Nine of its pages off the topic, linked from elsewhere, sufficed to give up a host."""
    crawl = Crawl()
    fetch_hosts(crawl, "good", 8, hits=6)
    enough = misses_until_given_up(crawl, "trap.example")
    evil = [f"http://www.evil{n}.example/" for n in range(4)]
    crawl.fetch(*map(outcome, evil))
    for page in range(2 * enough):
        crawl.fetch(outcome(f"http://victim.example/{page}", parent=evil[0]))
    assert crawl.patterns == ["*://trap.example/*"]
    # What several sites link counts more, and what a host links itself counts.
    for page in range(enough):
        crawl.fetch(outcome(f"http://spam.example/{page}", parent=evil[page % 4]))
    assert crawl.patterns == ["*://trap.example/*", "*://spam.example/*"]


def test_host_may_begin_as_other_hosts_did() -> None:
    crawl, poor = Crawl(), Crawl()
    fetch_hosts(crawl, "good", 8, hits=6)
    fetch_hosts(poor, "good", 8, hits=1)
    assert misses_until_given_up(poor, "new.example") > 2 * misses_until_given_up(crawl, "new.example")


def test_admitted_host_begins_again() -> None:
    crawl = Crawl(YieldLimits(retry_after=50))
    fetch_hosts(crawl, "good", 8, hits=6)
    crawl.frontier.add([lead(f"http://trap.example/{n}") for n in range(100)], 0.0)
    misses = misses_until_given_up(crawl, "trap.example")
    crawl.fetch_good(50)
    crawl.fetch(outcome("http://trap.example/x", relevant=True))
    assert crawl.monitor.given_up == []
    assert misses_until_given_up(crawl, "trap.example") >= misses


def given_up_crawl() -> Crawl:
    crawl = Crawl(YieldLimits(retry_after=50))
    crawl.fetch_good(40)
    crawl.frontier.add([lead(url, score=n / 1000) for n, url in enumerate(trap_urls(100))], 0.0)
    run_into_trap(crawl)
    return crawl


def queued(crawl: Crawl) -> list[str]:
    return [entry.lead.url for entry in crawl.frontier.best(1_000) if entry.lead.host == "trap.example"]


def test_given_up_place_is_tried_again_and_stays_given_up_without_a_hit() -> None:
    crawl = given_up_crawl()
    assert queued(crawl) == []
    crawl.fetch_good(50)
    retried = trap_urls(100)[:97:-1]
    assert queued(crawl) == retried
    assert crawl.events[-1] == TrapRetried(at=0.0, host="trap.example", pattern="*://trap.example/maze/*", urls=2)
    crawl.fetch(*map(outcome, retried))
    assert crawl.monitor.refusal_reason("http://trap.example/maze/new")
    # The next trial is three times as far away.
    crawl.fetch_good(140)
    assert len([e for e in crawl.events if isinstance(e, TrapRetried)]) == 1
    crawl.fetch_good(10)
    assert len([e for e in crawl.events if isinstance(e, TrapRetried)]) == 2


def test_one_hit_of_a_trial_admits_the_whole_place() -> None:
    crawl = given_up_crawl()
    crawl.fetch_good(50)
    crawl.fetch(outcome(trap_urls(100)[-1], relevant=True))
    assert len(queued(crawl)) == 100
    assert crawl.monitor.refusal_reason("http://trap.example/maze/new") == ""
    assert crawl.monitor.given_up == []


def test_given_up_places_are_kept_with_the_collection() -> None:
    crawl = given_up_crawl()
    collection = Collection.in_memory()
    assert load_given_up(collection) == []
    save_given_up(collection, crawl.monitor.given_up)
    resumed = Crawl(given_up=load_given_up(collection))
    collection.close()
    url = "http://trap.example/maze/new"
    assert resumed.monitor.refusal_reason(url) == crawl.monitor.refusal_reason(url) != ""


def subdomain_urls(count: int) -> list[str]:
    return [f"http://h{n}.trap.example/" for n in range(count)]


def crawl_subdomains(crawl: Crawl, fetches: int, relevant: AnyCollection[int] = (), outside: bool = False) -> None:
    """Fetch one page of each sub-domain; it was linked from the one before, or from elsewhere."""
    urls = subdomain_urls(fetches)
    crawl.frontier.add([lead(url) for url in urls], 0.0)
    for number, url in enumerate(urls):
        parent = GOOD[0] if outside else urls[number - 1] if number else ""
        crawl.fetch(outcome(url, relevant=number in relevant, parent=parent))


def test_domain_of_ever_new_hosts_is_given_up_and_tried_again() -> None:
    crawl = Crawl(YieldLimits(retry_after=50))
    crawl.fetch_good(40)
    waiting = [f"http://other{n}.trap.example/" for n in range(5)]
    crawl.frontier.add([lead(url) for url in waiting], 0.0)
    crawl_subdomains(crawl, 60)
    assert crawl.patterns == ["*://*.trap.example/*"]
    reason = crawl.monitor.refusal_reason("http://new.trap.example/")
    assert reason.startswith("trap: low yield of *://*.trap.example/*: 0 of ")
    entries = [crawl.frontier.entry(host_of(url), url_key(url)) for url in waiting]
    assert [(e.state, e.reason) for e in entries if e is not None] == [(UrlState.DROPPED, reason)] * 5
    # The hosts are stored with the place, so that a resumed crawl can try them too.
    stored = msgspec.json.decode(msgspec.json.encode(crawl.monitor.given_up), type=list[GivenUpPlace])
    assert {host_of(url) for url in waiting} <= set(stored[0].hosts)
    crawl.fetch_good(60)
    retried = [event.urls for event in crawl.events if isinstance(event, TrapRetried)]
    assert retried == [2]
    crawl.fetch(outcome(waiting[0], relevant=True))
    assert crawl.monitor.refusal_reason("http://new.trap.example/") == ""


def test_domain_that_owners_share_is_not_given_up_for_links_from_outside() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    crawl_subdomains(crawl, 60, outside=True)
    assert crawl.patterns == []


def test_domain_with_relevant_pages_is_kept() -> None:
    crawl = Crawl()
    crawl.fetch_good(40)
    crawl_subdomains(crawl, 60, relevant=range(0, 60, 10))
    assert crawl.patterns == []


def test_domain_of_a_boosted_host_is_kept() -> None:
    crawl = Crawl()
    crawl.protected.add("h7.trap.example")
    crawl.fetch_good(40)
    crawl_subdomains(crawl, 60)
    assert crawl.patterns == []


@pytest.mark.parametrize(
    ("url", "place", "pattern"),
    [
        ("http://a.example/x", "", "*://a.example/*"),
        ("http://a.example/list?q=1", "/list?", "*://a.example/list[?]*"),
        ("http://a.example/2026/05/x", "/#/#/", "*://a.example/[0-9]*/[0-9]*/*"),
        ("http://a.example/b[1]/c/", "/b[1]/c/", "*://a.example/b[[]1]/c/*"),
    ],
)
def test_narrowest_place_has_a_pattern(url: str, place: str, pattern: str) -> None:
    host, places = places_of(url)
    assert places[-1] == place
    assert GivenUpPlace(host, place, "").pattern == pattern


def test_memory_is_bounded() -> None:
    crawl = Crawl(YieldLimits(max_hosts=10))
    for number in range(500):
        url = f"http://www.h{number}.example/{number}/x"
        crawl.monitor.refusal_reason(url)
        crawl.fetch(outcome(url))
    assert len(crawl.monitor._hosts) == len(crawl.monitor._domains) == 10


def test_places_fetched_once_give_way_to_others() -> None:
    crawl = Crawl()
    for n in range(1_200):
        crawl.fetch(outcome(f"http://good.example/d{n}/x", relevant=n % 2 == 0))
    site = crawl.monitor._hosts["good.example"]
    assert len(site.places) <= 1_000
    for n in range(40):
        page = f"http://good.example/e{n}/"
        crawl.fetch(outcome(page, relevant=n % 2 == 0), outcome(f"{page}?print=1"))
    assert crawl.patterns == ["*://good.example/*[?&;]print=*"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["path", "hosts", "views"])
def test_waste_is_limited_beside_a_trap(kind: str) -> None:
    """The table of all kinds is in docs/lab/traps.md; here some of them, on a small web."""
    options = TrapOptions(budget=400, pages=600, hosts=2)
    without, with_control = (run_trap_case(kind, options, control=control) for control in (False, True))
    assert without.fetches == with_control.fetches == 400
    assert without.waste > 0.2
    assert with_control.waste < 0.1
    assert with_control.relevant >= without.relevant
    assert msgspec.to_builtins(without)["traps"] == kind


def test_crawls_of_the_lab_look_up_no_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the lab has no network")

    monkeypatch.setattr("socket.getaddrinfo", refuse)
    assert run_trap_case("none", TrapOptions(budget=10, pages=100, hosts=2), control=True).fetches == 10
