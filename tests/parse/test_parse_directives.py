"""What pages ask of crawlers, in robots meta elements and X-Robots-Tag headers (S1-03)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.parse.head import RobotsDirectives, parse_directives


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], RobotsDirectives()),
        (["noindex, nofollow"], RobotsDirectives(True, True)),
        (["NoIndex"], RobotsDirectives(True, False)),
        (["none"], RobotsDirectives(True, True)),
        (["all", "nofollow"], RobotsDirectives(False, True)),
        (["otherbot: noindex, nofollow"], RobotsDirectives()),
        (["Opilio: noindex"], RobotsDirectives(True, False)),
        (["otherbot: noindex", "nofollow"], RobotsDirectives(False, True)),
        (["otherbot: noindex, opilio: nofollow"], RobotsDirectives(False, True)),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow"], RobotsDirectives(False, True)),
        (["max-snippet:-1, noindex"], RobotsDirectives(True, False)),
        (["noindex nofollow"], RobotsDirectives(True, True)),
        (["index, follow"], RobotsDirectives()),
    ],
)
def test_directives_are_read_for_our_agent(values: list[str], expected: RobotsDirectives) -> None:
    assert parse_directives(values, "opilio") == expected


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_directive_text_is_read(values: list[str]) -> None:
    assert isinstance(parse_directives(values, "opilio"), RobotsDirectives)
