"""How often does the galaxy name the right Dewey class? Top 1 and top 3, hundreds and tens, on labelled pages.

python benchmarks/topics/dewey_accuracy.py WEB [--half seen|unseen|both] [--wrong]

`WEB` is a folder with labels (schools-wikipedia, its copy without index pages). Pages are halved by the hash of their
address: extend the lexicon by the seen half only (`--wrong` lists the mistakes there, and there only).
Beside the galaxy stands the nearest class by TF-IDF: every class is the document of its name and index terms.
"""

import argparse
import math
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import xxhash

from opilio.core.records import Page, Reading
from opilio.core.settings import Settings
from opilio.lab.evaluation.statistics import bootstrap_mean
from opilio.lab.webs.labels import load_labels
from opilio.lab.webs.pages import ParsedPages
from opilio.lab.webs.web import WarcWeb
from opilio.methods.dewey.detect import (
    PAPER_RULE,
    RECOMMENDED_RULE,
    GalaxyRule,
    Lexicon,
    LexiconMatcher,
    builtin_lexicon,
    digits_of,
    main_galaxy,
    main_terms,
)
from opilio.text.reading import PageReader
from opilio.topic.setup import background_frequencies, build_vocabulary

LABELS = Path(__file__).with_name("dewey_labels.toml")
Ranking = Sequence[str]  # three-digit classes, best first
OURS, BASELINE = "galaxy, ours", "nearest class by TF-IDF"
DEPTHS = {"hundreds": 1, "tens": 2}


class NearestClass:
    """The baseline: cosine of TF-IDF vectors of the page and of each class; idf is over the classes."""

    def __init__(self, lexicon: Lexicon, terms_of: Callable[[str], list[int]]) -> None:
        said: dict[str, Counter[int]] = {}
        for number, entry in lexicon.classes.items():
            words = terms_of(" ".join((entry.name, *entry.terms)))
            said.setdefault(digits_of(number)[:3], Counter()).update(words)
        seen = Counter(term for words in said.values() for term in words)
        self._idf = {term: math.log(len(said) / count) for term, count in seen.items()}
        self._classes: dict[int, list[tuple[str, float]]] = {}
        for code, counted in said.items():
            weights = self._weights(counted)
            norm = math.sqrt(sum(w * w for w in weights.values())) or 1.0
            for term, weight in weights.items():
                self._classes.setdefault(term, []).append((code, weight / norm))

    def rank(self, terms: Iterable[int]) -> Ranking:
        """The classes nearest to a page."""
        scores: dict[str, float] = {}
        for term, weight in self._weights(Counter(terms)).items():
            for code, share in self._classes.get(term, ()):
                scores[code] = scores.get(code, 0.0) + weight * share
        return sorted(scores, key=lambda code: (-scores[code], code))

    def _weights(self, words: Mapping[int, int]) -> dict[int, float]:
        return {t: (1.0 + math.log(n)) * self._idf[t] for t, n in words.items() if t in self._idf}


