"""Why a URL was fetched, skipped or kept: everything that a collection knows about it, with the link's score in detail.

The explanation uses what was learned up to now. The committee stores words as hashes only, so the words are read again
from the page that holds the link.
"""

import re
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from opilio.core.errors import CollectionError, ParseError
from opilio.core.protocols import Database, Frontier, FrontierEntry, LinkExplanation
from opilio.core.records import Reading, Tier, UrlState, url_key
from opilio.core.urls import host_of, require_url
from opilio.engine.link_scoring import LinkScorerContext, build_link_scorer
from opilio.engine.wiring.assembly import AnalysisParts, build_analysis_parts
from opilio.engine.wiring.settings import collection_settings
from opilio.engine.wiring.start import latest_snapshots, stored_topic
from opilio.frontier.postgres.frontier import open_frontier
from opilio.frontier.sqlite.queries import host_wakes_at, url_of_key
from opilio.manage.label import has_probability, label_calibration
from opilio.manage.results import (
    AgentVerdict,
    Explanation,
    FetchAttempt,
    HostWait,
    LinkContext,
    PageExplanation,
    RankerExplanation,
    RevisitStats,
    ScoreEffect,
    SeedOrigin,
    SiblingResult,
)
from opilio.manage.status import agent_cards
from opilio.rank.link_scores import unpack
from opilio.store.collection import Collection, open_readonly
from opilio.store.pages import (
    copies_of,
    judged_page,
    latest_page,
    nearest_page_url,
    page_url,
    record_position,
    urls_by_key,
)
from opilio.store.revisits import RevisitStore
from opilio.store.run_tables import agent_verdicts, first_seed_urls, last_host_backoff, seed_row
from opilio.store.versions import answers_of, links_of, parents_linking_to, redirecting_key
from opilio.store.warc import read_record

# Strongest features and words that are reported, in either direction.
MAX_EFFECTS = 8
MIN_EFFECT = 0.005
FEATURE_DESCRIPTIONS = {
    "parent": "relevance of the page that links to it",
    "anchor": "topic words in the anchor text",
    "around": "topic words around the link",
    "url": "topic words in the URL",
    "same host": "link within its host",
    "textless": "no anchor text",
    "path depth": "depth of the URL's path",
    "query": "URL with a query",
    "words at it": "words of the link, by the pages read so far",
    "words around": "words around the link, by the pages read so far",
    "meaning": "its meaning, compared with the topic and the pages read so far",
    "meaning learned": "links of similar meaning",
    "found": "number of pages that link to it",
    "relevant parents": "number of relevant pages that link to it",
    "tunnel": "irrelevant pages on the path to it",
    "tag path": "links at the same place on other pages",
    "directory": "pages of its directory",
    "host": "pages of its host",
    "list": "other links of the same list",
    "page": "other links of the same page",
    "genre": "words of the wanted genres",
    "S1": "prediction of the learner trained before the crawl",
    "S3": "topic score by S3",
    "galaxy": "Dewey classes of its words",
    "T-Graph": "distance to a target by the T-Graph",
    "similarity": "similarity to a node of the T-Graph",
    "layer": "distance to a target by the context graph",
}


def explain_link_score(collection: Collection, entry: FrontierEntry) -> RankerExplanation | None:
    """How the ranker scores a link; None where the ranker has no model or has not seen the link."""
    if not entry.lead.features:
        return None
    settings = collection_settings(collection)
    parts = build_analysis_parts(settings, stored_topic(collection), latest_snapshots(collection))
    own = parts.parts_of(entry.lead.agent)
    context = LinkScorerContext(own.ranker, collection, own.learners, own.owner, load_queue=False)
    scorer = build_link_scorer(settings.rank["kind"], context)
    why = scorer.explain(entry, _read_parent(collection, parts, entry))
    return _ranker_explanation(why, urls_by_key(collection.connection, entry.parents)) if why is not None else None


def _read_parent(collection: Collection, parts: AnalysisParts, entry: FrontierEntry) -> Reading | None:
    """The page that holds the link; None where its record can't be read."""
    position = record_position(collection.connection, entry.lead.parent)
    if position is None:
        return None
    with suppress(ParseError, CollectionError):
        return parts.analyzer.read(read_record(collection.folder, *position))
    return None


