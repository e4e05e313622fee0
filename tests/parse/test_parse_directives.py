"""What pages ask of crawlers, in robots meta elements and X-Robots-Tag headers (S1-03)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opilio.core.records import FetchResult
from opilio.parse.head import PageHead
from opilio.parse.signals import read_signals


def directives(values: list[str]) -> tuple[bool, bool]:
    """noindex and nofollow, in the year 2001."""
    headers = tuple(("X-Robots-Tag", value) for value in values)
    return read_signals(FetchResult(url="http://a.example/", headers=headers), PageHead()).directives(1e9)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], (False, False)),
        (["noindex, nofollow"], (True, True)),
        (["NoIndex"], (True, False)),
        (["none"], (True, True)),
        (["all", "nofollow"], (False, True)),
        (["otherbot: noindex, nofollow"], (False, False)),
        (["Opilio: noindex"], (True, False)),
        (["otherbot: noindex", "nofollow"], (False, True)),
        (["otherbot: noindex, opilio: nofollow"], (False, True)),
        (["unavailable_after: 25 Jun 2010 15:00:00 PST, nofollow"], (False, True)),
        (["unavailable_after: 25 Jun 1999 15:00:00 PST, nofollow"], (True, True)),
        (["unavailable_after: 1999-06-25"], (True, False)),
        (["unavailable_after: Saturday, 25-Jun-99 15:00:00 GMT, noarchive"], (True, False)),
        (["unavailable_after: some day"], (False, False)),
        (["otherbot: unavailable_after: 25 Jun 1999 15:00:00 PST"], (False, False)),
        (["max-snippet:-1, noindex"], (True, False)),
        (["noindex nofollow"], (True, True)),
        (["index, follow"], (False, False)),
    ],
)
def test_directives_are_read_for_our_agent(values: list[str], expected: tuple[bool, bool]) -> None:
    assert directives(values) == expected


@given(st.lists(st.text(max_size=40), max_size=4))
def test_any_directive_text_is_read(values: list[str]) -> None:
    assert len(directives(values)) == 2
