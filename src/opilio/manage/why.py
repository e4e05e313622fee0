"""Why was this URL fetched, skipped, kept? Everything a collection knows of it, as one object.

Why the committee ranks a link as it does, in words: what raised it, what lowered it, how its siblings turned out.

Told is what the committee thinks with what it has learnt up to now. Words are hashed when they are learnt, so they
are read again from the page that the link stands on.
"""

import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from isal import isal_zlib

from opilio.core.errors import CollectionError, ParseError, UsageError
from opilio.core.protocols import FrontierEntry
from opilio.core.records import Reason, UrlState, lead_owner, url_key, without_owner
from opilio.core.urls import canonicalize_url, host_of
from opilio.engine.learning import JUDGE_STATE
from opilio.engine.link_columns import unpack
from opilio.engine.link_memory import NO_AGENT, LinkModelStore, Owner
from opilio.engine.wiring.build import AnalysisParts, build_analysis_parts, complete_settings
from opilio.engine.wiring.start import latest_snapshots
from opilio.frontier.sqlite.frontier import SqliteFrontier
from opilio.judge.learned import LearnedJudge
from opilio.learn.committee import Committee
from opilio.learn.explain import LinkExplanation, explain_link
from opilio.manage.agents import agent_cards
from opilio.methods.agents.profiles import agent_profiles, uses_agents
from opilio.rank.committee import CommitteeRanker
from opilio.store.collection import Collection, load_settings, open_readonly
from opilio.store.warc import read_record
from opilio.topic.setup import resolve_settings
from opilio.topic.topic import Topic

