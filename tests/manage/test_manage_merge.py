"""Labels and commands of merged collections hold in the new one; the old ones are only read."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from checks.explanations import explained_page
from checks.small_webs import (
    BIRDS,
    TRAINS,
    SmallWeb,
    crawl,
    grid,
    known,
    page,
    redirect,
    rows,
    served,
    settings_for,
    word,
)
from opilio.engine.commands import load_host_rules, send_command
from opilio.frontier.policy import Aging, QueueTime
from opilio.lab.server.server import LabWebServer
from opilio.manage.label import LabelRequest, label_pages
from opilio.manage.merge import merge
from opilio.manage.pages import page_history
from opilio.manage.verify import verify
from opilio.manage.why import why
from opilio.store.collection import Collection, open_readonly

SEED = "http://h0.example/0.html"
QUEUED, DROPPED = 0, 4
NOW = 2e9


def crawled(folder: Path, server: LabWebServer, pages: int) -> Path:
    crawl(folder, settings_for(server, [SEED], stop={"pages": pages}))
    return folder


def noted(folder: Path, *statements: str) -> None:
    notes = Collection.open_for_append(folder)
    for statement in statements:
        notes.connection.execute(statement)
    notes.close()


def verdict(folder: Path, url: str) -> dict[str, Any]:
    found = explained_page(folder, url)
    return {name: getattr(found, name) for name in ("relevant", "score", "reasons")}


def test_commands_of_all_collections_hold_in_the_merged_one(tmp_path: Path) -> None:
    first, second, both = tmp_path / "a", tmp_path / "b", tmp_path / "both"
    with served(SmallWeb(grid(3, 12))) as server:
        crawled(first, server, 6)
        crawled(second, server, 1)
        send_command(first, "delay", 1.0, "h1.example", b"0.01")
        send_command(first, "boost_host", 2.0, "h0.example")
        crawled(first, server, 7)  # takes them up
        send_command(second, "ban", 3.0, "h2.example")
        send_command(second, "unboost_host", 4.0, "h0.example")
        send_command(second, "topic", 5.0)  # the topic is the first collection's
        merge([first, second], both, NOW)
        send_command(both, "exclude", 6.0, "*/1?.html")
        before = {url for url, state in known(both).items() if state > QUEUED}
        crawled(both, server, 0)
    later = [url for url, state in known(both).items() if url not in before and state != DROPPED]
    assert later
    assert [url for url in later if re.search(r"//h2\.|/1\d\.html$", url)] == []
    with open_readonly(both) as collection:
        rules = load_host_rules(collection)
    assert (rules.banned_hosts, rules.boosted_hosts, rules.host_delays_s) == (
        {"h2.example"},
        set(),
        {"h1.example": 0.01},
    )
    assert rows(both, "SELECT delay_s FROM frontier_host WHERE name = 'h1.example'") == [(0.01,)]
    assert verify(both) == []


def test_merge_keeps_queries_and_what_the_same_agents_found(tmp_path: Path) -> None:
    card = "'{0}', 'wrens', '', 1, 'working', '', 1, 1, 1, 0, 0, 0.0"
    with served(SmallWeb(grid(1, 3))) as server:
        for number, name in enumerate(("a", "b")):
            noted(
                crawled(tmp_path / name, server, 0),
                f"INSERT INTO enquiry (at, query, further, keys) VALUES ({9 - number}, 'wrens {name}', 0, x'90')",
                f"INSERT INTO agent VALUES ({number + 1}, {card.format('one')})",
                f"INSERT INTO agent VALUES ({number + 5}, {card.format(name)})",
                f"INSERT INTO verdict VALUES ({number}, {number + 1}, 1, 0.5, 1)",
                f"INSERT INTO verdict VALUES ({number}, {number + 5}, 1, 0.5, 1)",
            )
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both", NOW)
    assert rows(tmp_path / "both", "SELECT query FROM enquiry ORDER BY id") == [("wrens b",), ("wrens a",)]
    found = "SELECT v.page, a.name FROM verdict AS v JOIN agent AS a ON a.number = v.agent ORDER BY v.page, a.name"
    assert rows(tmp_path / "both", found) == [(0, "a"), (0, "one"), (1, "one")]


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_last_word_about_a_page_counts_in_the_merged_collection(tmp_path: Path, order: tuple[str, str]) -> None:
    one, two, three = (f"http://h0.example/{n}.html" for n in range(3))
    with served(SmallWeb(grid(1, 3))) as server:
        for name in ("a", "b"):
            crawled(tmp_path / name, server, 0)
    for at, name, url, said in (
        (1.0, "a", one, True),
        (2.0, "b", one, False),
        (3.0, "b", two, False),
        (4.0, "a", three, True),
        (5.0, "b", three, False),
        (6.0, "b", three, None),
    ):
        assert label_pages(tmp_path / name, [LabelRequest(url, said, "test")], at)[1] == []
    both = tmp_path / "both"
    merge([tmp_path / name for name in order], both, NOW)
    assert [(verdict(both, url)["relevant"], verdict(both, url)["score"]) for url in (one, two)] == [(False, 0.0)] * 2
    assert verdict(both, three) == verdict(tmp_path / "b", three)
    assert verify(both) == []


def test_merge_only_reads_a_collection_that_is_being_written(tmp_path: Path) -> None:
    with served(SmallWeb(grid(1, 3))) as server:
        for name in ("a", "b#?% c"):
            crawled(tmp_path / name, server, 0)
    writing = Collection.open_for_writing(tmp_path / "a")
    try:
        with writing.unit_of_work():  # no merge that wants to write to it comes past this
            writing.set_meta(state="running")
            merge([tmp_path / "a", tmp_path / "b#?% c"], tmp_path / "both", NOW)
    finally:
        writing.close()
    assert verify(tmp_path / "both") == []


def test_merge_and_history_keep_the_order_of_versions_when_a_clock_was_set_back(tmp_path: Path) -> None:
    web = SmallWeb(grid(1, 3))
    with served(web) as server:
        for day, name in ((0, "a"), (7, "a"), (1, "b")):  # and a week later, its clock says, it is a month before
            web.answers[SEED] = page(f"{BIRDS} {word(90 + day)}", title=f"Day {day}")
            again = {"on": day > 1, "interval_s": 86_400.0, "probe": False}
            crawl(tmp_path / name, settings_for(server, [SEED], revisit=again), later_s=day * 86_400.0)
    noted(
        tmp_path / "a",
        "UPDATE answer SET at = at - 37 * 86400 WHERE at > (SELECT min(at) + 86400 FROM answer)",
        "UPDATE page SET fetched_at = (SELECT at FROM answer AS a WHERE a.seq = page.seq)",
    )
    assert [v.title for v in page_history(tmp_path / "a", SEED).versions] == ["Day 0", "Day 7"]
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both", NOW)
    assert [v.title for v in page_history(tmp_path / "both", SEED).versions] == ["Day 0", "Day 7", "Day 1"]
    assert verify(tmp_path / "both") == []


@pytest.mark.parametrize("order", [("copy", "grown"), ("grown", "copy")])
def test_what_a_collection_and_an_older_copy_of_it_both_know_is_there_once(
    tmp_path: Path, order: tuple[str, str]
) -> None:
    """Whichever comes first: the versions of each page, how they ended, answers, looks and events."""
    web, (seed, gone, moved) = SmallWeb(grid(1, 3)), (f"http://h0.example/{n}.html" for n in range(3))
    again = {"interval_s": 86_400.0, "second_look_s": 86_400.0, "probe": False}
    with served(web) as server:
        for day in (0, 7, 14):
            crawl(tmp_path / "grown", settings_for(server, [SEED], revisit={"on": day > 0, **again}), later_s=day * 9e4)
            if not day:
                shutil.copytree(tmp_path / "grown", tmp_path / "copy")
                del web.answers[gone]
                web.answers[moved] = redirect("/new.html")
                web.answers["http://h0.example/new.html"] = page(f"{BIRDS} {word(99)}", title="New")
    merge([tmp_path / name for name in order], tmp_path / "both", NOW)
    for url in (seed, gone, moved):
        assert page_history(tmp_path / "both", url) == page_history(tmp_path / "grown", url)
        assert why(tmp_path / "both", url).answers == why(tmp_path / "grown", url).answers
    assert [v.ended for url in (gone, moved) for v in page_history(tmp_path / "both", url).versions] == [
        *("gone", "moved", "")
    ]
    for counted in ("count(*) FROM event", "max(seq) FROM answer", "sum(checks) FROM revisit"):
        assert rows(tmp_path / "both", f"SELECT {counted}") == rows(tmp_path / "grown", f"SELECT {counted}")
    assert verify(tmp_path / "both") == []


def test_queue_of_the_merged_collection_has_one_scale(tmp_path: Path) -> None:
    """The orders of two collections write different keys: N-best adds a million to what it has chosen."""
    with served(SmallWeb(grid(3, 12))) as server:
        for name, kind in (("a", "best-first"), ("b", "n-best"), ("c", "aging")):
            crawl(
                tmp_path / name,
                settings_for(server, [SEED], rank={"kind": "linkscore"}, order={"kind": kind}, stop={"pages": 4}),
            )
    merge([tmp_path / name for name in "abc"], tmp_path / "best", NOW)
    waiting = "SELECT url, priority, score, timer FROM frontier_url WHERE state = 0"
    found = rows(tmp_path / "best", waiting)
    assert found
    assert [url for url, priority, score, timer in found if priority != score or timer is not None] == []
    merge([tmp_path / name for name in "cba"], tmp_path / "aged", NOW)
    order = Aging()
    inserted = QueueTime(rows(tmp_path / "aged", "SELECT inserted FROM frontier_count")[0][0])
    for score, seq, priority, timer in rows(
        tmp_path / "aged", "SELECT score, seq, priority, timer FROM frontier_url WHERE state = 0"
    ):
        assert (priority, timer) == order.position(score, seq, inserted)[:2]
    assert verify(tmp_path / "best") == verify(tmp_path / "aged") == []


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("language", ["english", "german"])
def test_page_relevant_to_one_of_several_topics_stays_so(tmp_path: Path, order: str, language: str) -> None:
    """The same bytes are one version, also where two topics' languages read other words in them."""
    wrens, trains = SEED, "http://h0.example/trains.html"
    web = SmallWeb({wrens: page(links=[trains]), trains: page(TRAINS)})
    with served(web) as server:
        for name, topic in (("a", {"name": "wren bird"}), ("b", {"name": "locomotive railway", "language": language})):
            crawl(tmp_path / name, settings_for(server, [SEED], topic=topic))
            assert rows(tmp_path / name, "SELECT count(*) FROM page WHERE relevant") == [(1,)]
    merge([tmp_path / name for name in order], tmp_path / "both", NOW)
    assert rows(tmp_path / "both", "SELECT url FROM page WHERE relevant ORDER BY url") == [(wrens,), (trains,)]
    assert rows(tmp_path / "both", "SELECT count(*) FROM version") == [(0,)]
    assert verdict(tmp_path / "both", trains) == verdict(tmp_path / "b", trains)
    assert verify(tmp_path / "both") == []
