"""An index follows its collection: pages that come, change, go and are judged, and a process killed on the way."""

import multiprocessing
import os
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from checks.indexed import Sheet, judge, lose, spoil, store
from opilio.core.errors import CollectionError
from opilio.manage.compact import compact
from opilio.search import indexer
from opilio.search.documents import BATCH_ANSWERS
from opilio.search.index import FullTextIndex, FullTextWriter, index_write_lock, prepare_index_folder
from opilio.search.indexer import count_unindexed, rebuild_index, update_index
from opilio.search.manifest import IndexManifest
from opilio.search.results import SearchFilters
from opilio.search.searcher import Searcher

A = "http://a.example"
NIGHT, NOON, EVENING = 1_700_000_000.0, 1_700_050_000.0, 1_700_090_000.0


def urls(folder: Path, query: str = "", filters: SearchFilters | None = None) -> list[str]:
    return sorted(hit.url.removeprefix(A) for hit in Searcher([folder]).search(query, filters, size=100).hits)


def birds(first: int, last: int) -> list[Sheet]:
    return [Sheet(url=f"{A}/{n}", title=f"Bird {n}", text=f"The bird of number{n} sings.") for n in range(first, last)]


def test_index_takes_in_what_is_new_when_the_collection_grows(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 3))
    assert update_index(folder).indexed == 3
    assert update_index(folder).indexed == 0
    store(folder, birds(3, 5))
    assert update_index(folder).indexed == 2
    assert urls(folder, "bird") == ["/0", "/1", "/2", "/3", "/4"]


def test_index_takes_in_a_part_with_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexer, "BATCH_ANSWERS", 2)
    folder = store(tmp_path / "c", birds(0, 5))
    assert (update_index(folder, limit=2).waiting, len(urls(folder))) == (3, 2)
    assert (update_index(folder).waiting, len(urls(folder))) == (0, 5)


def test_page_is_found_by_its_new_words_when_it_changed(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", [Sheet(url=f"{A}/x", title="Wren", text="small", at=NIGHT)])
    update_index(folder)
    store(folder, [Sheet(url=f"{A}/x", title="Eagle", text="large", at=NOON)])
    update_index(folder)
    assert (urls(folder, "wren"), urls(folder, "eagle")) == ([], ["/x"])
    assert urls(folder, "wren", SearchFilters(at=NOON - 1)) == ["/x"]
    assert urls(folder, "eagle", SearchFilters(at=NOON - 1)) == []
    assert urls(folder, "eagle", SearchFilters(at=NOON)) == ["/x"]


def test_page_leaves_the_index_when_it_is_gone(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    update_index(folder)
    lose(folder, f"{A}/1", EVENING)
    assert update_index(folder).removed == 1
    assert urls(folder) == ["/0"]
    assert urls(folder, "", SearchFilters(at=NOON)) == ["/0", "/1"]


@pytest.mark.parametrize("now", [Sheet(url=f"{A}/1", noindex=True), Sheet(url=f"{A}/1", duplicate_of=f"{A}/0")])
def test_page_leaves_the_index_when_it_may_not_be_found_any_more(tmp_path: Path, now: Sheet) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    update_index(folder)
    store(folder, [now])
    update_index(folder)
    assert urls(folder) == ["/0"]


def test_verdict_of_a_user_is_found_when_it_was_taken_up(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    update_index(folder)
    judge(folder, f"{A}/1", relevant=False)
    assert update_index(folder).indexed == 1
    assert urls(folder, "", SearchFilters(relevant=False)) == ["/1"]
    assert urls(folder, "band:high OR relevant:yes") == ["/0"]


def test_rebuilt_index_counts_a_page_once_that_later_ones_link_to(tmp_path: Path) -> None:
    later = [Sheet(url=f"{A}/late{n}", text="Late.", links=[(f"{A}/0", "the first bird")]) for n in range(20)]
    folder = store(tmp_path / "c", [*birds(0, BATCH_ANSWERS), *later])
    assert rebuild_index(folder).indexed == BATCH_ANSWERS + 20


def test_rebuilt_index_finds_the_same(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 20))
    update_index(folder)
    store(folder, birds(10, 30))
    update_index(folder)
    before = Searcher([folder]).search("bird number12", size=100)
    assert rebuild_index(folder).indexed == 40  # ten of them as they were before
    after = Searcher([folder]).search("bird number12", size=100)
    assert [h.url for h in after.hits] == [h.url for h in before.hits]
    assert after.facets == before.facets


def test_index_is_made_again_when_another_version_made_it_or_it_was_deleted(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    update_index(folder)
    (folder / "index" / "version").write_text("0")
    assert update_index(folder).indexed == 2
    shutil.rmtree(folder / "index")
    assert update_index(folder).indexed == 2
    assert urls(folder) == ["/0", "/1"]


def test_index_is_made_again_when_the_collection_was_put_back_from_a_copy(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    shutil.copytree(folder, tmp_path / "copy")
    store(folder, birds(2, 6))
    update_index(folder)
    for name in ("crawl.db", "pages-00001.warc.gz"):
        shutil.copy(tmp_path / "copy" / name, folder / name)
    assert update_index(folder).indexed == 2
    assert urls(folder) == ["/0", "/1"]


def test_searches_of_several_threads_are_answered_while_the_index_grows(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 5))
    searcher = Searcher([folder])
    searcher.update_indexes()
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(searcher.search, "bird") for _ in range(40)]
        for first in (5, 10, 15):
            store(folder, birds(first, first + 5))
            searcher.update_indexes()
            asked += [pool.submit(searcher.search, "bird") for _ in range(40)]
        totals = {future.result().total for future in asked}
    assert totals <= {5, 10, 15, 20}
    assert searcher.search("bird").total == 20


def test_reader_only_reads_when_another_process_writes_the_index(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    update_index(folder)
    store(folder, birds(2, 3))
    with index_write_lock(folder) as ours:
        assert ours
        assert update_index(folder).busy
        assert urls(folder) == ["/0", "/1"]


def test_damaged_record_costs_only_its_text(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 2))
    (warc,) = folder.glob("*.warc.gz")
    with warc.open("r+b") as file:
        file.truncate(warc.stat().st_size - 30)
    update_index(folder)
    assert urls(folder, "bird") == ["/0", "/1"]  # the title is in the database
    assert urls(folder, "sings") == ["/0"]


def test_folder_that_is_no_collection_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CollectionError, match="not a collection"):
        update_index(tmp_path)
    assert not (tmp_path / "index").exists()


def _die_at(folder: Path, moment: str, after: int) -> None:
    """Catch up, and be killed at a moment of the batch of this number."""
    calls = iter(range(after, -1, -1))
    owner, name = (FullTextWriter, "commit") if moment.endswith("commit") else (IndexManifest, "set_marks")
    real = getattr(owner, name)

    def dying(self: object, *args: object, **kwargs: object) -> object:
        last = next(calls) == 0
        if last and moment == "before commit":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, *args, **kwargs)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, dying)
    vars(indexer)["BATCH_ANSWERS"] = 4
    update_index(folder)


