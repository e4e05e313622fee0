"""Reading the head of an HTTP answer. Pure: the time is passed in.

Header lines come from strangers: every function takes any bytes and raises nothing.
"""

from collections.abc import Sequence
from email.utils import parsedate_to_datetime

from opilio.model.urls import canonical

PAGE_TYPES = frozenset(("text/html", "application/xhtml+xml", "text/plain"))
# Sitemaps and feeds: no pages, but they tell of many.
NOTICE_TYPES = frozenset(("text/xml", "application/xml", "application/rss+xml", "application/atom+xml"))


def wants_pages(url: str, content_type: str) -> bool:
    """The default answer to "is this body worth having?": pages and plain text, and robots.txt whatever its label.

    >>> wants_pages("http://a.example/", "text/html; charset=utf-8"), wants_pages("http://a.example/", "image/png")
    (True, False)
    """
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind in PAGE_TYPES or kind in NOTICE_TYPES or url.partition("?")[0].endswith("/robots.txt")


def status_of(line: bytes) -> int:
    """The status code in a status line; 0 where there is none."""
    parts = line.split(None, 2)
    code = parts[1] if len(parts) > 1 else b""
    return int(code) if code.isdigit() and len(code) <= 3 else 0


def headers_of(lines: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    """Names and values of raw header lines; folded lines are joined (RFC 9112, 5.2), lines without a colon dropped."""
    out: list[tuple[str, str]] = []
    for line in lines:
        text = _text(line)
        if text[:1] in (" ", "\t"):
            if out:
                out[-1] = (out[-1][0], f"{out[-1][1]} {text.strip()}".strip())
            continue
        name, colon, value = text.partition(":")
        if colon and name:
            out.append((name.rstrip(), value.strip()))
    return tuple(out)


def _text(line: bytes) -> str:
    """Servers send UTF-8 in Location more often than the Latin-1 that HTTP once meant.

    Other bytes in it are an address in an encoding of the server's own: escaped, they stay what they are.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        if line[:9].lower() == b"location:":
            return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in line)
        return line.decode("latin-1")


def retry_after(value: str, now: float, cap_s: float) -> float:
    """Seconds to wait according to a Retry-After header: a number or a date; 0 for what can't be read.

    >>> retry_after("120", 0.0, 3600.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0.0, 3600.0)
    (120.0, 60.0)
    """
    value = value.strip()
    if not value:  # nearly always: reading a date that is not there would cost more than the rest of the head
        return 0.0
    if value.isascii() and value.isdigit():
        return cap_s if len(value) > 9 else min(float(value), cap_s)
    try:
        wait = parsedate_to_datetime(value).timestamp() - now
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0
    return min(max(0.0, wait), cap_s)


def location_of(status: int, location: str, url: str) -> str:
    """Where a redirect leads, canonical; empty where the answer is no redirect or leads nowhere we may go."""
    if not 300 <= status < 400 or status == 304 or not location:
        return ""
    return canonical(location, url) or ""


def content_length(value: str) -> int:
    """The announced size; 0 where it is missing or nonsense."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0
