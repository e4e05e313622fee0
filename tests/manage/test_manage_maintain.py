"""Compact, merge, repair: nothing lost, nothing twice, versions in order, bad input reported in one line."""

import os
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checks.killing import urls_in_warc
from checks.small_webs import (
    BIRDS,
    SmallWeb,
    crawl,
    events,
    known,
    one_line,
    opilio,
    page,
    rows,
    served,
    settings_for,
    word,
)
from opilio.core.events import Event, ProblemsFound
from opilio.engine.integrity import START_SEQ, check_next_records
from opilio.fetch.decoding import RecordedResponse
from opilio.lab.server.server import LabWebServer
from opilio.manage.compact import check_and_repair, compact
from opilio.manage.merge import PARTIAL_SUFFIX, merge
from opilio.manage.pages import page_history
from opilio.manage.status import collection_status
from opilio.manage.verify import PROBLEM_PREFIX, verify
from opilio.manage.why import why
from opilio.store.collection import Collection, open_readonly
from opilio.store.warc import read_record, warc_name
from opilio.store.writer import CrawlCounts, stored_counts

ROOT = "http://a.example/"
WEEK = 7 * 86_400.0
NOW = 2e9


def article(number: int, more: str = "", links: tuple[str, ...] = ()) -> RecordedResponse:
    return page(f"{BIRDS} {word(number)} {word(number + 100)} {more}", links, title=f"Article {number} {more}")


def site() -> SmallWeb:
    links = tuple(f"/{n}" for n in range(1, 9))
    return SmallWeb({ROOT: article(0, links=links), **{f"{ROOT}{n}": article(n) for n in range(1, 9)}})


