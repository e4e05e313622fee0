"""The truth about a web's pages. Only the judge of record reads it; nothing that crawls may import this module."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from opilio.lab.topics import LabTopic
from opilio.lab.web import Problem, Web
from opilio.model.errors import WebError
from opilio.model.urls import canonical


class Labels:
    """The labels of each page of a web, by page number.

    A page whose labels all begin with `_`, or that has none, is not judged: it is never relevant and says
    nothing about a judge's precision.
    """

    def __init__(self, by_page: list[tuple[str, ...]], problems: list[Problem]) -> None:
        self.by_page = by_page
        self.problems = problems
        self._relevant: dict[tuple[str, ...], NDArray[np.bool_]] = {}

    @property
    def names(self) -> dict[str, int]:
        """How many pages carry each label."""
        counts: dict[str, int] = {}
        for labels in self.by_page:
            for label in labels:
                counts[label] = counts.get(label, 0) + 1
        return counts

    @cached_property
    def judged(self) -> NDArray[np.bool_]:
        """Which pages have a label that counts."""
        return np.array([_counts(labels) for labels in self.by_page], dtype=bool)

    def relevant(self, topic: LabTopic) -> NDArray[np.bool_]:
        """Which pages are relevant to a topic: worked out once, since every measure asks for it."""
        if topic.relevant not in self._relevant:
            self._relevant[topic.relevant] = self._worked_out(topic)
        return self._relevant[topic.relevant]

    def _worked_out(self, topic: LabTopic) -> NDArray[np.bool_]:
        answers: dict[tuple[str, ...], bool] = {}
        for labels in self.by_page:
            if labels not in answers:
                answers[labels] = topic.makes_relevant([x for x in labels if not x.startswith("_")])
        return np.array([answers[labels] for labels in self.by_page], dtype=bool)


def _counts(labels: tuple[str, ...]) -> bool:
    return any(not label.startswith("_") for label in labels)


def load_labels(web: Web) -> Labels:
    """The labels in `labels.tsv` of a web; a web without that file can be crawled and not judged."""
    path = web.folder / "labels.tsv"
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        raise WebError(f"{path}: no labels, so no crawl of this web can be judged") from None
    except (OSError, UnicodeDecodeError) as error:
        raise WebError(f"{path}: {error}") from error
    return read_labels(web, lines)


def read_labels(web: Web, lines: list[str]) -> Labels:
    """Labels from lines of address, tab, labels joined by `|`; an address given twice gets the labels of both."""
    by_page: list[tuple[str, ...]] = [()] * len(web)
    problems: list[Problem] = []
    for place, line in enumerate(lines, start=1):
        address, tab, joined = line.partition("\t")
        if not line.strip() or line.startswith("#"):
            continue
        number = web.number_of(canonical(address) or "")
        labels = tuple(x.strip() for x in joined.split("|") if x.strip())
        if not tab or not labels:
            problems.append(Problem("label", f"labels.tsv line {place}", "no tab and label; skipped"))
        elif number is None:
            problems.append(Problem("label", address, "label for an address that the web does not hold; skipped"))
        elif _counts(labels) and web.status(number) != 200:  # nobody can fetch it, so it must not be the oracle's
            problems.append(Problem("label", address, f"label for an answer {web.status(number)}, no page; skipped"))
        else:
            by_page[number] = tuple(dict.fromkeys(by_page[number] + labels))
    if not any(by_page):
        why = f": {problems[0]}; a line is an address, a tab, and labels joined by |" if problems else ""
        raise WebError(f"{web.folder}: labels.tsv names no page of the web{why}")
    return Labels(by_page, problems)
