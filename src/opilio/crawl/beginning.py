"""What a crawl knows when it begins: its topic with the texts of example pages, and everything learnt so far.

Made once and kept in the collection; every later run reads it back.
"""

import msgspec

from opilio.crawl.build import SNAPSHOT, first_state, topic_of
from opilio.crawl.config import Settings
from opilio.crawl.examples import read_examples
from opilio.crawl.rankmemory import COMMITTEE
from opilio.crawl.startfrom import carried_over
from opilio.crawl.tgraphs import first_graph
from opilio.model.protocols import Fetcher
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.topic.topic import Topic


async def topic_and_states(
    collection: Collection, settings: Settings, fetcher: Fetcher, now: float
) -> tuple[Topic, dict[str, bytes]]:
    """The topic with its examples and what was learnt; made on the first run, read back on the others."""
    stored = collection.meta("topic")
    if stored:
        return msgspec.json.decode(stored, type=Topic), latest_snapshots(collection)
    positive = await read_examples(settings.topic.examples, fetcher, "topic.examples")
    negative = await read_examples(settings.topic.counterexamples, fetcher, "topic.counterexamples")
    topic = topic_of(settings, positive, negative)
    states = {SNAPSHOT: first_state(settings, topic), **carried_over(settings), **first_graph(settings)}
    keeper = Keeper(collection, None)
    with collection.unit_of_work():
        collection.set_meta(topic=msgspec.json.encode(topic).decode())
        for name, first in states.items():
            keeper.keep_snapshot(name, 0, now, first)
    return topic, latest_snapshots(collection)


def latest_snapshots(collection: Collection) -> dict[str, bytes]:
    """The newest state of everything that workers know too."""
    rows = collection.connection.execute(
        "SELECT name, state FROM snapshot AS s WHERE name <> ? AND name NOT LIKE '%/' || ?"
        " AND version = (SELECT max(version) FROM snapshot WHERE name = s.name)",
        (COMMITTEE, COMMITTEE),  # which no worker needs: its memory takes it up
    )
    return {str(name): bytes(state) for name, state in rows}