MAX_EFFECTS = 8  # features and words that weigh most, either way
MIN_EFFECT = 0.005  # what adds less is not worth a word
FEATURE_DESCRIPTIONS = {
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


def explain_link_score(collection: Collection, entry: FrontierEntry) -> dict[str, Any]:
    """What the ranker thinks of a link; nothing where it is no committee, or never saw the link."""
    settings = load_settings(collection)
    if settings.get("rank", {}).get("kind") != "committee" or not entry.lead.features or not _has_journal(collection):
        return {}
    resolved = complete_settings(resolve_settings(settings, str(collection.folder / "crawl.toml")))
    topic = msgspec.json.decode(collection.meta("topic"), type=Topic)
    mind = build_analysis_parts(resolved, topic, latest_snapshots(collection))
    if not isinstance(mind.ranker, CommitteeRanker):
        return {}
    whose, judge = NO_AGENT, mind.learners.get(JUDGE_STATE)
    if uses_agents(resolved):
        for profile, one in zip(agent_profiles(resolved), mind.agents, strict=True):
            if profile.number == lead_owner(entry.lead):
                whose, judge = Owner(profile.name, profile.number), one.learners.get(JUDGE_STATE)
        entry = msgspec.structs.replace(entry, lead=without_owner(entry.lead))
    memory = LinkModelStore(Committee(mind.ranker.options), collection, whose)
    memory.restore()
    if isinstance(judge, LearnedJudge):
        memory.committee.update_word_values(*judge.model.term_weights)
    row = memory.load_link(entry)
    if row is None:
        return {}
    return {
        "ranker": _explanation_to_dict(
            explain_link(memory.committee, row),
            _words_by_hash(collection, mind, entry),
            _parent_urls(collection, entry),
        )
    }


def _has_journal(collection: Collection) -> bool:
    """Was the collection written by a version that keeps what it learns?"""
    found = collection.connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'lesson'").fetchone()
    return found is not None


def _parent_urls(collection: Collection, entry: FrontierEntry) -> list[str]:
    urls = []
    for parent in entry.parents:
        row = collection.connection.execute("SELECT url FROM page WHERE key = ?", (parent,)).fetchone()
        urls.append(row[0] if row else "")
    return urls


def _words_by_hash(collection: Collection, mind: AnalysisParts, entry: FrontierEntry) -> dict[int, str]:
    """The link's words by the index they are hashed to, read from the page whose context counts."""
    row = collection.connection.execute(
        "SELECT warc, offset, length FROM page WHERE key = ?", (entry.lead.parent,)
    ).fetchone()
    if row is None or not row[2] or not isinstance(mind.ranker, CommitteeRanker):
        return {}
    with suppress(ParseError, CollectionError):
        reading = mind.analyzer.read(read_record(collection.folder, *row))
        for place, link in enumerate(reading.page.links):
            if link.key == entry.lead.key:
                return mind.ranker.word_labels(reading, place)
    return {}


def _explanation_to_dict(why: LinkExplanation, words: dict[int, str], pages: list[str]) -> dict[str, Any]:
    effects: list[dict[str, Any]] = [
        {"what": FEATURE_DESCRIPTIONS.get(p.name, p.name), "value": round(p.value, 3), "effect": round(p.effect, 3)}
        for p in why.parts
        if p.name != "bias"
    ]
    named: dict[str, float] = {}
    for index, effect in why.words:
        name = words.get(index, "words that can't be read back")
        named[name] = named.get(name, 0.0) + effect
    effects += [{"what": name, "effect": round(effect, 3)} for name, effect in named.items()]
    effects = sorted((e for e in effects if abs(e["effect"]) >= MIN_EFFECT), key=lambda e: -abs(e["effect"]))
    siblings = [
        {"page": pages[s.context], "fetched": s.fetched, "mean_reward": round(s.mean_reward, 3)}
        for s in why.siblings
        if s.context < len(pages)
    ]
    return {
        "score_now": round(why.score, 4),
        "learnt_from": why.fetched,
        "raised_by": [e for e in effects if e["effect"] > 0][:MAX_EFFECTS],
        "lowered_by": [e for e in effects if e["effect"] < 0][:MAX_EFFECTS],
        "siblings": siblings,
    }


_reasons = msgspec.msgpack.Decoder(tuple[Reason, ...]).decode
_PAGE = ("title", "score", "relevant", "reasons", "duplicate_of", "near_duplicate", "fetched_at", "language", "genre")
_ANSWER = ("at", "status", "failure", "detail", "location")
_REVISIT_COLUMNS = ("checks", "changes", "checked_at", "changed_at", "strikes", "found", "brought")
# The page as it is, or as it was last: reasons outlive pages that are gone.
_LATEST_PAGE = """SELECT url, title FROM (SELECT url, title, 1 AS now, seq FROM page WHERE key = :key
    UNION ALL SELECT url, title, 0, seq FROM version WHERE key = :key) ORDER BY now DESC, seq DESC LIMIT 1"""
_REDIRECT_SOURCE = """SELECT u.url FROM (SELECT key FROM answer WHERE location = ? ORDER BY seq LIMIT 1) AS a
    CROSS JOIN frontier_host AS h CROSS JOIN frontier_url AS u ON u.host_id = h.id AND u.key = a.key"""
MAX_PATH_LENGTH = 30
MAX_PARENTS = 5
SKIPPED = "skipped"  # seen in pages, never queued: no state of the frontier


def why(folder: Path, url: str) -> dict[str, Any]:
    """All reasons for one URL. `found` is False for a URL that was never seen."""
    address = canonicalize_url(url)
    if address is None:
        raise UsageError(f"'{url}': is no http or https URL; write it whole, for example https://example.org/")
    with open_readonly(folder) as collection:
        return _why(collection, address)


def _why(collection: Collection, url: str) -> dict[str, Any]:
    key = url_key(url)
    frontier = SqliteFrontier(collection.connection)
    entry = frontier.entry(host_of(url), key)
    result: dict[str, Any] = {"url": url, "found": entry is not None}
    if entry is not None:
        result |= _frontier_status(entry)
        if came_by := _redirects(collection, entry):
            result["redirected_from"] = came_by
        result["found_on"] = _contexts(collection, (key, *map(url_key, came_by)), entry.parents)
        result["path"] = _path(collection, frontier, entry)
        result |= _host_backoff(collection, host_of(url)) if entry.state is UrlState.QUEUED else {}
        result |= explain_link_score(collection, entry)
    elif contexts := _contexts(collection, (key,), _parents_not_followed(collection, key)):
        result |= {"found": True, "state": SKIPPED, "reason": contexts[0]["not_followed"], "found_on": contexts}
    seed = collection.connection.execute("SELECT priority, sources FROM seed WHERE key = ?", (key,)).fetchone()
    if seed:
        result["seed"] = {"priority": seed[0], "sources": seed[1]}
    rows = collection.connection.execute(f"SELECT {', '.join(_ANSWER)} FROM answer WHERE key = ? ORDER BY seq", (key,))
    result["answers"] = [dict(zip(_ANSWER, row, strict=True)) for row in rows]
    page = _page(collection, key)
    if page:
        result["page"] = page
    looks = collection.connection.execute(
        f"SELECT {', '.join(_REVISIT_COLUMNS)} FROM revisit WHERE key = ?", (key,)
    ).fetchone()
    if looks is not None and looks[0]:
        result["looks"] = dict(zip(_REVISIT_COLUMNS, looks, strict=True))
    if cards := agent_cards(collection):
        result["agents"] = _agents(collection, key, {card.number: card.name for card in cards})
    return result


def _agents(collection: Collection, key: int, names: dict[int, str]) -> list[dict[str, Any]]:
    """What each agent found the page to be, and who asked for it."""
    rows = collection.connection.execute(
        "SELECT agent, own, score, relevant FROM verdict WHERE page = ? ORDER BY agent", (key,)
    )
    return [
        {"agent": names.get(agent, ""), "fetched": bool(own), "score": score, "relevant": bool(relevant)}
        for agent, own, score, relevant in rows
    ]


def _frontier_status(entry: FrontierEntry) -> dict[str, Any]:
    return {
        "state": entry.state.value,
        "reason": entry.reason,
        "score": entry.lead.score,
        "priority": entry.priority,
        "depth": entry.lead.depth,
        "tunnel": entry.lead.tunnel,
        "times_found": entry.times_found,
    }


def _redirects(collection: Collection, entry: FrontierEntry) -> list[str]:
    """The addresses whose redirects led to a URL, the last of them first. No index leads there, but few URLs ask."""
    came_by: list[str] = []
    url = entry.lead.url
    while len(came_by) < entry.lead.hops:
        row = collection.connection.execute(_REDIRECT_SOURCE, (url,)).fetchone()
        if row is None or row[0] in came_by:
            break
        url = row[0]
        came_by.append(url)
    return came_by


def _contexts(collection: Collection, keys: tuple[int, ...], parents: tuple[int, ...]) -> list[dict[str, Any]]:
    """Where it was found, with which anchor, and the parts of the score it got there; `keys`: it, or what led to it."""
    found = []
    for parent in parents:
        row = collection.connection.execute(
            f"SELECT p.url, p.title, l.columns FROM ({_LATEST_PAGE}) AS p JOIN links AS l ON l.parent = :key",
            {"key": parent},
        ).fetchone()
        if row is None:
            continue
        columns = unpack(row[2])
        parts = np.frombuffer(columns.parts, dtype=np.float32).reshape(len(columns.urls), len(columns.names))
        scores = np.frombuffer(columns.scores, dtype=np.float32)
        found += [
            {
                "page": row[0],
                "title": row[1],
                "anchor": columns.anchors[at],
                "score": round(float(scores[at]), 4),
                "parts": {n: round(float(v), 4) for n, v in zip(columns.names, parts[at], strict=True)},
                "not_followed": columns.dropped.get(int(at), ""),
            }
            for at in np.flatnonzero(np.isin(np.frombuffer(columns.keys, dtype=np.int64), keys))
        ]
    return found


def _parents_not_followed(collection: Collection, key: int) -> tuple[int, ...]:
    """Pages that link a URL which never came into the queue: their links were below a threshold, nofollow, ...

    No index leads there, so it looks through the links of every page; as bytes, that is 20 µs a page.
    """
    wanted = key.to_bytes(8, sys.byteorder, signed=True)
    rows = collection.connection.execute("SELECT parent, columns FROM links")
    return tuple(islice((parent for parent, blob in rows if wanted in isal_zlib.decompress(blob)), MAX_PARENTS))


def _host_backoff(collection: Collection, host: str) -> dict[str, Any]:
    """Why the host of a queued URL is not asked, when it asked us to wait and nothing came after that."""
    row = collection.connection.execute(
        "SELECT json_extract(data, '$.until'), json_extract(data, '$.reason'), wake_at FROM event"
        " JOIN frontier_host ON name = ?1 WHERE kind = 'HostBackedOff' AND json_extract(data, '$.host') = ?1"
        " ORDER BY event.id DESC LIMIT 1",
        (host,),
    ).fetchone()
    return {"host_waits": {"until": row[0], "reason": row[1]}} if row and row[0] == row[2] else {}


def _path(collection: Collection, frontier: SqliteFrontier, entry: FrontierEntry | None) -> list[str]:
    """The shortest way from a seed that is known: of the pages a URL was found on, always the one nearest to a seed."""
    path: list[str] = []
    while entry is not None and entry.lead.url not in path and len(path) < MAX_PATH_LENGTH:
        path += [entry.lead.url, *_redirects(collection, entry)]
        above = _nearest_parent(collection, {entry.lead.parent, *entry.parents}) if entry.lead.depth else None
        entry = frontier.entry(host_of(above), url_key(above)) if above else None
    return path[::-1]


def _nearest_parent(collection: Collection, keys: set[int]) -> str | None:
    marks = ", ".join("?" * len(keys))
    query = f"SELECT url FROM page WHERE key IN ({marks}) ORDER BY depth, seq LIMIT 1"
    row = collection.connection.execute(query, tuple(keys)).fetchone()
    return row[0] if row else None


def _page(collection: Collection, key: int) -> dict[str, Any]:
    row = collection.connection.execute(f"SELECT {', '.join(_PAGE)} FROM page WHERE key = ?", (key,)).fetchone()
    if row is None:
        return {}
    page = dict(zip(_PAGE, row, strict=True))
    page["reasons"] = [msgspec.structs.asdict(r) for r in _reasons(page["reasons"])]
    page["relevant"], page["near_duplicate"] = bool(page["relevant"]), bool(page["near_duplicate"])
    original = page["duplicate_of"]
    if original:
        same = collection.connection.execute("SELECT url FROM page WHERE key = ?", (original,)).fetchone()
        page["duplicate_of"] = same[0] if same else ""
    else:
        page["duplicate_of"] = ""
    return page