def _ranker_explanation(why: LinkExplanation, pages: list[str]) -> RankerExplanation:
    named = [(FEATURE_DESCRIPTIONS.get(p.name, p.name), p) for p in why.parts if p.name != "bias"]
    effects = [ScoreEffect(name, round(p.effect, 3), round(p.value, 3)) for name, p in named]
    effects += [ScoreEffect(name, round(effect, 3)) for name, effect in why.words]
    effects = sorted((e for e in effects if abs(e.effect) >= MIN_EFFECT), key=lambda e: -abs(e.effect))
    return RankerExplanation(
        score_now=round(why.score, 4),
        learnt_from=why.fetched,
        raised_by=[e for e in effects if e.effect > 0][:MAX_EFFECTS],
        lowered_by=[e for e in effects if e.effect < 0][:MAX_EFFECTS],
        siblings=[
            SiblingResult(pages[s.context], s.fetched, round(s.mean_reward, 3))
            for s in why.siblings
            if s.context < len(pages)
        ],
    )


MAX_PATH_LENGTH = 30
MAX_PARENTS = 5
MAX_ALIASES = 20
# The state of a URL that was seen in pages but never queued; the frontier does not know it.
SKIPPED = "skipped"


def why(folder: Path, url: str) -> Explanation:
    """All reasons for one URL. `found` is False for a URL that was never seen."""
    address = require_url(url)
    with open_readonly(folder) as collection:
        return _explain(collection, address)


def _explain(collection: Collection, url: str) -> Explanation:
    key = url_key(url)
    db = collection.connection
    frontier = open_frontier(db)
    entry = frontier.entry(host_of(url), key)
    facts: dict[str, Any] = {"found_on": [], "path": []}
    if entry is not None:
        redirects = _redirects(db, entry)
        facts |= _frontier_facts(entry)
        facts["redirected_from"] = redirects or None
        facts["found_on"] = _contexts(db, (key, *map(url_key, redirects)), entry.parents)
        facts["path"] = _path(db, frontier, entry)
        facts["host_waits"] = _host_wait(db, host_of(url)) if entry.state is UrlState.QUEUED else None
        facts["ranker"] = explain_link_score(collection, entry)
    elif contexts := _contexts(db, (key,), parents_linking_to(db, key, MAX_PARENTS)):
        reason = contexts[0].not_followed or _depth_reason(collection, frontier, contexts)
        facts |= {"state": SKIPPED, "reason": reason, "found_on": contexts}
    cards = agent_cards(collection)
    return Explanation(
        url=url,
        found="state" in facts,
        **facts,
        seed=_seed(db, key),
        answers=_fetch_attempts(db, key),
        page=_page(db, key),
        revisits=_revisits(db, key),
        agents=_agent_verdicts(db, key, {card.number: card.name for card in cards}) if cards else None,
    )


def _depth_reason(collection: Collection, frontier: Frontier, contexts: list[LinkContext]) -> str:
    """That a URL is too many links from a seed, if all pages with links to it are at the limit."""
    limit = collection_settings(collection).frontier.max_depth
    entries = [frontier.entry(host_of(context.page), url_key(context.page)) for context in contexts]
    at_limit = limit and all(entry is not None and entry.lead.depth >= limit for entry in entries)
    return f"more than {limit} links from a seed (frontier.max_depth)" if at_limit else ""


def _seed(db: Database, key: int) -> SeedOrigin | None:
    seed = seed_row(db, key)
    return SeedOrigin(seed.priority, seed.sources) if seed is not None else None


def _fetch_attempts(db: Database, key: int) -> list[FetchAttempt]:
    return [
        FetchAttempt(at=a.at, status=a.status, failure=a.failure, detail=a.detail, location=a.location)
        for a in answers_of(db, key)
    ]


def _revisits(db: Database, key: int) -> RevisitStats | None:
    record = RevisitStore(db).record(key)
    if not record.checks:
        return None
    return RevisitStats(**{name: getattr(record, name) for name in RevisitStats.__struct_fields__})


def _agent_verdicts(db: Database, key: int, names: dict[int, str]) -> list[AgentVerdict]:
    """Each agent's verdict on the page, and which of them fetched it."""
    return [AgentVerdict(names.get(v.agent, ""), v.own, v.score, v.relevant) for v in agent_verdicts(db, key)]


def _frontier_facts(entry: FrontierEntry) -> dict[str, Any]:
    return {
        "state": entry.state.value,
        "reason": entry.reason,
        "score": entry.lead.score,
        "priority": entry.priority,
        "depth": entry.lead.depth,
        "tunnel": entry.lead.tunnel,
        "times_found": entry.times_found,
        "moved_to_front": entry.lead.tier == Tier.BOOSTED,
    }


def _redirects(db: Database, entry: FrontierEntry) -> list[str]:
    """The URLs whose redirects led to a URL, the last redirect first."""
    sources: list[str] = []
    url = entry.lead.url
    while len(sources) < entry.lead.hops:
        key = redirecting_key(db, url)
        url = url_of_key(db, key) if key is not None else ""
        if not url or url in sources:
            break
        sources.append(url)
    return sources


