"""`--start-from DIR`: a new crawl begins with what another one learnt about links, and about pages of the same topic.

What paid in general goes over: the weights of features and words. What was there does not: queue, hosts, pages.
"""

from pathlib import Path

from opilio.crawl.config import Settings, read_tree
from opilio.crawl.kinds import DEFAULT_KINDS
from opilio.crawl.learning import JUDGE
from opilio.crawl.rankmemory import COMMITTEE, RankMemory
from opilio.crawl.s1kind import learner_in, trained_learner
from opilio.learn.committee import Committee
from opilio.model.errors import CollectionError, ConfigError
from opilio.store.collection import CONFIG, Collection, reading
from opilio.store.journal import Journal

LEARNING = ("committee", "attributes")  # kinds of rankers that can begin with a model


def check_model(settings: Settings) -> None:
    """ConfigError where a ranker that can't learn is given a model."""
    kind = settings.rank.get("kind", DEFAULT_KINDS["rank"])
    if settings.rank.get("model") and kind not in LEARNING:
        raise ConfigError(
            f"--start-from {settings.rank['model']}: strategy '{settings.strategy}' does not learn;"
            " choose --strategy opilio"
        )


def carried_over(settings: Settings) -> dict[str, bytes]:
    """First states of what learns, from the collection that `rank.model` names; none where it names none."""
    if settings.rank["kind"] == "attributes":
        trained_learner(settings.rank)  # S1's ranker reads it itself; here it is found out whether it can be read
    if settings.rank.get("trained"):
        learner_in(str(settings.rank["trained"]))  # the same for the committee's member
    name = str(settings.rank.get("model", ""))
    if not name or settings.rank["kind"] != "committee":
        return {}
    try:
        with reading(Path(name)) as collection:
            return _states(collection, settings)
    except CollectionError as error:
        raise ConfigError(f"--start-from {error}") from error


def _states(collection: Collection, settings: Settings) -> dict[str, bytes]:
    other = read_tree(collection.folder / CONFIG)
    kind = other.get("rank", {}).get("kind", "")
    if kind != "committee":
        raise ConfigError(
            f"--start-from {collection.folder}: was crawled by strategy '{other.get('strategy', '')}',"
            " which leaves no model of links; one that 'opilio' crawled does"
        )
    memory = RankMemory(Committee(), collection)
    if not memory.relearn():
        raise ConfigError(f"--start-from {collection.folder}: has learnt nothing yet; let it crawl first")
    states = {COMMITTEE: memory.essence()}
    judge = Journal(collection, JUDGE).state()
    same = other.get("topic", {}).get("name", "") == settings.topic.name
    if judge is not None and same and settings.judge["kind"] == other.get("judge", {}).get("kind"):
        states[JUDGE] = judge
    return states