@pytest.mark.parametrize("moment", ["before commit", "after commit", "in the notes"])
@pytest.mark.parametrize("after", [0, 2])
def test_nothing_is_lost_or_doubled_when_a_process_is_killed(tmp_path: Path, moment: str, after: int) -> None:
    folder = store(tmp_path / "c", birds(0, 15))
    process = multiprocessing.get_context("forkserver").Process(target=_die_at, args=(folder, moment, after))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    update_index(folder)
    results = Searcher([folder]).search("bird", size=100)
    assert (results.total, len({hit.url for hit in results.hits})) == (15, 15)


def test_dropped_version_is_not_found_any_more(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", [Sheet(url=f"{A}/x", title="Wren", at=NIGHT)])
    store(folder, [Sheet(url=f"{A}/x", title="Eagle", at=NOON)])
    update_index(folder)
    assert urls(folder, "wren", SearchFilters(at=NOON - 1)) == ["/x"]
    compact(folder, EVENING, versions=0)
    assert count_unindexed(folder) == 1
    assert update_index(folder).indexed == 1
    assert update_index(folder).indexed == 0
    assert urls(folder, "wren", SearchFilters(at=NOON - 1)) == []
    assert urls(folder, "eagle") == ["/x"]


@pytest.mark.parametrize("file", ["terms/*.store", "terms/*.term", "terms/meta.json", "derived.db"])
@pytest.mark.parametrize("grown", [0, 1])
def test_index_is_made_again_when_its_files_are_damaged(tmp_path: Path, file: str, grown: int) -> None:
    """Whether something is to be taken in or not, searched at once or caught up first."""
    folder = store(tmp_path / "c", birds(0, 3))
    update_index(folder)
    store(folder, birds(3, 3 + grown))
    spoil(folder, file)
    searcher = Searcher([folder, store(tmp_path / "sound", birds(5, 6))])
    assert searcher.count_unindexed() >= 1
    searcher.update_indexes()
    assert searcher.search("bird").total == 4 + grown
    spoil(folder, file)
    assert len(urls(folder, "bird")) == 3 + grown


def test_index_is_made_again_when_the_engine_has_forgotten_it(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 3))
    update_index(folder)
    (folder / "index" / "terms" / "meta.json").unlink()
    assert update_index(folder).indexed == 3
    assert urls(folder) == ["/0", "/1", "/2"]


def test_index_without_a_file_that_only_searches_need_is_reported(tmp_path: Path) -> None:
    folder = store(tmp_path / "c", birds(0, 3))
    update_index(folder)
    (path,) = (folder / "index" / "terms").glob("*.pos")
    path.unlink()
    with pytest.raises(CollectionError, match=r"the index is damaged.*; run 'opilio maintain reindex .*/c'"):
        urls(folder, "bird")


def test_index_that_can_not_be_written_is_reported(tmp_path: Path) -> None:
    """No space, or the folder is gone: one line, and no error of the engine."""
    folder = store(tmp_path / "c", [Sheet(url="http://a.example/", title="Wren", text="wren")])
    with index_write_lock(folder), pytest.raises(CollectionError, match="the index can't be written"):
        place = prepare_index_folder(folder)
        with FullTextIndex(place).writer() as writer:
            shutil.rmtree(place)
            writer.commit()


def _opened(folder: str) -> bool:
    IndexManifest(Path(folder)).close()
    return True


def test_new_index_is_opened_by_several_at_once(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for number in range(40):
            folder = tmp_path / str(number)
            folder.mkdir()
            assert all(pool.map(_opened, [str(folder)] * 4, chunksize=1))
            # SQLite deletes its log files with the last connection, unless two close at the same moment: then each
            # keeps the other from the exclusive lock, and the log stays until the database is opened next.
            assert _opened(str(folder))
            assert [path.name for path in folder.iterdir()] == ["derived.db"]
