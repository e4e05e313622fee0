"""What pages ask of crawlers, in robots meta elements and X-Robots-Tag headers (S1-03)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.parse.directives import Directives, directives


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], Directives()),
        (["noindex, nofollow"], Directives(True, True)),
        (["NoIndex"], Directives(True, False)),
        (["none"], Directives(True, True)),
        (["all", "nofollow"], Directives(False, True)),
        (["otherbot: noindex, nofollow"], Directives()),
        (["Opilio: noindex"], Directives(True, False)),
        (["otherbot: noindex", "nofollow"], Directives(False, True)),
        (["otherbot: noindex, opilio: nofollow"], Directives(False, True)),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow"], Directives(False, True)),
        (["max-snippet:-1, noindex"], Directives(True, False)),
        (["noindex nofollow"], Directives(True, True)),
        (["index, follow"], Directives()),
    ],
)
def test_directives_are_read_for_our_agent(values: list[str], expected: Directives) -> None:
    assert directives(values, "opilio") == expected


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_directive_text_is_read(values: list[str]) -> None:
    assert isinstance(directives(values, "opilio"), Directives)
