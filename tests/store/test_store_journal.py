"""Journals of learners, and labels in place of verdicts."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from checks.store_checks import visited
from opilio.core.records import Reason
from opilio.store.collection import Collection
from opilio.store.learner_states import (
    SNAPSHOT_MIN_LESSONS,
    STATE_BYTES_PER_LESSON,
    LearnerJournal,
    SnapshotRow,
    damaged_states,
    latest_states,
    restore_damaged_states,
    snapshots,
    write_snapshots,
)
from opilio.store.writer import CollectionWriter


@pytest.fixture
def collection(tmp_path: Path) -> Iterator[Collection]:
    made = Collection.create(tmp_path / "c", "")
    yield made
    made.close()


def test_journal_gives_back_the_state_and_the_lessons_behind_it(collection: Collection) -> None:
    journal, other = LearnerJournal(collection, "a"), LearnerJournal(collection, "b")
    assert (journal.load_snapshot(), list(journal.lessons())) == (None, [])
    journal.add(b"gone")
    journal.save_snapshot(3, 1.0, b"state")
    journal.add(b"one")
    other.add(b"not mine")
    journal.add(b"two")
    again = LearnerJournal(collection, "a")
    assert (again.load_snapshot(), list(again.lessons()), again.pending_lessons) == (b"state", [b"one", b"two"], 2)


def test_only_the_newest_state_and_the_one_before_are_kept(collection: Collection) -> None:
    journal = LearnerJournal(collection, "a")
    for version in (5, 6, 2):
        journal.add(b"before %d" % version)
        journal.save_snapshot(version, 1.0, b"%d" % version)
    assert journal.load_snapshot() == b"2"
    assert collection.connection.execute("SELECT count(*) FROM snapshot").fetchone() == (2,)
    assert collection.connection.execute("SELECT count(*) FROM lesson").fetchone() == (1,)
    assert latest_states(collection.connection, without="b") == {"a": b"2"}


@pytest.mark.parametrize("states", [1, 2])
def test_damaged_state_is_restored_from_the_one_before_and_its_lessons(collection: Collection, states: int) -> None:
    journal = LearnerJournal(collection, "a")
    for number in range(states):
        journal.add(b"before %d" % number)
        journal.save_snapshot(number, 1.0, b"state %d" % number)
    journal.add(b"last")
    assert restore_damaged_states(collection) == []
    collection.connection.execute("UPDATE snapshot SET state = ? WHERE name = 'a'", (b"state x",))
    assert list(damaged_states(collection)) == ["a"]
    assert restore_damaged_states(collection) == ["a"]
    again = LearnerJournal(collection, "a")
    # The first state has none before it: all lessons since the start give it again.
    expected = (b"state 0", [b"before 1", b"last"]) if states == 2 else (None, [b"before 0", b"last"])
    assert (again.load_snapshot(), list(again.lessons())) == expected
    assert list(damaged_states(collection)) == []


def test_past_versions_keep_what_is_displayed_of_them_and_their_time(collection: Collection) -> None:
    write_snapshots(collection.connection, [SnapshotRow("topic", 0, 1.0, b"first, with counts")])
    journal = LearnerJournal(collection, "topic")
    journal.save_snapshot(2, 5.0, b"third, with counts", [(0, b"first"), (1, b"second")])
    journal.save_snapshot(2, 9.0, b"third, with more counts")
    assert [(row.version, row.at, bytes(row.state)) for row in snapshots(collection.connection, "topic")] == [
        (0, 1.0, b"first"),
        (1, 5.0, b"second"),
        (2, 5.0, b"third, with more counts"),
    ]
    collection.connection.execute("UPDATE snapshot SET state = x'00' WHERE name = 'topic' AND version = 2")
    assert restore_damaged_states(collection) == ["topic"]
    assert [row.version for row in snapshots(collection.connection, "topic")] == [0, 1, 2]
    assert journal.load_snapshot() == b"third, with counts"


def test_journal_grows_longer_when_the_state_is_large(collection: Collection) -> None:
    journal = LearnerJournal(collection, "a")
    journal.add(b"x", SNAPSHOT_MIN_LESSONS)
    assert journal.snapshot_due
    journal.save_snapshot(1, 1.0, b"x" * (2 * SNAPSHOT_MIN_LESSONS * STATE_BYTES_PER_LESSON))
    journal.add(b"x", 2 * SNAPSHOT_MIN_LESSONS - 1)
    assert not journal.snapshot_due
    journal.add(b"x")
    assert journal.snapshot_due


def test_lesson_of_a_unit_of_work_that_failed_was_never_taught(collection: Collection) -> None:
    journal = LearnerJournal(collection, "a")
    try:
        with collection.unit_of_work():
            journal.add(b"never")
            raise KeyError
    except KeyError:
        pass
    assert list(LearnerJournal(collection, "a").lessons()) == []


def test_nothing_is_written_that_no_crawl_can_resume() -> None:
    journal = LearnerJournal(Collection.in_memory(), "a")
    journal.add(b"x", SNAPSHOT_MIN_LESSONS)
    assert list(journal.lessons()) == [] and not journal.snapshot_due


def test_tables_that_came_later_are_made_when_an_old_collection_is_written_to(tmp_path: Path) -> None:
    collection = Collection.create(tmp_path / "c", "")
    for table in ("lesson", "label"):
        collection.connection.execute(f"DROP TABLE {table}")
    collection.close()
    for opened in (Collection.open_for_append, Collection.open_for_writing):
        again = opened(tmp_path / "c")
        LearnerJournal(again, "a").add(b"x")
        again.close()


def test_user_replaces_the_verdict_and_the_counters_follow() -> None:
    collection = Collection.in_memory()
    writer = CollectionWriter(collection, None)
    with collection.unit_of_work():
        writer.write_outcomes([visited("1")])
    key = collection.connection.execute("SELECT key FROM page").fetchone()[0]
    by_hand = Reason("labelled by hand", 1.0)
    for relevant in (True, True, False, True):
        with collection.unit_of_work():
            writer.set_label(key, relevant, by_hand)
        row = collection.connection.execute("SELECT relevant, score, reasons FROM page").fetchone()
        assert (bool(row[0]), row[1]) == (relevant, float(relevant))
        names = [reason["name"] for reason in msgspec.msgpack.decode(row[2])]
        assert names.count("labelled by hand") == 1
    again = CollectionWriter(collection, None)
    again.resume()
    assert again.counts.relevant == writer.counts.relevant == 1