def accepted_tens(labels: Sequence[str], mapping: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The tens classes that are right for a page; none where no label of it maps clearly."""
    found: set[str] = set()
    for label in labels:
        for known, tens in mapping.items():
            if label == known or label.startswith(known + "."):
                found.update(f"{ten[0]}{digit}" if ten[1] == "x" else ten for ten in tens for digit in range(10))
    return frozenset(found)


def is_right(ranking: Ranking, accepted: frozenset[str], depth: int, top: int) -> bool:
    """Is one of the first `top` different classes of this depth a right one?"""
    first = list(dict.fromkeys(code[:depth] for code in ranking))[:top]
    return any(ten[:depth] in first for ten in accepted)


def is_seen(url: str) -> bool:
    """Which half a page is in; the two copies of the encyclopaedia agree."""
    return xxhash.xxh64_intdigest(url.encode()) % 2 == 0


Case = tuple[str, str, frozenset[str], Reading]  # address, first mapped label, what is right, the page read


def cases(folder: Path, half: str) -> list[Case]:
    """The labelled pages of a half."""
    web = WarcWeb.open(folder)
    pages, labels = ParsedPages.open(web), load_labels(web)
    mapping = tomllib.loads(LABELS.read_text("utf-8"))["schools-wikipedia"]
    reader = PageReader(build_vocabulary(Settings()))
    found: list[Case] = []
    for number, url in enumerate(web.urls):
        accepted = accepted_tens(labels.by_page[number], mapping)
        page: Page | None = pages.page(number) if accepted else None
        if page is not None and half in ("both", "seen" if is_seen(url) else "unseen"):
            label = next(x for x in labels.by_page[number] if accepted_tens([x], mapping))
            found.append((url, label, accepted, reader.read(page)))
    return found


def rankers() -> dict[str, Callable[[Reading], Ranking]]:
    """The galaxy in its two forms, and the baseline."""
    vocabulary = build_vocabulary(Settings())
    matcher = LexiconMatcher(builtin_lexicon(), vocabulary, background_frequencies())
    nearest = NearestClass(builtin_lexicon(), vocabulary.terms)

    def galaxy(rule: GalaxyRule) -> Callable[[Reading], Ranking]:
        def rank(reading: Reading) -> Ranking:
            found = main_galaxy(reading, matcher, rule)
            return [digits_of(code)[:3] for code, _ in (*found.ranked, *found.outliers)]

        return rank

    return {
        OURS: galaxy(RECOMMENDED_RULE),
        "galaxy, paper's weights": galaxy(PAPER_RULE),
        BASELINE: lambda reading: nearest.rank(main_terms(reading, matcher)),
    }


def main() -> None:
    """Print a table of accuracies with 95 % intervals (labels drawn first, then pages)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("web", type=Path)
    parser.add_argument("--half", choices=["seen", "unseen", "both"], default="both")
    parser.add_argument("--wrong", action="store_true")
    options = parser.parse_args()
    half = "seen" if options.wrong else options.half
    found = cases(options.web, half)
    groups = [label for _, label, _, _ in found]
    print(f"{options.web.name}, {half}: {len(found)} pages of {len(set(groups))} labels")
    right: dict[str, list[bool]] = {}
    for name, rank in rankers().items():
        rankings = [rank(reading) for *_, reading in found]
        cells = []
        for depth in DEPTHS.values():
            for top in (1, 3):
                hits = [
                    is_right(r, accepted, depth, top) for r, (_, _, accepted, _) in zip(rankings, found, strict=True)
                ]
                right[f"{name} {depth} {top}"] = hits
                cells.append(_shown([float(hit) for hit in hits], groups))
        print(f"| {name} | " + " | ".join(cells) + " |")
        if options.wrong and name == OURS:
            _mistakes(found, rankings)
    gains = [
        _shown([a - b for a, b in zip(right[f"{OURS} {d} {t}"], right[f"{BASELINE} {d} {t}"], strict=True)], groups)
        for d in DEPTHS.values()
        for t in (1, 3)
    ]
    print("| galaxy, ours, minus nearest class | " + " | ".join(gains) + " |")


def _shown(values: Sequence[float], groups: Sequence[str]) -> str:
    found = bootstrap_mean(values, np.random.default_rng(0), groups)
    return f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _mistakes(found: Sequence[Case], rankings: Sequence[Ranking]) -> None:
    lost: Counter[tuple[str, str]] = Counter()
    count = Counter(label for _, label, _, _ in found)
    for (url, label, accepted, _), ranking in zip(found, rankings, strict=True):
        if not is_right(ranking, accepted, 2, 1):
            lost[label, ranking[0][:2] if ranking else "-"] += 1
            print(f"  {url.rpartition('/')[2]:40} {label:50} {ranking[:4]}")
    for (label, ten), times in lost.most_common(60):
        print(f"  {times:3} of {count[label]:3}  {label} -> {ten}")


if __name__ == "__main__":
    main()
