"""Why the committee scores a link as it does: features, words, and how links of the same list turned out.

The explanation uses what the committee has learnt up to now. It stores words as hashes only, so the words are read
again from the page that holds the link.
"""

from contextlib import suppress

from opilio.core.errors import CollectionError, ParseError
from opilio.core.protocols import JUDGE_STATE, FrontierEntry, WeighsTerms
from opilio.engine.link_memory import CommitteeLearner
from opilio.engine.wiring.analysis import AnalysisParts
from opilio.engine.wiring.assembly import build_analysis_parts
from opilio.engine.wiring.settings import collection_settings
from opilio.engine.wiring.start import latest_snapshots, stored_topic
from opilio.learn.committee import Committee
from opilio.learn.explain import FeatureEffect, LinkExplanation, explain_link
from opilio.manage.results import RankerExplanation, ScoreEffect, SiblingResult
from opilio.rank.committee import CommitteeRanker
from opilio.store.collection import Collection, load_settings
from opilio.store.pages import record_position, urls_by_key
from opilio.store.run_tables import has_table
from opilio.store.warc import read_record

# Strongest features and words that are reported, in either direction.
MAX_EFFECTS = 8
MIN_EFFECT = 0.005
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
    "meaning": "the similarity of its meaning to the topic",
    "meaning learned": "links of a similar meaning",
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


def explain_link_score(collection: Collection, entry: FrontierEntry) -> RankerExplanation | None:
    """How the ranker scores a link; None where the ranker is not a committee or has not seen the link."""
    settings = load_settings(collection)
    if settings.get("rank", {}).get("kind") != "committee" or not entry.lead.features:
        return None
    if not has_table(collection.connection, "lesson"):
        return None
    parts = build_analysis_parts(
        collection_settings(collection), stored_topic(collection), latest_snapshots(collection)
    )
    if not isinstance(parts.ranker, CommitteeRanker):
        return None
    own = parts.parts_of(entry.lead.agent)
    judge = own.learners.get(JUDGE_STATE)
    learner = CommitteeLearner(Committee(parts.ranker.options), collection, own.owner)
    learner.load()
    if isinstance(judge, WeighsTerms):
        learner.committee.update_word_values(*judge.term_weights)
    row = learner.load_link(entry)
    if row is None:
        return None
    return _ranker_explanation(
        explain_link(learner.committee, row),
        _words_by_hash(collection, parts, entry),
        urls_by_key(collection.connection, entry.parents),
    )


def _words_by_hash(collection: Collection, parts: AnalysisParts, entry: FrontierEntry) -> dict[int, str]:
    """The link's words by their hash index, read from the parent page."""
    position = record_position(collection.connection, entry.lead.parent)
    if position is None or not isinstance(parts.ranker, CommitteeRanker):
        return {}
    with suppress(ParseError, CollectionError):
        reading = parts.analyzer.read(read_record(collection.folder, *position))
        for place, link in enumerate(reading.page.links):
            if link.key == entry.lead.key:
                return parts.ranker.word_labels(reading, place)
    return {}


def _describe(feature: FeatureEffect) -> str:
    text = FEATURE_DESCRIPTIONS.get(feature.name, feature.name)
    return f"{text}: {feature.value:.2f}" if feature.name == "meaning" else text


def _ranker_explanation(why: LinkExplanation, words: dict[int, str], pages: list[str]) -> RankerExplanation:
    effects = [ScoreEffect(_describe(p), round(p.effect, 3), round(p.value, 3)) for p in why.parts if p.name != "bias"]
    by_word: dict[str, float] = {}
    for index, effect in why.words:
        name = words.get(index, "words that can't be read back")
        by_word[name] = by_word.get(name, 0.0) + effect
    effects += [ScoreEffect(name, round(effect, 3)) for name, effect in by_word.items()]
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
