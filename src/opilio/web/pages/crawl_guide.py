"""The guide to a new crawl: words and seeds suggested for a topic, and a trial whose verdicts the user corrects.

A trial is the crawl itself with a limit of a few pages. Its pages and labels are kept when the crawl continues.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec

from opilio.core.errors import SeedError
from opilio.core.settings import Settings
from opilio.core.urls import host_of
from opilio.engine.wiring.seeding import with_found_seeds
from opilio.store.collection import Collection
from opilio.store.pages import JudgedPage, first_pages, judged_page
from opilio.text.tokens import url_words
from opilio.topic.setup import background_frequencies, background_idf, build_vocabulary
from opilio.topic.topic import build_topic_table, make_topic
from opilio.web.context import NOTE_PARAM, AppContext, PageRequest, PageRoute, Param
from opilio.web.pages.page import page_label
from opilio.web.sentences import verdict_sentence
from opilio.web.stats import ACTIVE_STATES, crawl_stats
from opilio.web.views import PageView

TRIAL_PAGES = 20
MAX_WORDS = 18
MAX_SEEDS = 20
OWN_WEIGHT, SUGGESTED_WEIGHT = 1.0, 0.5  # of the words of the sentence, and of suggested ones


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
        return Suggestions(own=own, problems=(str(error).partition(";")[0],))
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
        status = crawl_stats(collection, context.stats(collection), context.clock.now())
        pages = _trial_pages(collection)
    data = {
        "status": status,
        "pages": pages,
        "goal": status["limits"]["pages"] or TRIAL_PAGES,
        "running": status["state"] in (*ACTIVE_STATES, "new"),
        "labelled": sum(bool(page["label"]) for page in pages),
        "continue_to": max(request.values["pages"], status["pages"] + TRIAL_PAGES) if request.values["pages"] else 0,
    }
    return PageView(template="trial.html", data=data, title="Trial", table_key="pages")


def _trial_pages(collection: Collection) -> list[dict[str, Any]]:
    """In the order in which they were fetched, so that a new page does not move the others."""
    db = collection.connection
    found = [(one.key, judged_page(db, one.key)) for one in first_pages(db, TRIAL_PAGES)]
    return [_trial_row(page, page_label(collection, key)) for key, page in found if page is not None]


def _trial_row(page: JudgedPage, label: str) -> dict[str, Any]:
    return {
        "url": page.url,
        "host": page.host,
        "title": page.title,
        "relevant": page.relevant,
        "score": round(page.score, 4),
        "reason": verdict_sentence(page.relevant, page.decoded_reasons, bool(page.duplicate_of)),
        "label": label,
    }


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
            NOTE_PARAM,
        ),
    ),
)
