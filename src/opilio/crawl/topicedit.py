"""A topic changed by a person: the table it would have, what it would say of pages that are known, and taking it up.

A preview changes nothing. What is saved is a wish, so that a running crawl goes on with the new topic too; a
collection that nobody crawls takes it up here.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from opilio.crawl.beginning import latest_snapshots
from opilio.crawl.build import SNAPSHOT, complete, frontier_of, make_mind
from opilio.crawl.classes import lexicon_of
from opilio.crawl.config import Settings, resolve
from opilio.crawl.crewbuild import living_tables
from opilio.crawl.job import settings_of
from opilio.crawl.topics import check, first_topic, genre_book
from opilio.crawl.trapwatch import traps_of
from opilio.crawl.wishes import NewTopic, Wishes, ask
from opilio.model.errors import CollectionError, ParseError, TopicError
from opilio.model.records import key_of
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.store.locks import CRAWL, SOON_S, being_crawled, writer_of
from opilio.store.warc import read_record
from opilio.topic.dewey.target import checked as checked_classes
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable, table_of
from opilio.topic.topic import Topic

LOOKED_AT = 60  # known pages that a preview judges again: half sure ones, half doubtful ones


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a new topic would change."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    pages: tuple[dict[str, Any], ...]  # url, title, before, after, relevant_before, relevant_after

    @property
    def changed(self) -> int:
        return sum(page["relevant_before"] != page["relevant_after"] for page in self.pages)


def stored_topic(collection: Collection) -> Topic:
    """The topic as a person gave it, with every change since."""
    text = collection.meta("topic")
    if not text:
        raise TopicError(f"{collection.folder}: has no topic yet: its crawl never began")
    return msgspec.json.decode(text, type=Topic)


def table_now(collection: Collection) -> WeightTable:
    """The table as the crawl has it now."""
    row = collection.connection.execute(
        "SELECT state FROM snapshot WHERE name = ? ORDER BY version DESC LIMIT 1", (SNAPSHOT,)
    ).fetchone()
    living = LivingTopic(WeightTable())
    if row is not None:
        living.restore(bytes(row[0]))
    return living.table


def stored_settings(collection: Collection) -> Settings:
    """The settings of a collection, completed."""
    return complete(resolve(settings_of(collection), str(collection.folder / "crawl.toml")))


def known_genres(collection: Collection) -> list[str]:
    """The genres a topic may ask for."""
    return sorted(genre_book(stored_settings(collection)))


def grown_words(collection: Collection) -> dict[str, tuple[str, float]]:
    """Stems that the crawl itself brought into the table: label and weight."""
    own = first_topic(stored_settings(collection), stored_topic(collection)).table.weights
    return {k.stem: (k.label, k.weight) for k in table_now(collection).keywords if k.stem not in own}


def page_text(collection: Collection, url: str) -> str:
    """The text of a page of the collection, to serve as an example; TopicError where there is none."""
    row = collection.connection.execute(
        "SELECT warc, offset, length FROM page WHERE key = ?", (key_of(url),)
    ).fetchone()
    if row is None or not row[2]:
        raise TopicError(f"example '{url[:200]}': is no page of this collection; paste its text instead")
    settings, topic = stored_settings(collection), stored_topic(collection)
    try:
        page = make_mind(settings, topic, {}).analyst.read(read_record(collection.folder, *row)).page
    except ParseError as error:
        raise TopicError(f"example '{url[:200]}': can't be read as a page: {error}") from error
    return f"{page.title}\n{page.main_text}"


def draft(collection: Collection, topic: Topic, dropped: Iterable[str] = ()) -> NewTopic:
    """A topic with its table; words that the crawl brought in stay, but for those that were dropped."""
    settings = stored_settings(collection)
    if topic.dewey:
        topic = msgspec.structs.replace(topic, dewey=checked_classes(topic.dewey, lexicon_of(settings)))
    check(settings, topic)
    table = first_topic(settings, topic).table
    grown = {s: v for s, v in grown_words(collection).items() if s not in set(dropped) and s not in table.weights}
    if not grown:
        return NewTopic(topic, table)
    shown = {k.stem: k.label for k in table.keywords} | {stem: label for stem, (label, _) in grown.items()}
    weights = table.weights | {stem: weight for stem, (_, weight) in grown.items()}
    return NewTopic(topic, table_of(weights, None, shown))


def preview(collection: Collection, new: NewTopic) -> Preview:
    """Judge known pages by a new topic, with everything else as it was learnt."""
    before = {k.stem: k.label for k in table_now(collection).keywords}
    after = {k.stem: k.label for k in new.table.keywords}
    settings, states = stored_settings(collection), latest_snapshots(collection)
    tables = living_tables(settings, states)
    tables[SNAPSHOT].adopt(new.table)
    mind = make_mind(settings, new.topic, states | {name: living.snapshot() for name, living in tables.items()})
    pages = []
    for url, title, score, relevant, *place in _known_pages(collection):
        with suppress(ParseError, CollectionError):
            verdict = mind.analyst.verdict(read_record(collection.folder, *place))
            now = {"after": round(verdict.score, 4), "relevant_after": verdict.relevant}
            was = {"before": round(score, 4), "relevant_before": bool(relevant)}
            pages.append({"url": url, "title": title, **was, **now})
    pages.sort(key=lambda p: (p["relevant_before"] == p["relevant_after"], -abs(p["after"] - p["before"])))
    return Preview(
        added=tuple(sorted(label for stem, label in after.items() if stem not in before)),
        removed=tuple(sorted(label for stem, label in before.items() if stem not in after)),
        pages=tuple(pages),
    )


def _known_pages(collection: Collection) -> list[tuple[Any, ...]]:
    """The best pages of the collection, and those of which the judge is least sure."""
    columns = "url, title, score, relevant, warc, offset, length"
    usable = "duplicate_of = 0 AND length > 0"
    doubtful = collection.connection.execute(
        f"SELECT {columns} FROM page WHERE {usable} ORDER BY abs(score - 0.5) LIMIT ?", (LOOKED_AT // 2,)
    ).fetchall()
    sure = collection.connection.execute(
        f"SELECT {columns} FROM page WHERE {usable} ORDER BY score DESC LIMIT ?", (LOOKED_AT // 2,)
    ).fetchall()
    return list({row[0]: row for row in [*doubtful, *sure]}.values())


def save(folder: Path, new: NewTopic, now: float) -> str:
    """Have the new topic taken up; who keeps us from it, as `take_up` tells."""
    ask(folder, "topic", now, "", msgspec.msgpack.encode(new))
    return take_up(folder, now)


def take_up(folder: Path, now: float) -> str:
    """Do what was asked of a collection that nobody writes to; else who does: a crawl sees to it itself, after any
    other command the next crawl does."""
    if being_crawled(folder):
        return CRAWL
    try:
        collection = Collection.open_for_writing(folder, "serve", SOON_S)
    except CollectionError:
        if writer := writer_of(folder):
            return writer
        raise
    try:
        settings = stored_settings(collection)
        keeper = Keeper(collection, None)
        keeper.resume()
        traps = traps_of(settings, collection, resumed=False)
        frontier = frontier_of(settings, collection, traps)
        tables = living_tables(settings, latest_snapshots(collection))
        Wishes(collection, keeper, frontier, traps.excluded, tables).begin(now)
    finally:
        collection.close()
    return ""
