"""Dates in HTTP headers, feeds and ISO 8601 as seconds since 1970. A date without a time zone is UTC."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def parse_http_date(text: str) -> float | None:
    """The time of an HTTP or e-mail date; None if it is not one.

    >>> parse_http_date("Thu, 01 Jan 1970 00:00:30 GMT"), parse_http_date("soon")
    (30.0, None)
    """
    # Parsing an empty header is the common case, and the parser is slow.
    if not text:
        return None
    try:
        return _timestamp(parsedate_to_datetime(text))
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None


def parse_iso_date(text: str) -> float | None:
    """The time of an ISO 8601 date, with or without a time of day; None if it is not one.

    >>> parse_iso_date("1970-01-01T00:01:00Z"), parse_iso_date("1970-01-02"), parse_iso_date("soon")
    (60.0, 86400.0, None)
    """
    try:
        return _timestamp(datetime.fromisoformat(text))
    except (ValueError, OverflowError, OSError):
        return None


def parse_date(text: str) -> float | None:
    """The time of a date in either format."""
    found = parse_iso_date(text)
    return parse_http_date(text) if found is None else found


def _timestamp(date: datetime) -> float:
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
