"""What people ask of a crawl, from any process: rows of the table `wish`, taken up by whoever writes.

`pause`, `resume` and `stop` are for the crawl that runs. The others change the queue or the topic, and hold for good.
Nothing here talks to another process: whoever asks appends a row, whoever writes looks for rows now and then.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from opilio.core.errors import UsageError
from opilio.core.events import CommandApplied, Event, TopicChanged
from opilio.core.learner import TOPIC_STATE
from opilio.core.protocols import Frontier
from opilio.core.records import url_key
from opilio.core.urls import canonicalize_url, host_of
from opilio.engine.politeness.traps import EXCLUDED_REASON, HostRules
from opilio.frontier.sqlite.queries import hosts_with_queue
from opilio.store.collection import Collection
from opilio.store.commands import append_command, commands_after, commands_named
from opilio.store.locks import is_crawl_running
from opilio.store.run_tables import has_table
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import EvolvingTopic
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable

COMMAND_POLL_S = 0.25
LAST_COMMAND_META_KEY = "wishes_taken"  # the number of the last one that was taken up
RUN_COMMANDS = frozenset({"pause", "resume", "stop"})
HOST_RULE_COMMANDS = ("ban", "exclude", "delay", "boost_host", "unboost_host")  # by every later run too
PERSISTENT_COMMANDS = frozenset({*HOST_RULE_COMMANDS, "boost", "topic"})


class TopicReplacement(msgspec.Struct, frozen=True):
    """A topic that takes the place of another, with the table made of it."""

    topic: Topic
    table: WeightTable


class CommandInbox:
    """Takes up what people asked since it last looked."""

    def __init__(
        self,
        collection: Collection,
        keeper: CollectionWriter,
        frontier: Frontier,
        excluded: HostRules,
        tables: Mapping[str, EvolvingTopic],
    ) -> None:
        self._collection = collection
        self._writer = keeper
        self._frontier = frontier
        self._host_rules = excluded
        self._topics = tables  # by the names of their states; the crawl's own is TOPIC
        self._next_poll_at = 0.0
        self._pause_timer = _PauseTimer()
        self.stop_reason = ""  # why to stop, where somebody asked for it

    @property
    def paused(self) -> bool:
        """Is nothing to be asked for at the moment?"""
        return self._pause_timer.paused_since is not None

    def paused_s(self, now: float) -> float:
        """How long the crawl was paused in all."""
        return self._pause_timer.total_s(now)

    def apply_stored(self, now: float) -> None:
        """Heed what was asked before for good; what was asked of an earlier run is past."""
        _apply_stored_host_rules(self._host_rules, self._collection)
        self._apply_new(now, PERSISTENT_COMMANDS)

    def poll(self, now: float) -> list[Event]:
        """Take up what is new; costs nothing most of the time, one look now and then."""
        if now < self._next_poll_at:
            return []
        self._next_poll_at = now + COMMAND_POLL_S
        return self._apply_new(now, RUN_COMMANDS | PERSISTENT_COMMANDS)

    def _apply_new(self, now: float, words: frozenset[str]) -> list[Event]:
        taken = int(self._collection.meta(LAST_COMMAND_META_KEY, "0"))
        rows = commands_after(self._collection.connection, taken)
        if not rows:
            return []
        events: list[Event] = []
        with self._collection.unit_of_work():
            for row in rows:
                if row.word in words:
                    events += _HANDLERS[row.word](self, row.target, bytes(row.data), now)
                    events.append(CommandApplied(at=now, command=row.word, target=row.target))
            self._collection.set_meta(**{LAST_COMMAND_META_KEY: rows[-1].id})
            self._writer.write_events(events)
        return events

    def _pause(self, _target: str, _data: bytes, now: float) -> list[Event]:
        self._pause_timer.start(now)
        self._collection.set_meta(paused="1")
        return []

    def _resume(self, _target: str, _data: bytes, now: float) -> list[Event]:
        self._pause_timer.stop(now)
        self._collection.set_meta(paused="")
        return []

    def _stop(self, target: str, _data: bytes, _now: float) -> list[Event]:
        self.stop_reason = target or "asked to stop"
        return []

    def _ban(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._host_rules.apply("ban", host)
        self._frontier.drop_host(host, EXCLUDED_REASON)
        return []

    def _exclude(self, pattern: str, _data: bytes, _now: float) -> list[Event]:
        self._host_rules.apply("exclude", pattern)
        for host in hosts_with_queue(self._collection.connection):
            self._frontier.drop_host(host, EXCLUDED_REASON, pattern)
        return []

    def _delay(self, host: str, data: bytes, _now: float) -> list[Event]:
        self._host_rules.apply("delay", host, data)
        self._frontier.set_delay(host, float(data))
        return []

    def _boost_host(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._host_rules.apply("boost_host", host)
        return []

    def _unboost_host(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._host_rules.apply("unboost_host", host)
        return []

    def _boost(self, url: str, _data: bytes, _now: float) -> list[Event]:
        self._frontier.boost([(host_of(url), url_key(url))])
        return []

    def _topic(self, _target: str, data: bytes, now: float) -> list[Event]:
        """The new table counts at once; the writing process tells it to the workers as any other change of it."""
        new = msgspec.msgpack.decode(data, type=TopicReplacement)
        own = self._topics[TOPIC_STATE]
        before, versions = own.table, {name: living.version for name, living in self._topics.items()}
        own.replace(new.table)
        table = own.table
        topic = msgspec.structs.replace(new.topic, version=table.version)
        self._collection.set_meta(topic=msgspec.json.encode(topic).decode())
        for name, living in self._topics.items():
            if living is own or living.version != versions[name]:
                self._writer.write_snapshot(name, living.version, now, living.snapshot())
        known = {keyword.stem for keyword in before.keywords}
        added = tuple(sorted(k.label for k in table.keywords if k.stem not in known))
        return [TopicChanged(at=now, version=table.version, added=added, size=len(table))]


class _PauseTimer:
    """How long a crawl stood still."""

    def __init__(self) -> None:
        self.paused_since: float | None = None
        self._previous_s = 0.0

    def start(self, now: float) -> None:
        self.paused_since = now if self.paused_since is None else self.paused_since

    def stop(self, now: float) -> None:
        self._previous_s, self.paused_since = self.total_s(now), None

    def total_s(self, now: float) -> float:
        return self._previous_s + (0.0 if self.paused_since is None else now - self.paused_since)


_CommandHandler = Callable[[CommandInbox, str, bytes, float], list[Event]]
_HANDLERS: dict[str, _CommandHandler] = {
    "pause": CommandInbox._pause,
    "resume": CommandInbox._resume,
    "stop": CommandInbox._stop,
    "ban": CommandInbox._ban,
    "exclude": CommandInbox._exclude,
    "delay": CommandInbox._delay,
    "boost": CommandInbox._boost,
    "boost_host": CommandInbox._boost_host,
    "unboost_host": CommandInbox._unboost_host,
    "topic": CommandInbox._topic,
}


def _apply_stored_host_rules(excluded: HostRules, collection: Collection) -> None:
    for row in commands_named(collection.connection, HOST_RULE_COMMANDS):
        excluded.apply(row.word, row.target, bytes(row.data))


def load_host_rules(collection: Collection) -> HostRules:
    """What people asked of this crawl for good, for whoever looks."""
    excluded = HostRules()
    if has_table(collection.connection, "wish"):
        _apply_stored_host_rules(excluded, collection)
    return excluded


def send_command(folder: Path, word: str, now: float, target: str = "", data: bytes = b"") -> None:
    """Append a wish; the crawl that holds the collection finds it within a moment."""
    if word in RUN_COMMANDS and not is_crawl_running(folder):
        raise UsageError(f"{folder}: no crawl is running here, so there is nothing to {word}")
    notes = Collection.open_for_append(folder)
    try:
        with notes.unit_of_work():
            append_command(notes.connection, now, word, validate_command_target(word, target), data)
    finally:
        notes.close()


def validate_command_target(word: str, target: str) -> str:
    """What a wish is about, in the form the crawl knows it by; UsageError where it is about nothing."""
    if word not in RUN_COMMANDS | PERSISTENT_COMMANDS:
        raise UsageError(
            f"'{word}': can't be asked of a crawl; known: {', '.join(sorted(RUN_COMMANDS | PERSISTENT_COMMANDS))}"
        )
    if word in HOST_RULE_COMMANDS and not target.strip():
        raise UsageError(f"{word}: say which host, or a pattern of addresses such as */tag/*")
    if word == "exclude" and not target.strip("*?"):
        raise UsageError(f"exclude '{target}': would leave nothing; name a part of the addresses, such as */tag/*")
    if word != "boost":
        return target.strip()
    url = canonicalize_url(target) if "://" in target else None
    if url is None:
        raise UsageError(f"boost '{target}': is no http or https URL; write it whole")
    return url
