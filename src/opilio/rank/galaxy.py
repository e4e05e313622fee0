"""What Dewey says of the links of a page: how near the words at each are to the topic's classes (S2-02, S2-23)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opilio.model.records import Reading
from opilio.rank.focus import LinkFocus
from opilio.rank.measure import LinkTexts
from opilio.topic.dewey.galaxy import RECOMMENDED, Rule
from opilio.topic.dewey.matcher import Matcher
from opilio.topic.dewey.target import Target


class GalaxyMember:
    """One number per link: 0 other classes or unknown, 0.5 the densest class is the topic's, 1 all are."""

    def __init__(self, matcher: Matcher, classes: Sequence[str], rule: Rule = RECOMMENDED) -> None:
        self._focus = LinkFocus(Target(matcher, tuple(classes)), rule)

    def __call__(self, reading: Reading, _: LinkTexts | None = None) -> NDArray[np.float64]:
        """In the order of the page's links."""
        return self._focus.of(reading).closeness
