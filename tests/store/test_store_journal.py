"""Journals of learners, and a person's word in the place of a verdict."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from checks.store_checks import visited
from opilio.model.records import Reason
from opilio.store.collection import Collection
from opilio.store.journal import BYTES_PER_LESSON, OFTEN, Journal
from opilio.store.keeper import Keeper


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    made = Collection.create(tmp_path / "c", "")
    yield made
    made.close()


def test_journal_gives_back_the_state_and_the_lessons_behind_it(collection: Collection) -> None:
    journal, other = Journal(collection, "a"), Journal(collection, "b")
    assert (journal.state(), list(journal.lessons())) == (None, [])
    journal.add(b"gone")
    journal.save(3, 1.0, b"state")
    journal.add(b"one")
    other.add(b"not mine")
    journal.add(b"two")
    again = Journal(collection, "a")
    assert (again.state(), list(again.lessons()), again.waiting) == (b"state", [b"one", b"two"], 2)


def test_only_the_newest_state_is_kept(collection: Collection) -> None:
    journal = Journal(collection, "a")
    for version in (5, 6, 2):
        journal.save(version, 1.0, b"%d" % version)
    assert journal.state() == b"2"
    assert collection.connection.execute("SELECT count(*) FROM snapshot").fetchone() == (1,)


def test_journal_grows_longer_when_the_state_is_large(collection: Collection) -> None:
    journal = Journal(collection, "a")
    journal.add(b"x", OFTEN)
    assert journal.long
    journal.save(1, 1.0, b"x" * (2 * OFTEN * BYTES_PER_LESSON))
    journal.add(b"x", 2 * OFTEN - 1)
    assert not journal.long
    journal.add(b"x")
    assert journal.long


def test_lesson_of_a_unit_of_work_that_failed_was_never_taught(collection: Collection) -> None:
    journal = Journal(collection, "a")
    try:
        with collection.unit_of_work():
            journal.add(b"never")
            raise KeyError
    except KeyError:
        pass
    assert list(Journal(collection, "a").lessons()) == []


def test_nothing_is_written_down_where_nobody_can_go_on_from_it() -> None:
    journal = Journal(Collection.in_memory(), "a")
    journal.add(b"x", OFTEN)
    assert list(journal.lessons()) == [] and not journal.long


def test_tables_that_came_later_are_made_when_an_old_collection_is_written_to(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "c", "")
    collection.connection.executescript("DROP TABLE lesson; DROP TABLE label;")
    collection.close()
    for opened in (Collection.open_for_notes, Collection.open_for_writing):
        again = opened(tmp_path / "c")
        Journal(again, "a").add(b"x")
        again.close()


def test_person_replaces_the_verdict_and_the_counters_follow() -> None:
    collection = Collection.in_memory()
    keeper = Keeper(collection, None)
    with collection.unit_of_work():
        keeper.keep([visited("1")])
    key = collection.connection.execute("SELECT key FROM page").fetchone()[0]
    by_hand = Reason("labelled by hand", 1.0)
    for relevant in (True, True, False, True):
        with collection.unit_of_work():
            keeper.relabel(key, relevant, by_hand)
        row = collection.connection.execute("SELECT relevant, score, reasons FROM page").fetchone()
        assert (bool(row[0]), row[1]) == (relevant, float(relevant))
        names = [reason["name"] for reason in msgspec.msgpack.decode(row[2])]
        assert names.count("labelled by hand") == 1
    again = Keeper(collection, None)
    again.resume()
    assert again.counts.relevant == keeper.counts.relevant == 1
