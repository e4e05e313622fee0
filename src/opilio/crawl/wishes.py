"""What people ask of a crawl, from any process: rows of the table `wish`, taken up by whoever writes.

`pause`, `resume` and `stop` are for the crawl that runs. The others change the queue or the topic, and hold for good.
Nothing here talks to another process: whoever asks appends a row, whoever writes looks for rows now and then.
"""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from opilio.crawl.learning import TOPIC
from opilio.model.errors import UsageError
from opilio.model.events import Event, TopicChanged, WishTaken
from opilio.model.protocols import Frontier
from opilio.model.records import key_of
from opilio.model.urls import canonical, host_of
from opilio.store.collection import Collection
from opilio.store.keeper import Keeper
from opilio.store.locks import being_crawled
from opilio.topic.living import LivingTopic
from opilio.topic.table import WeightTable
from opilio.topic.topic import Topic

LOOK_EVERY_S = 0.25
TAKEN = "wishes_taken"  # the number of the last one that was taken up
BOOSTED = 8.0  # above every link and every seed (S0-E12)
EXCLUDED = "excluded by hand"
FOR_THE_RUN = frozenset({"pause", "resume", "stop"})
HEEDED = ("ban", "exclude", "delay", "boost_host", "unboost_host")  # by every later run too
LASTING = frozenset({*HEEDED, "boost", "topic"})


class NewTopic(msgspec.Struct, frozen=True):
    """A topic that takes the place of another, with the table made of it."""

    topic: Topic
    table: WeightTable


class Exclusions:
    """Hosts and patterns of addresses that a person does not want or wants first, and the pauses given to hosts."""

    def __init__(self) -> None:
        self.banned: set[str] = set()
        self._patterns: list[str] = []
        self.pauses: dict[str, float] = {}
        self.boosted: set[str] = set()

    def heed(self, word: str, target: str, data: bytes = b"") -> None:
        """Take up a wish: `ban` a host, `exclude` a pattern, give a host a longer `delay`, or have it first or not."""
        if word == "ban":
            self.banned.add(target)
        elif word == "boost_host":
            self.boosted.add(target)
        elif word == "unboost_host":
            self.boosted.discard(target)
        elif word == "exclude":
            self._patterns.append(target)
        else:
            self.pauses[target] = float(data)

    def refuse(self, url: str) -> str:
        """Why this URL is not wanted, or nothing."""
        if not self.banned and not self._patterns:
            return ""
        unwanted = host_of(url) in self.banned or any(fnmatchcase(url, pattern) for pattern in self._patterns)
        return EXCLUDED if unwanted else ""


