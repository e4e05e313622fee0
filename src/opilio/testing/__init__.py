"""Conformance suites for parts that other packages write; see docs/plugins.md.

`check_ranker`, `check_judge` and `check_learner` are functions. The suites of `stages` and `frontier` are classes for
pytest: subclass one and provide the fixture it asks for. They need pytest; `stages` also needs hypothesis.
"""

from opilio.testing.conformance import (
    check_judge,
    check_learner,
    check_ranker,
    lead_to,
    reading_of,
    terms_of,
    url_terms,
    verdict_of,
)

__all__ = [
    "check_judge",
    "check_learner",
    "check_ranker",
    "lead_to",
    "reading_of",
    "terms_of",
    "url_terms",
    "verdict_of",
]
