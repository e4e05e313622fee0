"""The labels of a web's pages. Only the evaluation reads them; no module on the crawler side may import this."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opilio.core.errors import OfflineWebError
from opilio.core.urls import canonicalize_url
from opilio.lab.webs.topics import LabTopic
from opilio.lab.webs.web import LabProblem, WarcWeb


class GroundTruthLabels:
    """The labels of each page of a web, by page number.

    A page without labels, or whose labels all begin with `_`, is not judged: it is never relevant and does not count
    for a judge's precision.
    """

    def __init__(self, by_page: list[tuple[str, ...]], problems: list[LabProblem]) -> None:
        self.by_page = by_page
        self.problems = problems
        self._relevant: dict[tuple[str, ...], NDArray[np.bool_]] = {}

    @property
    def page_counts(self) -> dict[str, int]:
        """The number of pages with each label."""
        counts: dict[str, int] = {}
        for labels in self.by_page:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        return counts

    @cached_property
    def labeled_pages(self) -> NDArray[np.bool_]:
        """Which pages have a label that counts."""
        return np.array([_is_judging_label(labels) for labels in self.by_page], dtype=bool)

    def relevant(self, topic: LabTopic) -> NDArray[np.bool_]:
        """Which pages are relevant to a topic: cached, since every measure needs it."""
        if topic.relevant not in self._relevant:
            self._relevant[topic.relevant] = self._compute_relevant_pages(topic)
        return self._relevant[topic.relevant]

    def _compute_relevant_pages(self, topic: LabTopic) -> NDArray[np.bool_]:
        answers: dict[tuple[str, ...], bool] = {}
        for labels in self.by_page:
            if labels not in answers:
                answers[labels] = topic.is_relevant([x for x in labels if not x.startswith("_")])
        return np.array([answers[labels] for labels in self.by_page], dtype=bool)


def _is_judging_label(labels: tuple[str, ...]) -> bool:
    return any(not label.startswith("_") for label in labels)


def load_labels(web: WarcWeb) -> GroundTruthLabels:
    """The labels in `labels.tsv` of a web; without that file crawls can run but not be scored."""
    path = web.folder / "labels.tsv"
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise OfflineWebError(f"{path}: no labels, so crawls of this web can't be scored") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OfflineWebError(f"{path}: {error}") from error
    return parse_labels(web, lines)


def parse_labels(web: WarcWeb, lines: list[str]) -> GroundTruthLabels:
    """Labels from lines of URL, tab, labels joined by `|`; a URL given twice gets the labels of both."""
    by_page: list[tuple[str, ...]] = [()] * len(web)
    problems: list[LabProblem] = []
    for place, line in enumerate(lines, start=1):
        address, tab, joined = line.partition("\t")
        if not line.strip() or line.startswith("#"):
            continue
        number = web.number_of(canonicalize_url(address) or "")
        labels = tuple(x.strip() for x in joined.split("|") if x.strip())
        if not tab or not labels:
            problems.append(LabProblem("label", f"labels.tsv line {place}", "no tab and label; skipped"))
        elif number is None:
            problems.append(LabProblem("label", address, "label for an address that the web does not hold; skipped"))
        # A page that can't be fetched must not count for the oracle.
        elif _is_judging_label(labels) and web.status(number) != 200:
            problems.append(LabProblem("label", address, f"label for an answer {web.status(number)}, no page; skipped"))
        else:
            by_page[number] = tuple(dict.fromkeys(by_page[number] + labels))
    if not any(by_page):
        why = f": {problems[0]}; a line is an address, a tab, and labels joined by |" if problems else ""
        raise OfflineWebError(f"{web.folder}: labels.tsv names no page of the web{why}")
    return GroundTruthLabels(by_page, problems)
