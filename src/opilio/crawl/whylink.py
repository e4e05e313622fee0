"""Why the committee ranks a link as it does, in words: what raised it, what lowered it, how its siblings turned out.

Told is what the committee thinks with what it has learnt up to now. Words are hashed when they are learnt, so they
are read again from the page that the link stands on.
"""

from contextlib import suppress
from typing import Any

import msgspec

from opilio.agents.tags import owner, untagged
from opilio.crawl.beginning import latest_snapshots
from opilio.crawl.build import Mind, complete, make_mind
from opilio.crawl.config import resolve
from opilio.crawl.job import settings_of
from opilio.crawl.learning import JUDGE
from opilio.crawl.profiles import crewed, profiles
from opilio.crawl.rankmemory import NOBODYS, RankMemory, Whose
from opilio.judge.learned import LearnedJudge
from opilio.learn.committee import Committee
from opilio.learn.explain import Explanation, explain
from opilio.model.errors import CollectionError, ParseError
from opilio.model.protocols import Entry
from opilio.rank.committee import CommitteeRanker
from opilio.store.collection import Collection
from opilio.store.warc import read_record
from opilio.topic.topic import Topic

SHOWN = 8  # features and words that weigh most, either way
SLIGHT = 0.005  # what adds less is not worth a word
PHRASES = {
    "parent": "how far the page it stands on is on the topic",
    "anchor": "the topic's words in the anchor",
    "around": "the topic's words around it",
    "url": "the topic's words in the URL",
    "same host": "it stays on its host",
    "textless": "it has no anchor text",
    "path depth": "how deep its path is",
    "query": "its URL has a query",
    "words at it": "what its words are worth on pages",
    "words around": "what the words around it are worth on pages",
    "found": "how many pages link to it",
    "relevant parents": "how many relevant pages link to it",
    "tunnel": "irrelevant pages on the way to it",
    "tag path": "links at the same place of other pages",
    "directory": "pages of its directory",
    "host": "pages of its host",
    "list": "other links of the same list",
    "page": "other links of the same page",
    "genre": "the wanted genres' words at it",
    "S1": "what the learner trained before says",
    "S3": "its topic score by S3",
    "galaxy": "the Dewey classes that the words at it speak of",
    "T-Graph": "how near to a target the T-Graph holds it",
    "similarity": "how like a node of the T-Graph it is",
    "layer": "how near to a target the context graph holds its page",
}


def why_link(collection: Collection, entry: Entry) -> dict[str, Any]:
    """What the ranker thinks of a link; nothing where it is no committee, or never saw the link."""
    settings = settings_of(collection)
    if settings.get("rank", {}).get("kind") != "committee" or not entry.lead.features or not _journaled(collection):
        return {}
    resolved = complete(resolve(settings, str(collection.folder / "crawl.toml")))
    topic = msgspec.json.decode(collection.meta("topic"), type=Topic)
    mind = make_mind(resolved, topic, latest_snapshots(collection))
    if not isinstance(mind.ranker, CommitteeRanker):
        return {}
    whose, judge = NOBODYS, mind.learners.get(JUDGE)
    if crewed(resolved):
        for profile, one in zip(profiles(resolved), mind.crew, strict=True):
            if profile.number == owner(entry.lead):
                whose, judge = Whose(profile.name, profile.number), one.learners.get(JUDGE)
        entry = msgspec.structs.replace(entry, lead=untagged(entry.lead))
    memory = RankMemory(Committee(mind.ranker.options), collection, whose)
    memory.relearn()
    if isinstance(judge, LearnedJudge):
        memory.committee.hear(*judge.model.known)
    row = memory.recall(entry)
    if row is None:
        return {}
    return {"ranker": _told(explain(memory.committee, row), _words(collection, mind, entry), _pages(collection, entry))}


def _journaled(collection: Collection) -> bool:
    """Was the collection written by a version that keeps what it learns?"""
    found = collection.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'lesson'").fetchone()
    return found is not None


def _pages(collection: Collection, entry: Entry) -> list[str]:
    urls = []
    for parent in entry.parents:
        row = collection.connection.execute("SELECT url FROM page WHERE key = ?", (parent,)).fetchone()
        urls.append(row[0] if row else "")
    return urls


def _words(collection: Collection, mind: Mind, entry: Entry) -> dict[int, str]:
    """The link's words by the index they are hashed to, read from the page whose context counts."""
    row = collection.connection.execute(
        "SELECT warc, offset, length FROM page WHERE key = ?", (entry.lead.parent,)
    ).fetchone()
    if row is None or not row[2] or not isinstance(mind.ranker, CommitteeRanker):
        return {}
    with suppress(ParseError, CollectionError):
        reading = mind.analyst.read(read_record(collection.folder, *row))
        for place, link in enumerate(reading.page.links):
            if link.key == entry.lead.key:
                return mind.ranker.named(reading, place)
    return {}


def _told(why: Explanation, words: dict[int, str], pages: list[str]) -> dict[str, Any]:
    effects: list[dict[str, Any]] = [
        {"what": PHRASES.get(p.name, p.name), "value": round(p.value, 3), "effect": round(p.effect, 3)}
        for p in why.parts
        if p.name != "bias"
    ]
    named: dict[str, float] = {}
    for index, effect in why.words:
        name = words.get(index, "words that can't be read back")
        named[name] = named.get(name, 0.0) + effect
    effects += [{"what": name, "effect": round(effect, 3)} for name, effect in named.items()]
    effects = sorted((e for e in effects if abs(e["effect"]) >= SLIGHT), key=lambda e: -abs(e["effect"]))
    siblings = [
        {"page": pages[s.context], "fetched": s.fetched, "mean_reward": round(s.mean_reward, 3)}
        for s in why.siblings
        if s.context < len(pages)
    ]
    return {
        "score_now": round(why.score, 4),
        "learnt_from": why.fetched,
        "raised_by": [e for e in effects if e["effect"] > 0][:SHOWN],
        "lowered_by": [e for e in effects if e["effect"] < 0][:SHOWN],
        "siblings": siblings,
    }
