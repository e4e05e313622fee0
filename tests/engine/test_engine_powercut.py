"""A power cut: commits may be on the disk while the records they name are not (issue: nothing lost)."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.killing import same_as_undisturbed, urls_in_warc
from checks.small_webs import TRAINS, SmallWeb, crawl, events, grid, page, redirect, rows, served, settings_for, stored
from opilio.core.errors import OpilioError
from opilio.manage.verify import verify
from opilio.store.warc import warc_name

SEED = "http://h0.example/0.html"
WEB = grid(hosts=3, pages=12)


def cut_short(folder: Path, size: int) -> None:
    os.truncate(last_file(folder), size)


def filled_with_nothing(folder: Path, size: int) -> None:
    """Some file systems keep the length and lose the content."""
    path = last_file(folder)
    whole = path.stat().st_size
    os.truncate(path, size)
    os.truncate(path, whole)


def last_file(folder: Path) -> Path:
    return max(folder.glob("pages-*.warc.gz"))


def as_if_power_failed(folder: Path, synced: tuple[int, int]) -> None:
    """The database says that a crawl is running, and that only so much of the WARC files was forced to the disk."""
    (folder / "checksums.json").unlink(missing_ok=True)
    with sqlite3.connect(folder / "crawl.db") as database:
        database.execute("UPDATE meta SET value = 'running' WHERE name = 'state'")
        database.execute("UPDATE meta SET value = ? WHERE name = 'warc_synced'", (f"{synced[0]} {synced[1]}",))
    database.close()


@pytest.mark.parametrize("lose", [cut_short, filled_with_nothing])
@pytest.mark.parametrize("rotate", [1 << 30, 3000])
def test_crawl_goes_on_when_the_last_records_were_lost(
    tmp_path: Path, lose: Callable[[Path, int], None], rotate: int
) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], store={"rotate_bytes": rotate})
        crawl(tmp_path / "undisturbed", tree)
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 20}})
        places = rows(tmp_path / "c", "SELECT warc, offset, length FROM page WHERE length > 0 ORDER BY warc, offset")
        last = [place for place in places if place[0] == places[-1][0]]
        warc, offset, length = last[len(last) // 2]
        as_if_power_failed(tmp_path / "c", (warc, offset))
        lose(tmp_path / "c", offset + length // 2)
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    same_as_undisturbed(tmp_path / "c", tmp_path / "undisturbed")
    assert urls_in_warc(tmp_path / "c") == stored(tmp_path / "c")
    assert len(events(tmp_path / "c", "PagesLost")) == 1


def test_crawl_goes_on_when_the_beginning_of_a_file_was_lost(tmp_path: Path) -> None:
    with served(SmallWeb(grid(hosts=1, pages=4))) as server:
        tree = settings_for(server, [SEED])
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 2}})
        as_if_power_failed(tmp_path / "c", (1, 0))
        with last_file(tmp_path / "c").open("r+b") as file:
            file.write(bytes(200))
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert verify(tmp_path / "c") == []
    assert urls_in_warc(tmp_path / "c") == stored(tmp_path / "c") == sorted(grid(hosts=1, pages=4))


def test_crawl_goes_on_when_a_whole_file_was_lost(tmp_path: Path) -> None:
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED], store={"rotate_bytes": 3000})
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 20}})
        number = int(rows(tmp_path / "c", "SELECT value FROM meta WHERE name = 'warc_number'")[0][0])
        before = rows(tmp_path / "c", "SELECT max(offset + length) FROM page WHERE warc = ?", number - 1)[0][0]
        as_if_power_failed(tmp_path / "c", (number - 1, before))
        (tmp_path / "c" / warc_name(number)).unlink()
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert stored(tmp_path / "c") == sorted(WEB)
    assert verify(tmp_path / "c") == []
    assert urls_in_warc(tmp_path / "c") == sorted(WEB)


def test_records_that_had_been_on_the_disk_are_not_given_up(tmp_path: Path) -> None:
    """A file shorter than what was synced has other causes: nothing is truncated, the damage is reported."""
    with served(SmallWeb(WEB)) as server:
        tree = settings_for(server, [SEED])
        crawl(tmp_path / "c", {**tree, "stop": {"pages": 20}})
        (end,) = rows(tmp_path / "c", "SELECT value FROM meta WHERE name = 'warc_synced'")[0]
        assert end.split()[1] == str(last_file(tmp_path / "c").stat().st_size), "synced at a clean end"
        file, offset = map(int, end.split())
        as_if_power_failed(tmp_path / "c", (file, offset))
        cut_short(tmp_path / "c", 2000)
        with pytest.raises(OpilioError, match="bytes are missing at the end; 'opilio maintain verify --repair'"):
            crawl(tmp_path / "c", {**tree, "stop": {"pages": 0}})
    assert len(stored(tmp_path / "c")) == 20
    assert last_file(tmp_path / "c").stat().st_size == 2000


def test_copy_is_fetched_again_when_its_original_was_lost(tmp_path: Path) -> None:
    """The text of a copy is in the record of its original; and a text that is lost has not been seen."""
    urls = [f"http://h0.example/{name}.html" for name in ("0", "original", "copy")]
    web = SmallWeb({urls[0]: page(links=urls[1:]), urls[1]: page(TRAINS), urls[2]: page(TRAINS)})
    with served(web) as server:
        tree = settings_for(server, [SEED])
        crawl(tmp_path / "c", tree)
        ((original, warc, offset),) = rows(
            tmp_path / "c", "SELECT o.url, o.warc, o.offset FROM page JOIN page AS o ON o.key = page.duplicate_of"
        )
        as_if_power_failed(tmp_path / "c", (warc, offset))
        cut_short(tmp_path / "c", offset + 10)
        web.answers[original] = redirect(SEED)  # it is gone by now
        crawl(tmp_path / "c", tree)
    assert rows(tmp_path / "c", "SELECT url, duplicate_of FROM page WHERE url <> ?", SEED) == [
        ((set(urls) - {SEED, original}).pop(), 0)
    ]
    assert verify(tmp_path / "c") == []