def kept(folder: Path, server: LabWebServer, later_s: float = 0.0, seed: str = ROOT, again: bool = True) -> None:
    revisit = {"on": again and later_s > 0, "interval_s": WEEK, "probe": False}
    tree = settings_for(server, [seed], revisit=revisit, stop={"pages": 0}, store={"rotate_bytes": 2000})
    crawl(folder, tree, later_s=later_s)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`first` saw the site, and again a week later; `second` began elsewhere, between the two."""
    place, web = tmp_path_factory.mktemp("housekeeping"), site()
    with served(web) as server:
        kept(place / "first", server)
        web.answers[ROOT + "1"] = article(1, "springtime")
        web.answers[ROOT + "9"] = article(9)
        web.answers["http://b.example/"] = article(20, links=(ROOT + "1", ROOT + "9", "http://b.example/copy", "/gone"))
        web.answers["http://b.example/copy"] = article(2)
        kept(place / "second", server, seed="http://b.example/")
        web.answers[ROOT + "1"] = article(1, "wintertime")
        kept(place / "first", server, later_s=WEEK)
    return place


@pytest.fixture
def place(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "place")
    return tmp_path / "place"


def whole(folder: Path) -> None:
    assert verify(folder) == []
    stored = "SELECT url FROM page WHERE length > 0 UNION ALL SELECT url FROM version WHERE length > 0"
    assert urls_in_warc(folder) == sorted(url for (url,) in rows(folder, stored))


def contents(folder: Path) -> list[tuple[str, str, float, str]]:
    found = "SELECT url, title, fetched_at, '' FROM page UNION ALL SELECT url, title, fetched_at, cause FROM version"
    return sorted(rows(folder, found))


def test_compact_keeps_every_version_and_drops_orphans(place: Path) -> None:
    folder = place / "first"
    before, files = contents(folder), sorted(p.name for p in folder.glob("pages-*"))
    changed(folder, "DELETE FROM version WHERE url LIKE '%/1'")
    assert any("belong to no page" in line for line in verify(folder))
    done = compact(folder, NOW, rotate_bytes=2000)
    whole(folder)
    assert contents(folder) == [row for row in before if not row[3]]
    assert done.bytes_after < done.bytes_before
    assert not set(files) & {p.name for p in folder.glob("pages-*")}
    compact(folder, NOW)
    whole(folder)


def test_compact_drops_old_versions_when_requested(place: Path) -> None:
    done = compact(place / "first", NOW, versions=0)
    assert (done.versions_dropped, rows(place / "first", "SELECT count(*) FROM version")) == (1, [(0,)])
    whole(place / "first")


def test_compact_leaves_no_links_of_a_page_whose_versions_it_drops(place: Path) -> None:
    with served(SmallWeb({})) as server:  # all is gone
        for weeks in (3, 4):
            kept(place / "first", server, later_s=weeks * WEEK)
    assert rows(place / "first", "SELECT count(*) FROM page") == [(0,)]
    assert rows(place / "first", "SELECT count(*) > 0 FROM links") == [(1,)]
    compact(place / "first", NOW, versions=0)
    whole(place / "first")


def test_crawl_goes_on_after_compaction(place: Path) -> None:
    compact(place / "first", NOW, rotate_bytes=2000)
    with served(site()) as server:
        kept(place / "first", server, later_s=3 * WEEK)
    whole(place / "first")


def test_compaction_killed_before_its_commit_leaves_the_collection_as_it_was(place: Path) -> None:
    folder = place / "first"
    last = int(rows(folder, "SELECT value FROM meta WHERE name = 'warc_number'")[0][0])
    (folder / warc_name(last + 1)).write_bytes(b"half a file")
    assert verify(folder) == []
    compact(folder, NOW)
    whole(folder)


def test_compaction_killed_after_its_commit_leaves_only_old_files(place: Path) -> None:
    folder = place / "first"
    old = {path.name: path.read_bytes() for path in folder.glob("pages-*")}
    compact(folder, NOW)
    for name, data in old.items():
        (folder / name).write_bytes(data)
    assert check_and_repair(folder, NOW).problems == []
    compact(folder, NOW)
    assert not set(old) & {p.name for p in folder.glob("pages-*")}
    whole(folder)


def test_record_stays_for_who_reads_while_its_collection_is_compacted(place: Path) -> None:
    folder = place / "first"
    with open_readonly(folder) as reader:
        (old,) = reader.connection.execute("SELECT warc, offset, length FROM page WHERE url = ?", (ROOT,)).fetchall()
        done = compact(folder, NOW)
        assert done.files_left > 0
        assert read_record(folder, *old).url == ROOT
        reply = opilio("maintain", "compact", folder).stdout
    assert "still in use by another process: compact again to delete" in reply
    assert compact(folder, NOW).files_left == 0
    whole(folder)


def test_merge_is_whole_when_a_source_is_compacted_meanwhile(place: Path) -> None:
    folders = [place / "first", place / "second"]
    merge(folders, place / "alone", NOW)
    with ThreadPoolExecutor(1) as thread:
        for number in range(4):
            merged = thread.submit(merge, folders, place / f"both{number}", NOW)
            while not merged.done():
                compact(folders[0], NOW)
            merged.result()
            assert contents(place / f"both{number}") == contents(place / "alone")
            whole(place / f"both{number}")


def test_compaction_is_named_to_other_writers(place: Path) -> None:
    folder, reply = (
        place / "first",
        "first: 'opilio maintain compact' is writing to this collection; wait for it or stop it",
    )
    held = Collection.open_for_writing(folder, "maintain compact")
    assert reply in one_line(opilio("crawl", "--into", folder))
    assert reply in one_line(opilio("maintain", "compact", folder))
    assert collection_status(folder).state == "stopped"
    labelled = opilio("label", folder, ROOT, "--irrelevant")
    held.close()
    assert "'opilio maintain compact' is writing to the collection: the next crawl learns from this" in labelled.stdout


def test_compact_refuses_a_file_that_is_cut_short(place: Path) -> None:
    folder = place / "first"
    before = (folder / "crawl.db").read_bytes()
    os.truncate(folder / warc_name(1), 900)
    assert "run 'opilio maintain verify --repair' first" in one_line(opilio("maintain", "compact", folder))
    assert rows(folder, "SELECT count(*) FROM page") == [(9,)]
    assert len((folder / "crawl.db").read_bytes()) == len(before)


def test_merge_holds_every_page_once_with_its_versions_in_order_s2_f1(place: Path) -> None:
    merged = merge([place / "first", place / "second"], place / "both", NOW)
    whole(place / "both")
    urls = [url for (url,) in rows(place / "both", "SELECT url FROM page")]
    each = [rows(place / name, "SELECT url FROM page") for name in ("first", "second")]
    assert sorted(urls) == sorted({url for found in each for (url,) in found})
    assert merged.pages == len(urls) == 12
    versions = page_history(place / "both", ROOT + "1").versions
    assert [(v.title.split()[-1], v.ended) for v in versions] == [
        ("1", "changed"),
        ("springtime", "changed"),
        ("wintertime", ""),
    ]
    assert versions[0].until == versions[1].fetched_at
    assert known(place / "both").keys() == known(place / "first").keys() | known(place / "second").keys()


def counts_of(folder: Path) -> CrawlCounts:
    with open_readonly(folder) as collection:
        return stored_counts(collection)


def test_merge_counts_what_all_of_them_did(place: Path) -> None:
    changed(place / "first", "INSERT INTO meta VALUES ('expected_relevant', '3.5')")
    merge([place / "first", place / "second"], place / "both", NOW)
    first, second, both = (counts_of(place / name) for name in ("first", "second", "both"))
    assert (both.fetched, both.failed) == (first.fetched + second.fetched, first.failed + second.failed)
    assert first.failed < both.failed
    assert max(first.size_bytes, second.size_bytes) < both.size_bytes <= first.size_bytes + second.size_bytes
    merged = collection_status(place / "both")
    assert (merged.expected_relevant, merged.front_hit_rate) == (None, None), "of another queue"


def test_merge_finds_copies_that_neither_collection_could_know_of(place: Path) -> None:
    merge([place / "first", place / "second"], place / "both", NOW)
    facts = why(place / "both", "http://b.example/copy")
    assert facts.page is not None
    assert facts.page.duplicate_of == ROOT + "2"
    assert facts.found_on[0].page == "http://b.example/"


def test_merged_collection_can_be_crawled_and_compacted(place: Path) -> None:
    merge([place / "second", place / "first"], place / "both", NOW)
    with served(site()) as server:
        kept(place / "both", server, later_s=3 * WEEK, seed="http://b.example/")
    whole(place / "both")
    compact(place / "both", NOW)
    whole(place / "both")


def test_merge_reads_an_older_collection_as_it_is(place: Path) -> None:
    (place / "second" / "checksums.json").unlink()
    database = sqlite3.connect(place / "second" / "crawl.db")
    for table in ("version", "move", "revisit", "tip", "empty_text", "notice"):
        database.execute(f"DROP TABLE {table}")
    database.execute("PRAGMA user_version = 1")
    database.close()
    merge([place / "first", place / "second"], place / "both", NOW)
    whole(place / "both")


def test_merge_starts_over_where_one_was_killed(place: Path) -> None:
    Collection.create(place / f"both{PARTIAL_SUFFIX}", "").close()
    merge([place / "first", place / "second"], place / "both", NOW)
    whole(place / "both")
    assert not (place / f"both{PARTIAL_SUFFIX}").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "reply"),
    [
        (["first", "first"], 2, "are the same collection"),
        (["first", "first/../first"], 2, "are the same collection"),
        (["first"], 2, "at least two"),
        (["first", "nowhere"], 1, "not a collection"),
        (["first", "newer"], 1, "newer Opilio"),
    ],
)
def test_merge_refuses_what_can_not_be_joined(place: Path, arguments: list[str], code: int, reply: str) -> None:
    shutil.copytree(place / "second", place / "newer")
    database = sqlite3.connect(place / "newer" / "crawl.db")
    database.execute("PRAGMA user_version = 99")
    database.close()
    done = opilio("maintain", "merge", *arguments, "--into", "both", cwd=place)
    assert (done.returncode, reply in one_line(done)) == (code, True)
    assert not (place / "both").exists()


def test_merge_refuses_a_folder_that_is_there(place: Path) -> None:
    done = opilio("maintain", "merge", "first", "second", "--into", "second", cwd=place)
    assert (done.returncode, "already exists" in one_line(done)) == (2, True)


def test_merge_refuses_a_warc_that_is_cut_short(place: Path) -> None:
    os.truncate(place / "second" / warc_name(1), 500)
    done = opilio("maintain", "merge", "first", "second", "--into", "both", cwd=place)
    assert (done.returncode, "ends too early" in one_line(done)) == (1, True)
    assert sorted(path.name for path in place.iterdir()) == ["first", "second"]


def test_merge_leaves_another_one_alone_that_makes_the_same(place: Path) -> None:
    held = Collection.create(place / f"both{PARTIAL_SUFFIX}", "")
    done = opilio("maintain", "merge", "first", "second", "--into", "both", cwd=place)
    held.close()
    assert "--into both: another merge is making it; wait for it or stop it" in one_line(done)
    assert (place / f"both{PARTIAL_SUFFIX}" / "crawl.db").exists()


def changed(folder: Path, statement: str) -> None:
    """Rows as a faulty crawl would leave them; killed, it leaves no checksums."""
    (folder / "checksums.json").unlink(missing_ok=True)
    with sqlite3.connect(folder / "crawl.db") as database:
        database.execute(statement)
    database.close()


@pytest.mark.parametrize(
    "harm",
    [
        "INSERT INTO links VALUES (5, x'00')",
        "UPDATE meta SET value = json_set(value, '$.pages', 99) WHERE name = 'counts'",
        "UPDATE frontier_count SET done = done + 1",
        "UPDATE frontier_host SET queued = 77",
        "UPDATE revisit SET queued = 1",
        "INSERT INTO tip VALUES (1, 2)",
    ],
)
def test_verify_repairs_what_is_derived_by_itself(place: Path, harm: str) -> None:
    folder = place / "first"
    pages = rows(folder, "SELECT * FROM page")
    changed(folder, harm)
    assert opilio("maintain", "verify", "--look-only", folder).returncode == 1
    done = opilio("maintain", "verify", folder)
    assert (done.returncode, "repaired: " in done.stdout) == (0, True)
    assert verify(folder) == []
    assert rows(folder, "SELECT * FROM page") == pages


def test_verify_touches_page_data_only_with_repair(place: Path) -> None:
    folder = place / "first"
    path = max(folder.glob("pages-*"))
    lost = rows(folder, "SELECT url FROM page WHERE warc = ? AND length > 0", int(path.name[6:11]))
    os.truncate(path, 10)
    assert opilio("maintain", "verify", folder).returncode == 1
    assert rows(folder, "SELECT count(*) FROM page") == [(9,)]
    done = opilio("maintain", "verify", "--repair", folder)
    assert f"{len(lost)} pages will be fetched again" in done.stdout
    with served(site()) as server:
        kept(folder, server, later_s=2 * WEEK, again=False)
    compact(folder, NOW)
    whole(folder)
    assert rows(folder, "SELECT count(*) FROM page") == [(9,)]


def test_verify_only_looks_while_a_crawl_writes(place: Path) -> None:
    folder = place / "first"
    changed(folder, "UPDATE frontier_count SET done = done + 1")
    held = Collection.open_for_writing(folder)
    try:
        assert len(check_and_repair(folder, NOW).problems) == 1
    finally:
        held.close()
    assert check_and_repair(folder, NOW).problems == []


def test_checker_beside_a_crawl_reports_what_it_finds(place: Path) -> None:
    folder, at, rounds = place / "first", START_SEQ, 0
    while rounds < 2:
        problems, at = check_next_records(folder, at, count=4)
        assert problems == []
        rounds += at == START_SEQ
    path = max(folder.glob("pages-*"))
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    found = []
    for _ in range(6):
        problems, at = check_next_records(folder, at, count=4)
        found += problems
    assert any("unreadable record" in line for line in found)


def test_checker_runs_while_a_crawl_does(place: Path) -> None:
    folder = place / "second"
    changed(folder, "UPDATE page SET host = 'elsewhere' WHERE url LIKE '%copy'")
    reply: list[Event] = []
    with served(site(), slow={"a.example": 0.2}) as server:
        tree = settings_for(server, ["http://b.example/", ROOT + "late"], store={"check_every_s": 0.01})
        crawl(folder, tree, reply.append)
    assert any(isinstance(event, ProblemsFound) for event in reply)
    assert events(folder, "ProblemsFound")


def test_verify_drops_rules_that_are_long_past_where_all_else_is_right(place: Path) -> None:
    folder = place / "first"
    changed(folder, "UPDATE robots SET expires_at = 1.0")
    assert opilio("maintain", "verify", "--look-only", folder).returncode == 0
    assert rows(folder, "SELECT count(*) FROM robots") == [(1,)]
    assert opilio("maintain", "verify", folder).stdout == f"{folder}: no problems found\n"
    assert rows(folder, "SELECT count(*) FROM robots") == [(0,)]


def test_verify_can_not_both_look_only_and_repair(place: Path) -> None:
    done = opilio("maintain", "verify", place / "first", "--look-only", "--repair")
    assert (done.returncode, "leave one out" in one_line(done)) == (2, True)


def test_index_forgets_the_pages_that_verify_lets_go_of(place: Path) -> None:
    folder = place / "first"
    assert opilio("maintain", "reindex", folder).returncode == 0
    os.truncate(max(folder.glob("pages-*")), 10)
    assert check_and_repair(folder, NOW, pages=True).fetched_again > 0
    assert [line for line in verify(folder) if line.startswith(PROBLEM_PREFIX)] == []
