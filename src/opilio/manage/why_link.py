"""Why a ranker that learns scores a link as it does: features, words, and how links of the same list turned out.

The explanation uses what was learnt up to now. The committee stores words as hashes only, so the words are read again
from the page that holds the link.
"""

from contextlib import suppress

from opilio.core.errors import CollectionError, ParseError
from opilio.core.page import Reading
from opilio.core.protocols import FeatureEffect, FrontierEntry, LinkExplanation
from opilio.engine.link_scoring import LinkScorerContext, build_link_scorer
from opilio.engine.wiring.analysis import AnalysisParts
from opilio.engine.wiring.assembly import build_analysis_parts
from opilio.engine.wiring.settings import collection_settings
from opilio.engine.wiring.start import latest_snapshots, stored_topic
from opilio.manage.results import RankerExplanation, ScoreEffect, SiblingResult
from opilio.store.collection import Collection
from opilio.store.pages import record_position, urls_by_key
from opilio.store.run_tables import has_table
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
    "meaning": "words of its meaning, by the pages read so far; similarity to the topic",
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
    if not entry.lead.features or not has_table(collection.connection, "lesson"):
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


def _describe(feature: FeatureEffect) -> str:
    text = FEATURE_DESCRIPTIONS.get(feature.name, feature.name)
    return f"{text}: {feature.value:.2f}" if feature.name == "meaning" else text


def _ranker_explanation(why: LinkExplanation, pages: list[str]) -> RankerExplanation:
    effects = [ScoreEffect(_describe(p), round(p.effect, 3), round(p.value, 3)) for p in why.parts if p.name != "bias"]
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
