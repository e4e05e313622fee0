"""Review: the pages with the least certain verdicts, to be labelled with one key each."""

import math
from typing import Any

import msgspec

from opilio.judge.learned import LabelCalibration
from opilio.manage.label import label_calibration
from opilio.store.collection import Collection
from opilio.store.commands import labeled_keys
from opilio.store.pages import doubtful_pages, judged_page, kept_scores
from opilio.store.run_tables import has_table
from opilio.web.context import NOTE_PARAM, AppContext, PageRequest, PageRoute, Param
from opilio.web.sentences import verdict_sentence
from opilio.web.views import PageView

MAX_LABELED = 500  # labelled pages that are passed over


class PrecisionEstimate(msgspec.Struct, frozen=True):
    """The estimated share of kept pages that are on topic, with its 95 % interval."""

    kept: int
    precision: float
    low: float
    high: float
    certain: int  # kept pages whose score is 1: labelled by the user


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
        estimate = estimate_precision(kept_scores(collection.connection), calibration)
        data = {
            "pages": _least_sure(collection, request.values["size"], calibration),
            "estimate": msgspec.to_builtins(estimate),
        }
    return PageView(template="review.html", data=data, title="Review", table_key="pages")


def _least_sure(collection: Collection, size: int, calibration: LabelCalibration | None) -> list[dict[str, Any]]:
    db = collection.connection
    found = doubtful_pages(db, size + MAX_LABELED, calibration.doubtful_score if calibration else 0.5)
    labelled = labeled_keys(db, [page.key for page in found]) if has_table(db, "label") else set[int]()
    return [_row(collection, page.key) for page in found if page.key not in labelled][:size]


def _row(collection: Collection, key: int) -> dict[str, Any]:
    page = judged_page(collection.connection, key)
    assert page is not None  # read in the same transaction
    return {
        "url": page.url,
        "host": page.host,
        "title": page.title,
        "relevant": page.relevant,
        "score": round(page.score, 4),
        "reason": verdict_sentence(page.relevant, page.decoded_reasons),
    }


PAGES = (
    PageRoute(
        path="/c/{name}/review",
        show=show_review,
        about="The pages with the least certain verdicts, and the estimated precision.",
        params=(Param(name="size", about="Number of pages.", kind="integer", default=20, maximum=100), NOTE_PARAM),
    ),
)
