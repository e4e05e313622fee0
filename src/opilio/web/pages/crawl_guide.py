"""Pages that ask the user for help: the guide to a new crawl, and the review of uncertain verdicts.

The guide suggests words and seeds for a topic, and makes a trial whose verdicts the user corrects. A trial is the crawl
itself with a limit of a few pages; its pages and labels are kept when the crawl continues. The review shows the pages
with the least certain verdicts, to be labelled with one key each.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from opilio.core.errors import SeedError
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.engine.labels import pending_labels
from opilio.engine.wiring.seeding import NO_SEED_MESSAGE, with_found_seeds
from opilio.judge.learned import LabelCalibration
from opilio.manage.label import label_calibration
from opilio.store.collection import Collection
from opilio.store.labels import current_label, label_name, labeled_keys
from opilio.store.pages import doubtful_pages, first_pages, judged_page, kept_scores
from opilio.text.tokens import url_words
from opilio.topic.setup import background_frequencies, background_idf, build_vocabulary
from opilio.topic.topic import build_topic_table, make_topic
from opilio.web.context import AppContext, PageRequest, PageRoute, PageView, Param
from opilio.web.pages.crawl import judged_row
from opilio.web.stats import ACTIVE_STATES

TRIAL_PAGES = 20
MAX_WORDS = 18
MAX_SEEDS = 20
# Of the words of the sentence, and of suggested ones.
OWN_WEIGHT, SUGGESTED_WEIGHT = 1.0, 0.5


class Suggestions(msgspec.Struct, frozen=True, kw_only=True):
    """What the guide offers for a topic."""

    own: tuple[str, ...] = ()  # words of the user's sentence
    words: tuple[str, ...] = ()
    seeds: tuple[str, ...] = ()
    engines: tuple[str, ...] = ()  # that answered
    problems: tuple[str, ...] = ()


def suggest(settings: Settings) -> Suggestions:
    """Ask the search engines for seeds, and take words from the URLs that they name."""
    vocabulary = build_vocabulary(settings)
    topic = make_topic(settings.topic.name, description=settings.topic.description)
    own = tuple(word.label for word in build_topic_table(topic, vocabulary, background_idf).keywords)
    try:
        found_settings, found = asyncio.run(with_found_seeds(settings))
    except SeedError as error:
        reason = str(error).partition(";")[0].removeprefix(NO_SEED_MESSAGE)
        return Suggestions(own=own, problems=(reason,))
    urls = tuple(found_settings.seeds.urls)
    known = {term for word in own for term in vocabulary.terms(word)}
    return Suggestions(
        own=own,
        words=tuple(words_of_urls(urls, known, settings)),
        seeds=urls[:MAX_SEEDS],
        engines=found.voters,
        problems=tuple(map(str, found.problems)),
    )


def words_of_urls(urls: Iterable[str], known: set[int], settings: Settings) -> list[str]:
    """Words that stand in the paths of these URLs, those of many URLs and rare in general text first."""
    vocabulary, counts, shown = build_vocabulary(settings), Counter[int](), dict[int, str]()
    for url in urls:
        host = set(url_words(f"https://{host_of(url)}/"))
        words = {word for word in url_words(url) if word not in host and len(word) > 2 and word.isalpha()}
        found = {term: word for word in sorted(words) for term in vocabulary.terms(word)}
        counts.update(found.keys() - known)
        shown |= {term: word for term, word in found.items() if term not in shown}
    shown = {term: word for term, word in shown.items() if word not in ("wiki", "html", "article", "page", "pages")}
    idf = background_frequencies()
    ranked = sorted(shown.keys() & counts.keys(), key=lambda term: (-counts[term] * idf[term], shown[term]))
    return [shown[term] for term in ranked[:MAX_WORDS]]


def keywords_with_suggestions(typed: dict[str, float], own: Iterable[str], chosen: Iterable[str]) -> dict[str, float]:
    """The keywords of the form. Suggested words count less than those of the user.

    >>> keywords_with_suggestions({"wren": 0.8}, ["small", "bird"], ["nest"])
    {'small': 1.0, 'bird': 1.0, 'nest': 0.5, 'wren': 0.8}
    """
    added = dict.fromkeys(chosen, SUGGESTED_WEIGHT)
    return {**(dict.fromkeys(own, OWN_WEIGHT) if added else {}), **added, **typed}


def show_trial(context: AppContext, request: PageRequest) -> PageView:
    """The first pages of a crawl with their verdicts, to be corrected before it continues."""
    with context.open(request.name) as collection:
        status = context.crawl_status(collection)
        pages = _trial_pages(collection)
    data = {
        "status": status,
        "pages": pages,
        "goal": status["limits"]["pages"] or TRIAL_PAGES,
        "running": status["state"] in (*ACTIVE_STATES, "starting", "new"),
        "labelled": sum(bool(page["label"]) for page in pages),
        "continue_to": max(request.values["pages"], status["pages"] + TRIAL_PAGES) if request.values["pages"] else 0,
    }
    return PageView(template="trial.html", data=data, title="Trial", table_key="pages")


def _trial_pages(collection: Collection) -> list[dict[str, Any]]:
    """In the order in which they were fetched, so that a new page does not move the others."""
    db = collection.connection
    found = [(one.key, judged_page(db, one.key)) for one in first_pages(db, TRIAL_PAGES)]
    return [judged_row(page) | {"label": label_name(db, key)} for key, page in found if page is not None]


MAX_LABELED = 500  # labelled pages that are passed over


class PrecisionEstimate(msgspec.Struct, frozen=True):
    """The estimated share of kept pages that are on topic, with its 95 % interval."""

    kept: int
    precision: float
    low: float
    high: float
    # Kept pages whose score is 1: labelled by the user.
    certain: int


def estimate_precision(scores: list[float], calibration: LabelCalibration | None = None) -> PrecisionEstimate:
    """Each score, corrected by the labels, is the probability that a kept page is on topic; a label makes it certain.

    >>> estimate_precision([1.0, 1.0, 0.5, 0.5])
    PrecisionEstimate(kept=4, precision=0.75, low=0.4035, high=1.0, certain=2)
    """
    if not scores:
        return PrecisionEstimate(0, 0.0, 0.0, 0.0, 0)
    certain = sum(score == 1.0 for score in scores)
    if calibration is not None:
        scores = [score if score == 1.0 else calibration.probability(score) for score in scores]
    mean = sum(scores) / len(scores)
    error = 1.96 * math.sqrt(sum(p * (1.0 - p) for p in scores)) / len(scores)
    low, high = max(0.0, mean - error), min(1.0, mean + error)
    return PrecisionEstimate(len(scores), round(mean, 4), round(low, 4), round(high, 4), certain)


def show_review(context: AppContext, request: PageRequest) -> PageView:
    with context.open(request.name) as collection:
        calibration = label_calibration(collection.connection)
        estimate = estimate_precision(_kept_scores(collection), calibration)
        data = {
            "pages": _least_sure(collection, request.values["size"], calibration),
            "estimate": msgspec.to_builtins(estimate),
        }
    return PageView(template="review.html", data=data, title="Review", table_key="pages")


def _kept_scores(collection: Collection) -> list[float]:
    """The scores of the kept pages. A label counts at once, although a running crawl applies it later."""
    db = collection.connection
    scores = kept_scores(db)
    for key in {row.key for row in pending_labels(collection)}:
        label = current_label(db, key)
        if label is not None and label.relevant:
            scores[key] = 1.0
        elif label is not None:
            scores.pop(key, None)
    return list(scores.values())


def _least_sure(collection: Collection, size: int, calibration: LabelCalibration | None) -> list[dict[str, Any]]:
    db = collection.connection
    found = doubtful_pages(db, size + MAX_LABELED, calibration.doubtful_score if calibration else 0.5)
    labelled = labeled_keys(db, [page.key for page in found])
    shown = [page.key for page in found if page.key not in labelled][:size]
    return [judged_row(page) for key in shown if (page := judged_page(db, key)) is not None]


PAGES = (
    PageRoute(
        path="/c/{name}/trial",
        show=show_trial,
        about="The first pages of a new crawl with their verdicts, to be corrected before it continues.",
        params=(
            Param(
                name="pages",
                about="The page limit when the crawl continues; 0: none.",
                kind="integer",
                default=1000,
                minimum=0,
                maximum=10**9,
            ),
        ),
    ),
    PageRoute(
        path="/c/{name}/review",
        show=show_review,
        about="The pages with the least certain verdicts, and the estimated precision.",
        params=(Param(name="size", about="Number of pages.", kind="integer", default=20, maximum=100),),
    ),
)