class Wishes:
    """Takes up what people asked since it last looked."""

    def __init__(
        self,
        collection: Collection,
        keeper: Keeper,
        frontier: Frontier,
        excluded: Exclusions,
        tables: Mapping[str, LivingTopic],
    ) -> None:
        self._collection = collection
        self._keeper = keeper
        self._frontier = frontier
        self._excluded = excluded
        self._tables = tables  # by the names of their states; the crawl's own is TOPIC
        self._look_at = 0.0
        self._rest = _Rest()
        self.stop = ""  # why to stop, where somebody asked for it

    @property
    def paused(self) -> bool:
        """Is nothing to be asked for at the moment?"""
        return self._rest.since is not None

    def rested_s(self, now: float) -> float:
        """How long the crawl was paused in all."""
        return self._rest.total(now)

    def begin(self, now: float) -> None:
        """Heed what was asked before for good; what was asked of an earlier run is past."""
        _heed_all(self._excluded, self._collection)
        self._take(now, LASTING)

    def look(self, now: float) -> list[Event]:
        """Take up what is new; costs nothing most of the time, one look now and then."""
        if now < self._look_at:
            return []
        self._look_at = now + LOOK_EVERY_S
        return self._take(now, FOR_THE_RUN | LASTING)

    def _take(self, now: float, words: frozenset[str]) -> list[Event]:
        taken = int(self._collection.meta(TAKEN, "0"))
        rows = self._collection.connection.execute(
            "SELECT id, word, target, data FROM wish WHERE id > ? ORDER BY id", (taken,)
        ).fetchall()
        if not rows:
            return []
        events: list[Event] = []
        with self._collection.unit_of_work():
            for _, word, target, data in rows:
                if word in words:
                    events += _DEEDS[word](self, target, bytes(data), now)
                    events.append(WishTaken(at=now, word=word, target=target))
            self._collection.set_meta(**{TAKEN: rows[-1][0]})
            self._keeper.keep_events(events)
        return events

    def _pause(self, _target: str, _data: bytes, now: float) -> list[Event]:
        self._rest.begin(now)
        self._collection.set_meta(paused="1")
        return []

    def _resume(self, _target: str, _data: bytes, now: float) -> list[Event]:
        self._rest.end(now)
        self._collection.set_meta(paused="")
        return []

    def _stop(self, target: str, _data: bytes, _now: float) -> list[Event]:
        self.stop = target or "asked to stop"
        return []

    def _ban(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._excluded.heed("ban", host)
        self._frontier.drop_host(host, EXCLUDED)
        return []

    def _exclude(self, pattern: str, _data: bytes, _now: float) -> list[Event]:
        self._excluded.heed("exclude", pattern)
        hosts = self._collection.connection.execute("SELECT name FROM frontier_host WHERE queued > 0").fetchall()
        for (host,) in hosts:
            self._frontier.drop_host(host, EXCLUDED, pattern)
        return []

    def _delay(self, host: str, data: bytes, _now: float) -> list[Event]:
        self._excluded.heed("delay", host, data)
        self._frontier.set_delay(host, float(data))
        return []

    def _boost_host(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._excluded.heed("boost_host", host)
        return []

    def _unboost_host(self, host: str, _data: bytes, _now: float) -> list[Event]:
        self._excluded.heed("unboost_host", host)
        return []

    def _boost(self, url: str, _data: bytes, _now: float) -> list[Event]:
        self._frontier.rescore([(host_of(url), key_of(url), BOOSTED)])
        return []

    def _topic(self, _target: str, data: bytes, now: float) -> list[Event]:
        """The new table counts at once; the writing process tells it to the workers as any other change of it."""
        new = msgspec.msgpack.decode(data, type=NewTopic)
        own = self._tables[TOPIC]
        before, versions = own.table, {name: living.version for name, living in self._tables.items()}
        own.adopt(new.table)
        table = own.table
        topic = msgspec.structs.replace(new.topic, version=table.version)
        self._collection.set_meta(topic=msgspec.json.encode(topic).decode())
        for name, living in self._tables.items():
            if living is own or living.version != versions[name]:
                self._keeper.keep_snapshot(name, living.version, now, living.snapshot())
        known = {keyword.stem for keyword in before.keywords}
        added = tuple(sorted(k.label for k in table.keywords if k.stem not in known))
        return [TopicChanged(at=now, version=table.version, added=added, size=len(table))]


class _Rest:
    """How long a crawl stood still."""

    def __init__(self) -> None:
        self.since: float | None = None
        self._before = 0.0

    def begin(self, now: float) -> None:
        self.since = now if self.since is None else self.since

    def end(self, now: float) -> None:
        self._before, self.since = self.total(now), None

    def total(self, now: float) -> float:
        return self._before + (0.0 if self.since is None else now - self.since)


_Deed = Callable[[Wishes, str, bytes, float], list[Event]]
_DEEDS: dict[str, _Deed] = {
    "pause": Wishes._pause,
    "resume": Wishes._resume,
    "stop": Wishes._stop,
    "ban": Wishes._ban,
    "exclude": Wishes._exclude,
    "delay": Wishes._delay,
    "boost": Wishes._boost,
    "boost_host": Wishes._boost_host,
    "unboost_host": Wishes._unboost_host,
    "topic": Wishes._topic,
}


def _heed_all(excluded: Exclusions, collection: Collection) -> None:
    places = ", ".join("?" * len(HEEDED))
    for word, target, data in collection.connection.execute(
        f"SELECT word, target, data FROM wish WHERE word IN ({places}) ORDER BY id", HEEDED
    ):
        excluded.heed(word, target, bytes(data))


def wishes_of(collection: Collection) -> Exclusions:
    """What people asked of this crawl for good, for whoever looks."""
    excluded = Exclusions()
    if collection.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'wish'").fetchone():
        _heed_all(excluded, collection)
    return excluded


def ask(folder: Path, word: str, now: float, target: str = "", data: bytes = b"") -> None:
    """Append a wish; the crawl that holds the collection finds it within a moment."""
    if word in FOR_THE_RUN and not being_crawled(folder):
        raise UsageError(f"{folder}: no crawl is running here, so there is nothing to {word}")
    notes = Collection.open_for_notes(folder)
    try:
        with notes.unit_of_work():
            notes.connection.execute(
                "INSERT INTO wish (at, word, target, data) VALUES (?, ?, ?, ?)",
                (now, word, checked(word, target), data),
            )
    finally:
        notes.close()


def checked(word: str, target: str) -> str:
    """What a wish is about, in the form the crawl knows it by; UsageError where it is about nothing."""
    if word not in FOR_THE_RUN | LASTING:
        raise UsageError(f"'{word}': can't be asked of a crawl; known: {', '.join(sorted(FOR_THE_RUN | LASTING))}")
    if word in HEEDED and not target.strip():
        raise UsageError(f"{word}: say which host, or a pattern of addresses such as */tag/*")
    if word == "exclude" and not target.strip("*?"):
        raise UsageError(f"exclude '{target}': would leave nothing; name a part of the addresses, such as */tag/*")
    if word != "boost":
        return target.strip()
    url = canonical(target) if "://" in target else None
    if url is None:
        raise UsageError(f"boost '{target}': is no http or https URL; write it whole")
    return url
