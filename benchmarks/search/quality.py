"""How well search finds: known items and topics, beside plain BM25, on collections crawled from offline webs.

    python benchmarks/search/quality.py --web WEB --into FOLDER [--fetches 1500] [--tune]

Every topic of a web is crawled by the default strategy; what is asked for are pages that the labels call relevant.
Parameters are chosen on one web (`--tune`) and confirmed on another.
"""

import argparse
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import log, log2
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tantivy
from collected import collect

from opilio.core.records import url_key
from opilio.lab.evaluation.statistics import bootstrap_mean, paired_test
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.topics import LabTopic, load_topics
from opilio.lab.webs.web import WarcWeb
from opilio.parse.html import HtmlParser
from opilio.search.candidates import RankingWeights
from opilio.search.candidates import SearchRequest as Question
from opilio.search.clusters import count_stems
from opilio.search.documents import DocumentReader, complete_document
from opilio.search.indexer import update_index
from opilio.search.query_builder import FieldWeights
from opilio.search.ranking import Search
from opilio.search.schema import EXACT_FIELD, index_terms
from opilio.search.searcher import Searcher
from opilio.store.collection import open_readonly

DEPTH = 100
ITEMS = 40  # pages asked for, per topic and kind of question
NONE = RankingWeights(relevance=0.0)


class Asked(NamedTuple):
    topic: str
    kind: str  # title, words, slip, label
    query: str
    wanted: frozenset[int]  # keys of pages


Find = Callable[[Searcher, Asked], list[int]]
Measurements = dict[tuple[str, str, str], list[tuple[str, float]]]


def questions(folder: Path, topic: LabTopic, relevant: set[str]) -> Iterator[Asked]:
    """Queries for one collection: pages by title, by words, with a typo; and the topic."""
    rng = random.Random(f"{topic.name} 1")
    with open_readonly(folder) as collection:
        rows = collection.connection.execute(
            "SELECT url, title FROM page WHERE duplicate_of = 0 AND noindex = 0 ORDER BY url"
        ).fetchall()
    titles = Counter(title.lower() for _, title in rows)
    known = [(url, title) for url, title in rows if url in relevant and titles[title.lower()] == 1 and title.split()]
    for url, title in rng.sample(known, min(ITEMS, len(known))):
        plain = " ".join(re.findall(r"\w+", title))
        if plain:
            yield Asked(topic.name, "title", plain, frozenset({url_key(url)}))
        if slipped := slip(plain, rng):
            yield Asked(topic.name, "slip", slipped, frozenset({url_key(url)}))
    yield from word_questions(folder, topic.name, rng.sample(known, min(ITEMS, len(known))))
    there = frozenset(url_key(url) for url, _ in rows if url in relevant)
    for query in (topic.name, *topic.brief.keywords[:8]):
        yield Asked(topic.name, "label", query, there)


def slip(title: str, rng: random.Random) -> str:
    """The title with two neighbouring letters of its longest word swapped; empty where it has no long word."""
    word = max(title.split(), key=len, default="")
    places = [i for i in range(1, len(word) - 1) if word[i] != word[i + 1]]
    if len(word) < 5 or not word.isascii() or not word.isalpha() or not places:
        return ""
    at = rng.choice(places)
    return title.replace(word, word[:at] + word[at + 1] + word[at] + word[at + 2 :])


def word_questions(folder: Path, topic: str, pages: Sequence[tuple[str, str]]) -> Iterator[Asked]:
    """Three words that a page has often and others have seldom, none of its title."""
    (folder_store,) = Searcher([folder])._open()
    with open_readonly(folder) as collection:
        feed, parser = DocumentReader(collection), HtmlParser(paths=False)
        for url, title in pages:
            in_title = set(index_terms(title, "en"))
            (stored,) = feed.pages([url_key(url)])
            words = [w for w in count_stems(complete_document(folder, stored, parser)) if w.stem not in in_title]
            searcher = folder_store.searcher
            seldom = {w.spelling: searcher.num_docs / (1 + searcher.doc_freq(EXACT_FIELD, w.spelling)) for w in words}
            rare = {w.spelling: w.count * log(1 + seldom[w.spelling]) for w in words}
            best = sorted(rare, key=lambda w: (-rare[w], w))[:3]
            if len(best) == 3:
                yield Asked(topic, "words", " ".join(best), frozenset({url_key(url)}))


def plain_bm25(searcher: Searcher, asked: Asked) -> list[int]:
    """All words as they are written in one field with everything, any of them enough."""
    (folder_store,) = searcher._open()
    words = [
        (tantivy.Occur.Should, tantivy.Query.term_query(folder_store.schema, EXACT_FIELD, t))
        for t in index_terms(asked.query)
    ]
    if not words:
        return []
    hits = folder_store.searcher.search(tantivy.Query.boolean_query(words), DEPTH).hits
    values = folder_store.searcher.fast_field_values("key", [address for _, address in hits])
    return [value for value in values if isinstance(value, int)]


def ours(weights: FieldWeights, mix: RankingWeights, *, respell: bool = False) -> Find:
    """The order that a search gives, without snippets and facets; after a slip, a suggestion is followed."""

    def find(searcher: Searcher, asked: Asked) -> list[int]:
        search = Search(searcher._open(), Question(query=asked.query), weights, mix)
        matches = search.find()
        if respell and asked.kind == "slip" and (better := search.suggestion(matches.total)):
            return ours(weights, mix)(searcher, asked._replace(query=better))
        if not matches.total:
            matches = search.find(relaxed=True)
        return [one.key for one in matches.found[:DEPTH]]

    return find


