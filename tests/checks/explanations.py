"""Shortcuts to parts of an explanation that must be there."""

from pathlib import Path

from opilio.manage.results import PageExplanation, RankerExplanation
from opilio.manage.why import why


def explained_page(folder: Path, url: str) -> PageExplanation:
    """The verdict on a stored page."""
    page = why(folder, url).page
    assert page is not None, f"{url} is not a stored page"
    return page


def explained_ranking(folder: Path, url: str) -> RankerExplanation:
    """The ranker's score of a URL."""
    ranker = why(folder, url).ranker
    assert ranker is not None, f"{url} has no ranking"
    return ranker
