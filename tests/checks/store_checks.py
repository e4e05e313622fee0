"""What a `CollectionWriter` does, with a collection on disk or in memory.

Subclass with a fixture `store` that gives a fresh (collection, writer) pair.
"""

from typing import Any

import msgspec
import pytest

from opilio.core.errors import CollectionError
from opilio.core.events import CrawlStarted
from opilio.core.records import Analysis, Failure, FetchResult, Lead, Outcome, Seed, Verdict, url_key
from opilio.core.urls import host_of
from opilio.store.collection import Collection
from opilio.store.learner_states import SnapshotRow, write_snapshots
from opilio.store.warc import response_record
from opilio.store.writer import CollectionWriter

Pair = tuple[Collection, CollectionWriter]


def visited(path: str, relevant: bool = True, duplicate_of: int = 0, failure: str = "") -> Outcome:
    """One visit of a page."""
    url = f"http://a.example/{path}"
    fetched = FetchResult(url=url, status=200, headers=(("ETag", '"1"'),), body=f"<p>{path}".encode(), started_at=1e9)
    analysis = Analysis(
        title=path,
        verdict=Verdict(score=0.5, relevant=relevant),
        links=b"links",
        warc_record=response_record(fetched),
        failure=Failure(failure) if failure else None,
    )
    lead = Lead(url=url, key=url_key(url), host=host_of(url), depth=2)
    light = msgspec.structs.replace(fetched, body=b"", size_bytes=len(fetched.body))
    return Outcome(lead=lead, fetched=light, analysis=analysis, duplicate_of=duplicate_of)


class StoreChecks:
    @staticmethod
    def count(collection: Collection, table: str) -> Any:
        return collection.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]

    def test_batch_is_kept_whole_when_committed(self, store: Pair) -> None:
        collection, writer = store
        with collection.unit_of_work():
            writer.write_outcomes(
                [visited("1"), visited("2", relevant=False), visited("3", duplicate_of=7), visited("4", failure="x")]
            )
        assert (self.count(collection, "page"), self.count(collection, "answer"), self.count(collection, "links")) == (
            3,
            4,
            3,
        )
        counts = writer.counts
        assert (counts.fetched, counts.pages, counts.relevant, counts.duplicates, counts.failed) == (4, 3, 1, 1, 1)
        row = collection.connection.execute("SELECT title, depth, etag, relevant FROM page ORDER BY seq").fetchone()
        assert row == ("1", 2, '"1"', 1)

    def test_batch_leaves_nothing_when_it_fails(self, store: Pair) -> None:
        collection, writer = store
        with pytest.raises(ZeroDivisionError), collection.unit_of_work():
            writer.write_outcomes([visited("1")])
            collection.set_meta(topic="x")
            raise ZeroDivisionError
        assert self.count(collection, "page") == 0
        assert collection.meta("topic", "none") == "none"

    def test_damage_is_reported_as_a_collection_error(self, store: Pair) -> None:
        collection, _ = store
        with pytest.raises(CollectionError, match="can't write"), collection.unit_of_work():
            collection.connection.execute("INSERT INTO nowhere VALUES (1)")

    def test_page_is_replaced_when_visited_again(self, store: Pair) -> None:
        collection, writer = store
        for _ in range(2):
            with collection.unit_of_work():
                writer.write_outcomes([visited("1")])
        assert (self.count(collection, "page"), self.count(collection, "answer")) == (1, 2)

    def test_counters_are_taken_up_when_resumed(self, store: Pair) -> None:
        collection, writer = store
        with collection.unit_of_work():
            writer.write_outcomes([visited("1")])
        again = CollectionWriter(collection, None)
        again.resume()
        assert again.counts == writer.counts

    def test_snapshots_events_robots_and_seeds_are_kept(self, store: Pair) -> None:
        collection, writer = store
        with collection.unit_of_work():
            states = [SnapshotRow("topic", version, 5.0, b"state") for version in (1, 2, 2)]
            write_snapshots(collection.connection, states)
            writer.write_events([CrawlStarted(at=1.0, strategy="s0", resumed=False)])
            writer.write_robots([("http://a.example", 9.0, b"old"), ("http://a.example", 9.0, b"new")])
            writer.write_seeds([Seed(url="http://a.example/", sources=("given", "found"))] * 2)
        found = collection.connection.execute("SELECT kind, data FROM event").fetchone()
        assert (found[0], msgspec.json.decode(found[1])["strategy"]) == ("CrawlStarted", "s0")
        assert self.count(collection, "snapshot") == 2
        assert collection.connection.execute("SELECT rules FROM robots").fetchall() == [(b"new",)]
        assert collection.connection.execute("SELECT sources FROM seed").fetchall() == [("given, found",)]
