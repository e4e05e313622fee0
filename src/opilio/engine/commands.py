"""Commands of users to a crawl: one table from which the engine reads in every turn, also while paused or idle.

Every command is defined once, in COMMANDS. A lasting command is also applied when no crawl was running; the others are
for the crawl that runs. No process talks to another: a command is a row that the writing process reads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from opilio.core.errors import UsageError
from opilio.core.events import CommandApplied, Event
from opilio.core.protocols import TOPIC_STATE, Frontier
from opilio.core.records import url_key
from opilio.core.urls import host_of, require_url
from opilio.engine.learning import JournaledLearner
from opilio.engine.politeness.traps import EXCLUDED_REASON, HostRules
from opilio.frontier.sqlite.queries import failed_keys, hosts_with_queue
from opilio.store.collection import Collection
from opilio.store.connection import is_crawl_running
from opilio.store.run_tables import LAST_APPLIED_META_KEY, append_command, commands_after, commands_named
from opilio.store.writer import CollectionWriter
from opilio.topic.evolving import TopicLearner
from opilio.topic.topic import Topic
from opilio.topic.weights import WeightTable

COMMAND_POLL_S = 0.25
# The target of `retry` for the failed URLs of all hosts.
EVERY_HOST = "*"


class TopicReplacement(msgspec.Struct, frozen=True):
    """A topic that replaces another, with its table."""

    topic: Topic
    table: WeightTable


def _no_labels(_now: float) -> list[Event]:
    return []


@dataclass(frozen=True, slots=True)
class CommandTargets:
    """What commands act on. Without an engine (a topic edited offline) labels wait for `opilio label` or a crawl."""

    collection: Collection
    writer: CollectionWriter
    frontier: Frontier
    host_rules: HostRules
    # The tables by the names of their states, as of now; the crawl's own is TOPIC_STATE.
    load_topics: Callable[[], Mapping[str, TopicLearner]]
    retire_agent: Callable[[str, float], list[Event]]
    apply_labels: Callable[[float], list[Event]] = _no_labels


class CommandInbox:
    """Applies the commands given since its last poll."""

    def __init__(self, targets: CommandTargets, suspended_s: Callable[[], float] = float) -> None:
        self._targets = targets
        self._next_poll_at = 0.0
        self.pause_timer = PauseTimer(suspended_s)
        # Set by the command `stop`.
        self.stop_reason = ""

    @property
    def paused(self) -> bool:
        """Is the crawl paused?"""
        return self.pause_timer.paused_since is not None

    def paused_s(self, now: float) -> float:
        """How long the crawl was paused in all, without the time while the machine was suspended."""
        return self.pause_timer.total_s(now)

    def apply_stored(self, now: float) -> None:
        """At start-up: apply host rules again and lasting commands once; those for an earlier run have no effect."""
        apply_host_rules(self._targets.host_rules, self._targets.collection)
        self._apply_new(now, lasting_only=True)

    def poll(self, now: float) -> list[Event]:
        """Apply new commands; reads the table at most once every COMMAND_POLL_S."""
        if now < self._next_poll_at:
            return []
        self._next_poll_at = now + COMMAND_POLL_S
        return self._apply_new(now, lasting_only=False)

    def _apply_new(self, now: float, *, lasting_only: bool) -> list[Event]:
        collection = self._targets.collection
        rows = commands_after(collection.connection, int(collection.meta(LAST_APPLIED_META_KEY, "0")))
        if not rows:
            return []
        events: list[Event] = []
        with collection.unit_of_work():
            for row in rows:
                command = COMMANDS.get(row.name)
                if command is None or (lasting_only and not command.lasting):
                    continue
                events += command.apply(self, row.target, bytes(row.data), now)
                if command.reported:
                    events.append(CommandApplied(at=now, command=row.name, target=row.target))
            collection.set_meta(**{LAST_APPLIED_META_KEY: rows[-1].id})
            self._targets.writer.write_events(events)
        return events

    def pause(self, _target: str, _data: bytes, now: float) -> list[Event]:
        self.pause_timer.start(now)
        self._targets.collection.set_meta(paused="1")
        return []

    def resume(self, _target: str, _data: bytes, now: float) -> list[Event]:
        self.pause_timer.stop(now)
        self._targets.collection.set_meta(paused="")
        return []

    def stop(self, target: str, _data: bytes, _now: float) -> list[Event]:
        self.stop_reason = target or "stopped by a command"
        return []

    def _ban(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._targets.host_rules.apply("ban", host)
        self._targets.frontier.drop_host(host, EXCLUDED_REASON)
        return []

    def _exclude(self, pattern: str, _data: bytes, _now: float) -> list[Event]:
        self._targets.host_rules.apply("exclude", pattern)
        for host in hosts_with_queue(self._targets.collection.connection):
            self._targets.frontier.drop_host(host, EXCLUDED_REASON, lambda url: fnmatchcase(url, pattern))
        return []

    def _delay(self, host: str, data: bytes, _now: float) -> list[Event]:
        self._targets.host_rules.apply("delay", host, data)
        self._targets.frontier.set_delay(host, float(data))
        return []

    def _boost_host(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._targets.host_rules.apply("boost_host", host)
        return []

    def _unboost_host(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._targets.host_rules.apply("unboost_host", host)
        return []

    def _boost(self, url: str, _data: bytes, _now: float) -> list[Event]:
        self._targets.frontier.boost([(host_of(url), url_key(url))])
        return []

    def _retry(self, host: str, cause: bytes, _now: float) -> list[Event]:
        failed = failed_keys(self._targets.collection.connection, "" if host == EVERY_HOST else host, cause.decode())
        self._targets.frontier.revive(failed)
        return []

    def _label(self, _target: str, _data: bytes, now: float) -> list[Event]:
        return self._targets.apply_labels(now)

    def _retire(self, agent: str, _data: bytes, now: float) -> list[Event]:
        return self._targets.retire_agent(agent, now)

    def _topic(self, _target: str, data: bytes, now: float) -> list[Event]:
        """The new table counts at once; workers receive it as any other change of it."""
        new = msgspec.msgpack.decode(data, type=TopicReplacement)
        collection, topics = self._targets.collection, self._targets.load_topics()
        own, versions = topics[TOPIC_STATE], {name: topic.version for name, topic in topics.items()}
        own.topic.replace(new.table)
        stored = msgspec.structs.replace(new.topic, version=own.version)
        collection.set_meta(topic=msgspec.json.encode(stored).decode())
        for name, topic in topics.items():
            if topic.version != versions[name]:
                JournaledLearner(topic, collection, name).save(now)
        return [event for topic in topics.values() for event in topic.take_events(now)]


class PauseTimer:
    """How long a crawl was paused while the machine was awake: `suspended_s` returns how long it was not."""

    def __init__(self, suspended_s: Callable[[], float]) -> None:
        self._suspended_s = suspended_s
        # In seconds awake.
        self.paused_since: float | None = None
        self._previous_s = 0.0

    def start(self, now: float) -> None:
        self.paused_since = now - self._suspended_s() if self.paused_since is None else self.paused_since

    def stop(self, now: float) -> None:
        self._previous_s, self.paused_since = self.total_s(now), None

    def total_s(self, now: float) -> float:
        since = self.paused_since
        return self._previous_s + (0.0 if since is None else now - self._suspended_s() - since)


def _any_target(_name: str, target: str) -> str:
    return target.strip()


def _host_target(name: str, target: str) -> str:
    if not target.strip():
        raise UsageError(f"{name}: give a host, or a URL pattern such as */tag/*")
    return target.strip()


def _pattern_target(name: str, target: str) -> str:
    if not _host_target(name, target).strip("*?"):
        raise UsageError(f"exclude '{target}': would exclude everything; give a narrower pattern, such as */tag/*")
    return target.strip()


def _url_target(name: str, target: str) -> str:
    return require_url(target, name)


@dataclass(frozen=True, slots=True)
class CommandType:
    """One command: what it does, how its target is checked, and how long it holds."""

    apply: Callable[[CommandInbox, str, bytes, float], list[Event]]
    check: Callable[[str, str], str] = _any_target
    # Also applied by a later run, where none is running.
    lasting: bool = False
    host_rule: bool = False  # applied again by every later run
    # As the event CommandApplied; others have events of their own.
    reported: bool = True


COMMANDS: dict[str, CommandType] = {
    "pause": CommandType(CommandInbox.pause),
    "resume": CommandType(CommandInbox.resume),
    "stop": CommandType(CommandInbox.stop),
    "ban": CommandType(CommandInbox._ban, _host_target, lasting=True, host_rule=True),
    "exclude": CommandType(CommandInbox._exclude, _pattern_target, lasting=True, host_rule=True),
    "delay": CommandType(CommandInbox._delay, _host_target, lasting=True, host_rule=True),
    "boost_host": CommandType(CommandInbox._boost_host, _host_target, lasting=True, host_rule=True),
    "unboost_host": CommandType(CommandInbox._unboost_host, _host_target, lasting=True, host_rule=True),
    "boost": CommandType(CommandInbox._boost, _url_target, lasting=True),
    "retry": CommandType(CommandInbox._retry, _host_target, lasting=True),
    "topic": CommandType(CommandInbox._topic, lasting=True),
    "label": CommandType(CommandInbox._label, lasting=True, reported=False),
    "retire": CommandType(CommandInbox._retire, _host_target, lasting=True, reported=False),
}
HOST_RULE_COMMANDS = tuple(name for name, command in COMMANDS.items() if command.host_rule)
LASTING_COMMANDS = tuple(name for name, command in COMMANDS.items() if command.lasting)


def apply_host_rules(rules: HostRules, collection: Collection) -> None:
    """Apply every host rule that users gave a collection."""
    for row in commands_named(collection.connection, HOST_RULE_COMMANDS):
        rules.apply(row.name, row.target, bytes(row.data))


def load_host_rules(collection: Collection) -> HostRules:
    """The host rules of a collection."""
    rules = HostRules()
    apply_host_rules(rules, collection)
    return rules


def send_command(folder: Path, name: str, now: float, target: str = "", data: bytes = b"") -> None:
    """Append a command; the crawl that holds the collection applies it within COMMAND_POLL_S."""
    target = check_command(name, target)
    if not COMMANDS[name].lasting and not is_crawl_running(folder):
        raise UsageError(f"{folder}: no crawl is running here, so there is nothing to {name}")
    collection = Collection.open_for_append(folder)
    try:
        with collection.unit_of_work():
            append_command(collection.connection, now, name, target, data)
    finally:
        collection.close()


def check_command(name: str, target: str) -> str:
    """The target in the form the crawl uses; UsageError where command or target are wrong."""
    command = COMMANDS.get(name)
    if command is None:
        raise UsageError(f"'{name}': not a command; known: {', '.join(sorted(COMMANDS))}")
    return command.check(name, target)
