"""What a crawl starts with: its topic with the texts of example pages, and the states of its learners.

Both are built once and stored in the collection; every later run loads them.

`--start-from DIR`: a new crawl starts with what another one learned about links, and about pages of the same topic.
Weights of features and words are taken over; queue, hosts and pages are not.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from opilio.core.errors import CollectionError, ConfigError, TopicError
from opilio.core.events import Event, ProblemsFound
from opilio.core.protocols import JUDGE_STATE, TOPIC_STATE, Fetcher
from opilio.core.registry import (
    COMMITTEE_MEMBERS,
    DEFAULT_KINDS,
    START_STATES,
    START_TRAINING,
    has_plugin,
    kind_options,
    load_plugin,
    plugin_names,
)
from opilio.core.settings import Settings, read_toml
from opilio.engine.link_memory import COMMITTEE, CommitteeLearner
from opilio.engine.wiring.topic import build_topic, initial_topic_state, read_examples
from opilio.learn.committee import Committee
from opilio.rank.committee import MemberKind
from opilio.store.collection import Collection, open_readonly
from opilio.store.connection import CONFIG
from opilio.store.learner_states import (
    STATE_RESTORED,
    LearnerJournal,
    SnapshotRow,
    damaged_states,
    latest_states,
    restore_damaged_states,
    write_snapshots,
)
from opilio.store.writer import CollectionWriter
from opilio.topic.topic import Topic

UNTRAINED = (
    "not trained before the crawl; the classifier learns from fetched pages. To start trained: --set rank.model=DIR,"
    " a collection after 'opilio lab train DIR'"
)
Notify = Callable[[str], None]  # receives one line for the user


class StartTraining(msgspec.Struct, frozen=True):
    """The states of learners that were trained before a crawl, and the event that describes the training."""

    states: dict[str, bytes]
    event: Event


def check_start_model(settings: Settings) -> None:
    """ConfigError where a ranker that takes no model is given one."""
    kind = settings.rank.get("kind", DEFAULT_KINDS["rank"])
    if settings.rank.get("model") and "model" not in kind_options("rank", kind):
        raise ConfigError(
            f"--start-from {settings.rank['model']}: strategy '{settings.strategy}' does not learn;"
            " choose --strategy opilio"
        )


def load_start_states(settings: Settings) -> dict[str, bytes]:
    """The first states of the ranker's learners, from the files that its options name; ConfigError for invalid ones."""
    kind = settings.rank["kind"]
    if not has_plugin(START_STATES, kind):
        return {}
    states: dict[str, bytes] = load_plugin(START_STATES, kind)(settings)
    return states


def committee_start_states(settings: Settings) -> dict[str, bytes]:
    """The first states of the committee, from the collection `rank.model`, and those of its members."""
    options, states = settings.rank, dict[str, bytes]()
    if options.get("graph") and not options.get("hints"):
        raise ConfigError(
            f"rank.graph {options['graph']}: not used; set rank.hints=true, or choose --strategy s2-treasure"
        )
    for name in plugin_names(COMMITTEE_MEMBERS):
        if options.get(name) or name in options.get("members", ()):
            member: MemberKind = load_plugin(COMMITTEE_MEMBERS, name)
            states |= member.start_states(settings)
    model = str(options.get("model", ""))
    if not model:
        return states
    try:
        with open_readonly(Path(model)) as collection:
            return _transferable_states(collection, settings) | states
    except CollectionError as error:
        raise ConfigError(f"--start-from {error}") from error


def _transferable_states(collection: Collection, settings: Settings) -> dict[str, bytes]:
    other = read_toml(collection.folder / CONFIG)
    kind = other.get("rank", {}).get("kind", "")
    if kind != "committee":
        raise ConfigError(
            f"--start-from {collection.folder}: was crawled by strategy '{other.get('strategy', '')}',"
            " which stores no link model; choose a collection crawled with the strategy 'opilio'"
        )
    learner = CommitteeLearner(Committee(), collection)
    if not learner.load():
        raise ConfigError(f"--start-from {collection.folder}: has not learned anything yet; crawl first")
    states = {COMMITTEE: learner.transferable_state()}
    judge = LearnerJournal(collection, JUDGE_STATE).load_snapshot()
    same = other.get("topic", {}).get("name", "") == settings.topic.name
    if judge is not None and same and settings.judge["kind"] == other.get("judge", {}).get("kind"):
        states[JUDGE_STATE] = judge
    return states


async def load_topic_and_states(
    collection: Collection, settings: Settings, fetcher: Fetcher, now: float, topic: Topic | None = None
) -> tuple[Topic, dict[str, bytes]]:
    """The topic with its examples and the learners' states; built in the first run, loaded in later ones.

    `topic` is the one that was built when the settings were checked, if it needs no example pages.
    """
    stored = collection.meta("topic")
    if stored:
        _restore_states(collection, now)
        return msgspec.json.decode(stored, type=Topic), latest_snapshots(collection)
    if topic is None or settings.topic.counterexamples:
        positive = await read_examples(settings.topic.examples, fetcher, "topic.examples")
        negative = await read_examples(settings.topic.counterexamples, fetcher, "topic.counterexamples")
        topic = build_topic(settings, positive, negative)
    states = initial_states(settings, topic)
    with collection.unit_of_work():
        collection.set_meta(topic=msgspec.json.encode(topic).decode())
        _write_first_states(collection, states, now)
    return topic, latest_snapshots(collection)


async def train_before_crawl(
    collection: Collection, settings: Settings, now: float, notify: Notify
) -> dict[str, bytes]:
    """States of learners that are trained before the first run, by a plug-in under the ranker's name (S1-13).

    If the process is killed before the first run has started, the next one repeats it.
    """
    kind = settings.rank["kind"]
    if collection.meta("state") or not has_plugin(START_TRAINING, kind):
        return {}
    trained: StartTraining | None = await load_plugin(START_TRAINING, kind)(collection.folder, settings, notify)
    if trained is None:
        return {}
    with collection.unit_of_work():
        _write_first_states(collection, trained.states, now)
        CollectionWriter(collection, None).write_events([trained.event])
    return trained.states


def _write_first_states(collection: Collection, states: Mapping[str, bytes], now: float) -> None:
    write_snapshots(collection.connection, [SnapshotRow(name, 0, now, state) for name, state in states.items()])


def _restore_states(collection: Collection, now: float) -> None:
    """Restore damaged states of learners from their previous ones, and report it."""
    if next(damaged_states(collection), None) is None:
        return
    with collection.unit_of_work():
        problems = tuple(STATE_RESTORED.format(name) for name in restore_damaged_states(collection))
        CollectionWriter(collection, None).write_events([ProblemsFound(at=now, problems=problems)])


def initial_states(settings: Settings, topic: Topic) -> dict[str, bytes]:
    """The states that the learners of a new crawl start with."""
    return {TOPIC_STATE: initial_topic_state(settings, topic), **load_start_states(settings)}


def stored_topic(collection: Collection) -> Topic:
    """The topic of a collection with every change since its start."""
    text = collection.meta("topic")
    if not text:
        raise TopicError(f"{collection.folder}: no topic stored yet: its crawl has not started")
    return msgspec.json.decode(text, type=Topic)


def latest_snapshots(collection: Collection) -> dict[str, bytes]:
    """The newest state of every learner that workers have too."""
    # Workers do not need the state of the committee: the writing process restores it.
    return latest_states(collection.connection, without=COMMITTEE)