def measured(asked: Asked, found: Sequence[int]) -> dict[str, float]:
    if asked.kind != "label":
        rank = next((place for place, key in enumerate(found, start=1) if key in asked.wanted), 0)
        return {"top 10": float(0 < rank <= 10), "top 1": float(rank == 1), "1/rank": 1 / rank if rank else 0.0}
    right = [key in asked.wanted for key in found]
    gain = sum(1 / log2(place + 1) for place, hit in enumerate(right[:10], start=1) if hit)
    ideal = sum(1 / log2(place + 1) for place in range(1, min(10, len(asked.wanted)) + 1))
    return {"P@10": sum(right[:10]) / 10, "nDCG@10": gain / ideal if ideal else 0.0}


def run(systems: dict[str, Find], sets: Sequence[tuple[Searcher, list[Asked]]]) -> Measurements:
    """(system, kind, measure) to [(topic, value)]."""
    values: Measurements = defaultdict(list)
    for searcher, every in sets:
        for asked in every:
            for name, find in systems.items():
                for measure, value in measured(asked, find(searcher, asked)).items():
                    values[name, asked.kind, measure].append((asked.topic, value))
    return values


def report(systems: dict[str, Find], sets: Sequence[tuple[Searcher, list[Asked]]]) -> None:
    values = run(systems, sets)
    kinds = {(kind, measure): None for _, kind, measure in values}
    print("| question | measure | n | " + " | ".join(systems) + " | p, last against first |")
    print("|---" * (len(systems) + 4) + "|")
    for kind, measure in kinds:
        cells = []
        for name in systems:
            pairs = values[name, kind, measure]
            rng = np.random.default_rng(1)
            i = bootstrap_mean([v for _, v in pairs], rng, [t for t, _ in pairs])
            cells.append(f"{i.mean:.3f} [{i.low:.3f}, {i.high:.3f}]")
        columns = [[v for _, v in values[name, kind, measure]] for name in systems]
        p = paired_test(columns[-1], columns[0]).p_value
        print(f"| {kind} | {measure} | {len(columns[0])} | {' | '.join(cells)} | {p:.4f} |")


def tune(sets: Sequence[tuple[Searcher, list[Asked]]], tries: int) -> None:
    """Sums of the measures over a grid, best last."""
    tried = []
    names = ("title", "exact", "tie", "together", "relevance", "open_at")
    grid = product((1.2, 2.0, 3.0), (0.5, 1.5), (0.0, 0.3), (1.5, 2.5), (0.4, 0.8), (1.0, 10.0, 30.0))
    chosen = random.Random(1).sample(list(grid), tries)
    for title, exact, tie, together, relevance, open_at in chosen:
        weights = FieldWeights(title=title, exact=exact, tie_breaker=tie, proximity=together)
        mix = RankingWeights(relevance=relevance, half_weight_matches=open_at)
        values = run({"x": ours(weights, mix)}, sets)
        means = {(kind, measure): float(np.mean([v for _, v in pairs])) for (_, kind, measure), pairs in values.items()}
        parts = [means["title", "1/rank"], means["words", "1/rank"], means["label", "nDCG@10"]]
        tried.append((sum(parts), parts, (title, exact, tie, together, relevance, open_at)))
    for total, parts, chosen_values in sorted(tried)[-12:]:
        print(f"{total:.4f} {[round(float(p), 4) for p in parts]} {chosen_values}")
    print("mean by value:")
    for place, name in enumerate(names):
        by = defaultdict(list)
        for total, _, chosen_values in tried:
            by[chosen_values[place]].append(total)
        print(f"  {name}: " + ", ".join(f"{v}: {np.mean(t):.4f}" for v, t in sorted(by.items())))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--web", type=Path, action="append", required=True)
    parser.add_argument("--into", type=Path, required=True)
    parser.add_argument("--fetches", type=int, default=1500)
    parser.add_argument("--topics", type=int, default=8)
    parser.add_argument("--tune", action="store_true")
    parser.add_argument("--tries", type=int, default=32, help="points of the grid")
    args = parser.parse_args()
    sets = []
    for folder in args.web:
        web = WarcWeb.open(folder)
        labels = load_labels(web)
        topics, _ = load_topics(folder)
        for topic in topics[: args.topics]:
            collection = collect(args.into / f"{web.name}-{topic.name}".replace(" ", "-"), web, topic, args.fetches)
            update_index(collection)
            relevant = {web.urls[n] for n in np.flatnonzero(labels.relevant(topic)).tolist()}
            sets.append((Searcher([collection]), list(questions(collection, topic, relevant))))
            print(f"{collection.name}: {len(sets[-1][1])} questions", flush=True)
    if args.tune:
        report(
            {
                "plain BM25": plain_bm25,
                "fields": ours(FieldWeights(), NONE),
                "Opilio": ours(FieldWeights(), RankingWeights()),
            },
            sets,
        )
        tune(sets, args.tries)
        return
    systems = {
        "plain BM25": plain_bm25,
        "fields": ours(FieldWeights(), NONE),
        "Opilio": ours(FieldWeights(), RankingWeights(), respell=True),
    }
    report(systems, sets)


if __name__ == "__main__":
    main()