def _contexts(db: Database, keys: tuple[int, ...], parents: tuple[int, ...]) -> list[LinkContext]:
    """The links on its parents that lead to a URL (`keys`: its own and those of redirects to it), with their scores.

    Of the links of a page with the same anchor, the one with the best score.
    """
    found: dict[tuple[str, str], LinkContext] = {}
    for parent in parents:
        page, blob = latest_page(db, parent), links_of(db, parent)
        if page is None or not blob:
            continue
        columns = unpack(blob)
        parts = np.frombuffer(columns.parts, dtype=np.float32).reshape(len(columns.urls), len(columns.names))
        scores = np.frombuffer(columns.scores, dtype=np.float32)
        for at in np.flatnonzero(np.isin(np.frombuffer(columns.keys, dtype=np.int64), keys)):
            link = LinkContext(
                page=page.url,
                title=page.title,
                anchor=columns.anchors[at],
                score=round(float(scores[at]), 4),
                parts={n: round(float(v), 4) for n, v in zip(columns.names, parts[at], strict=True)},
                not_followed=columns.dropped.get(int(at), ""),
            )
            found[page.url, link.anchor] = max(link, found.get((page.url, link.anchor), link), key=attrgetter("score"))
    return list(found.values())


def _host_wait(db: Database, host: str) -> HostWait | None:
    """Why the host of a queued URL is backed off, if its last back-off is still in force."""
    backoff = last_host_backoff(db, host)
    return HostWait(*backoff) if backoff is not None and backoff[0] == host_wakes_at(db, host) else None


def _path(db: Database, frontier: Frontier, entry: FrontierEntry | None) -> list[str]:
    """The shortest known path from a seed: of the parents of a URL always the one nearest to a seed."""
    path: list[str] = []
    while entry is not None and entry.lead.url not in path and len(path) < MAX_PATH_LENGTH:
        path += [entry.lead.url, *_redirects(db, entry)]
        above = nearest_page_url(db, {entry.lead.parent, *entry.parents}) if entry.lead.depth else ""
        entry = frontier.entry(host_of(above), url_key(above)) if above else None
    return path[::-1]


def _page(db: Database, key: int) -> PageExplanation | None:
    page = judged_page(db, key)
    if page is None:
        return None
    calibration = label_calibration(db) if has_probability(page.decoded_reasons) else None
    return PageExplanation(
        title=page.title,
        score=page.score,
        probability=round(calibration.probability(page.score), 4) if calibration else None,
        labels=calibration.labels if calibration else 0,
        relevant=page.relevant,
        reasons=page.decoded_reasons,
        duplicate_of=page_url(db, page.duplicate_of) if page.duplicate_of else "",
        near_duplicate=page.near_duplicate,
        canonical=page.canonical,
        aliases=[url for url, _ in copies_of(db, key, MAX_ALIASES)],
        fetched_at=page.fetched_at,
        language=page.language,
        genre=page.genre,
        truncated=page.truncated,
        rendered=page.rendered,
    )


MAX_SEEDS_EXPLAINED = 3
# Kind of failure -> what it means and what to do.
_ADVICE = {
    "dns": "the host name can't be resolved: check its spelling and the network",
    "connect": "the server refuses connections or can't be reached: check host and port",
    "timeout": "the server does not answer: try again later",
    "tls": "the certificate is not trusted (fetch.verify_tls = false accepts it), or the server has no TLS (use http://)",
    "proxy": "the proxy can't be used: check fetch.proxy",
    "challenge": "the site checks for bots: ask its owner to admit your crawler, or choose another site",
    "login": "the site requires a login: give cookies of your account in fetch.credentials",
    "consent": "the site requires a choice by the visitor: give its cookies in fetch.credentials",
}


def explain_empty_crawl(folder: Path) -> list[str]:
    """What happened to the first seeds of a crawl without a page, one line each; most often one is misspelled."""
    with open_readonly(folder) as collection:
        seeds = first_seed_urls(collection.connection, MAX_SEEDS_EXPLAINED)
    lines = []
    for url in seeds:
        found = why(folder, url)
        wait = found.host_waits.reason if found.host_waits is not None else ""
        reason = found.reason or wait or found.state or ""
        kinds = [kind for kind in re.findall(r"^\w+|(?<=\()\w+", reason) if kind in _ADVICE]
        lines.append(f"seed {url}: {reason}" + (f"; {_ADVICE[kinds[0]]}" if kinds else ""))
    return lines
