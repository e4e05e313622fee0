"""Forecasts of what a longer crawl will find."""

from hypothesis import given
from hypothesis import strategies as st

from opilio.cli.text_output import format_forecast
from opilio.manage.status import MIN_FETCHES, forecast_relevant


@given(st.integers(MIN_FETCHES, 30_000), st.data())
def test_intervals_are_ordered_and_possible(fetched: int, data: st.DataObject) -> None:
    relevant = data.draw(st.integers(1, fetched))
    late = data.draw(st.integers(0, relevant))
    found = forecast_relevant(fetched, relevant, late)
    for one in found:
        assert relevant <= one.low <= one.relevant <= one.high <= relevant + one.fetches - fetched
    assert [one.relevant for one in found] == sorted(one.relevant for one in found)


def test_crawl_that_slows_down_is_expected_to_find_less() -> None:
    (steady,), (slowing,) = forecast_relevant(200, 100, 50, [1000]), forecast_relevant(200, 100, 10, [1000])
    assert slowing.relevant < steady.relevant
    assert slowing.high < steady.high


def test_too_little_evidence_gives_no_forecast() -> None:
    assert forecast_relevant(MIN_FETCHES - 1, 10, 5) == []
    assert forecast_relevant(200, 0, 0) == []
    assert forecast_relevant(30_000, 10, 5) == []


def test_text_says_how_far_forecasts_were_checked() -> None:
    assert "never checked" in format_forecast(forecast_relevant(200, 100, 50), 200)[-1]
    assert not any("never checked" in line for line in format_forecast(forecast_relevant(200, 100, 50, [1600]), 200))
