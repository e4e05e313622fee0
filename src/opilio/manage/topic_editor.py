"""Changes the topic of a collection: its new table, a preview of the verdicts on stored pages, and saving it.

A preview changes nothing. Saving sends a command, so that a running crawl continues with the new topic; without a
running crawl the command is applied here.
"""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from opilio.core.errors import CollectionError, ParseError, TopicError
from opilio.core.events import Event
from opilio.core.protocols import TOPIC_STATE
from opilio.core.records import url_key
from opilio.core.settings import Settings
from opilio.engine.commands import CommandInbox, CommandTargets, TopicReplacement, send_command
from opilio.engine.learning import JournaledLearner
from opilio.engine.politeness.traps import build_url_filter
from opilio.engine.wiring.assembly import build_analysis_parts
from opilio.engine.wiring.build import build_frontier
from opilio.engine.wiring.settings import collection_settings
from opilio.engine.wiring.start import latest_snapshots, stored_topic
from opilio.engine.wiring.topic import build_initial_topic, check_topic_settings
from opilio.methods.agents.agent import mark_retired
from opilio.methods.dewey.judge import check_classes as checked_classes
from opilio.methods.dewey.judge import load_lexicon
from opilio.store.collection import Collection
from opilio.store.connection import COMMAND_LOCK_TIMEOUT_S, CRAWL_COMMAND, current_writer, is_crawl_running
from opilio.store.learner_states import latest_state
from opilio.store.pages import RecordedPage, best_pages, doubtful_pages, record_position
from opilio.store.warc import read_record
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import TopicLearner, restored_table
from opilio.topic.setup import load_genre_definitions
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable, table_from_weights

# Known pages that a preview judges again: half sure ones, half doubtful ones.
MAX_PREVIEW_PAGES = 60


class TopicPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a new topic would change."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    # URL, title, before, after, relevant_before, relevant_after.
    pages: tuple[dict[str, Any], ...]

    @property
    def changed(self) -> int:
        return sum(page["relevant_before"] != page["relevant_after"] for page in self.pages)


def current_table(collection: Collection) -> WeightTable:
    """The table as the crawl has it now."""
    return restored_table(latest_state(collection.connection, TOPIC_STATE))


def known_genres(collection: Collection) -> list[str]:
    """The genres a topic may ask for."""
    return sorted(load_genre_definitions(collection_settings(collection)))


def learned_words(collection: Collection) -> dict[str, tuple[str, float]]:
    """Stems that the crawl itself brought into the table: label and weight."""
    own = build_initial_topic(collection_settings(collection), stored_topic(collection)).table.weights
    return {k.stem: (k.label, k.weight) for k in current_table(collection).keywords if k.stem not in own}


def page_text(collection: Collection, url: str) -> str:
    """The text of a page of the collection, to serve as an example; TopicError where there is none."""
    position = record_position(collection.connection, url_key(url))
    if position is None:
        raise TopicError(f"example '{url[:200]}': not a page of this collection; paste its text instead")
    settings, topic = collection_settings(collection), stored_topic(collection)
    try:
        page = build_analysis_parts(settings, topic, {}).analyzer.read(read_record(collection.folder, *position)).page
    except ParseError as error:
        raise TopicError(f"example '{url[:200]}': can't be read as a page: {error}") from error
    return f"{page.title}\n{page.main_text}"


def draft_topic(collection: Collection, topic: Topic, dropped: Iterable[str] = ()) -> TopicReplacement:
    """A topic with its table; words that the crawl brought in stay, but for those that were dropped."""
    settings = collection_settings(collection)
    if topic.dewey:
        topic = msgspec.structs.replace(topic, dewey=checked_classes(topic.dewey, load_lexicon(settings)))
    check_topic_settings(settings, topic)
    table = build_initial_topic(settings, topic).table
    grown = {s: v for s, v in learned_words(collection).items() if s not in set(dropped) and s not in table.weights}
    if not grown:
        return TopicReplacement(topic, table)
    shown = {k.stem: k.label for k in table.keywords} | {stem: label for stem, (label, _) in grown.items()}
    weights = table.weights | {stem: weight for stem, (_, weight) in grown.items()}
    return TopicReplacement(topic, table_from_weights(weights, None, shown))


def preview_topic(collection: Collection, new: TopicReplacement) -> TopicPreview:
    """Judge known pages by a new topic, with everything else as it was learned."""
    before = {k.stem: k.label for k in current_table(collection).keywords}
    after = {k.stem: k.label for k in new.table.keywords}
    parts = build_analysis_parts(collection_settings(collection), new.topic, latest_snapshots(collection))
    parts.evolving_topic.replace(new.table)
    pages: list[dict[str, Any]] = []
    for page in _known_pages(collection):
        with suppress(ParseError, CollectionError):
            verdict = parts.analyzer.verdict(read_record(collection.folder, *page.position))
            now = {"after": round(verdict.score, 4), "relevant_after": verdict.relevant}
            was = {"before": round(page.score, 4), "relevant_before": page.relevant}
            pages.append({"url": page.url, "title": page.title, **was, **now})
    pages.sort(key=lambda p: (p["relevant_before"] == p["relevant_after"], -abs(p["after"] - p["before"])))
    return TopicPreview(
        added=tuple(sorted(label for stem, label in after.items() if stem not in before)),
        removed=tuple(sorted(label for stem, label in before.items() if stem not in after)),
        pages=tuple(pages),
    )


def _known_pages(collection: Collection) -> list[RecordedPage]:
    """The best pages of the collection, and those of which the judge is least sure."""
    db, half = collection.connection, MAX_PREVIEW_PAGES // 2
    return list({page.key: page for page in [*doubtful_pages(db, half), *best_pages(db, half)]}.values())


def save_topic(folder: Path, new: TopicReplacement, now: float) -> str:
    """Send the new topic as a command; returns as `apply_pending_commands` does."""
    send_command(folder, "topic", now, "", msgspec.msgpack.encode(new))
    return apply_pending_commands(folder, now)


def apply_pending_commands(folder: Path, now: float) -> str:
    """Apply the pending commands of a collection that no process writes to; otherwise the name of the writing command.

    A running crawl applies them itself; after any other command the next crawl does.
    """
    if is_crawl_running(folder):
        return CRAWL_COMMAND
    try:
        collection = Collection.open_for_writing(folder, "serve", COMMAND_LOCK_TIMEOUT_S)
    except CollectionError:
        if holder := current_writer(folder):
            return holder
        raise
    try:
        settings = collection_settings(collection)
        writer = CollectionWriter(collection, None)
        writer.resume()
        url_filter = build_url_filter(settings, collection, resumed=False)
        frontier = build_frontier(settings, collection, url_filter)
        load_topics = partial(_load_topics, collection, settings)
        targets = CommandTargets(
            collection, writer, frontier, url_filter.host_rules, load_topics, partial(_retire_agent, collection)
        )
        CommandInbox(targets).apply_stored(now)
    finally:
        collection.close()
    return ""


def _load_topics(collection: Collection, settings: Settings) -> dict[str, TopicLearner]:
    """The tables of a stopped crawl, with what a killed one learned last."""
    topics = build_analysis_parts(settings, stored_topic(collection), latest_snapshots(collection)).topics
    for name, topic in topics.items():
        JournaledLearner(topic, collection, name).replay()
        # They were reported.
        topic.take_events(0.0)
    return topics


def _retire_agent(collection: Collection, name: str, _now: float) -> list[Event]:
    mark_retired(collection.connection, name)
    return []
