"""What a fetcher will put up with, and how it reaches the network. Options only: no behaviour.

Reading the head of an HTTP answer. Pure: the time is passed in.

Header lines come from strangers: every function takes any bytes and raises nothing.

libcurl's error codes as the failures a crawl knows. Pure.

Following redirects for small jobs (robots.txt, example pages of a topic). A crawl queues them instead.
"""

from collections.abc import Mapping, Sequence

import msgspec
import pycurl
from msgspec.structs import replace

from opilio.core.dates import parse_http_date
from opilio.core.protocols import Fetcher
from opilio.core.records import Failure, FetchResult
from opilio.core.urls import canonicalize_url


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Nothing fetched is trusted: every answer has an end in bytes and in seconds."""

    # After decoding; a longer answer is a failure and nothing of it is kept
    body_bytes: int = 8 << 20
    header_bytes: int = 64 << 10
    header_count: int = 256
    total_s: float = 60.0
    connect_s: float = 10.0
    slow_bytes_per_s: int = 200  # an answer slower than this for `slow_s` is given up
    slow_s: int = 20
    retry_after_s: float = 86_400.0  # a longer Retry-After is cut to this


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach hosts.

    `resolve` maps a host (as in the URL, with or without its port, or `*` for all) to an address with an optional
    port. It only says where to connect: the address guard still holds for what it names.

    A `proxy` (http, https, socks4a, socks5h, ...) is trusted because the user named it: the address guard then does not
    apply, as only the proxy sees where names lead. Proxy variables of the environment are never read.
    """

    proxy: str = ""
    resolve: Mapping[str, str] = {}
    verify_tls: bool = True
    ca_file: str = ""  # certificates to trust; empty: the system's
    allow_private: bool = False
    connections: int = 64  # open at once, and requests under way at once


PAGE_TYPES = frozenset(("text/html", "application/xhtml+xml", "text/plain"))
# Sitemaps and feeds: no pages, but they tell of many.
FEED_TYPES = frozenset(("text/xml", "application/xml", "application/rss+xml", "application/atom+xml"))


def accept_pages(url: str, content_type: str) -> bool:
    """The default answer to "is this body worth having?": pages and plain text, and robots.txt whatever its label.

    >>> accept_pages("http://a.example/", "text/html; charset=utf-8"), accept_pages("http://a.example/", "image/png")
    (True, False)
    """
    kind = content_type.partition(";")[0].strip().lower()
    return not kind or kind in PAGE_TYPES or kind in FEED_TYPES or url.partition("?")[0].endswith("/robots.txt")


def parse_status_line(line: bytes) -> int:
    """The status code in a status line; 0 where there is none."""
    parts = line.split(None, 2)
    code = parts[1] if len(parts) > 1 else b""
    return int(code) if code.isdigit() and len(code) <= 3 else 0


def parse_headers(lines: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    """Names and values of raw header lines; folded lines are joined (RFC 9112, 5.2), lines without a colon dropped."""
    out: list[tuple[str, str]] = []
    for line in lines:
        text = _decode_header(line)
        if text[:1] in (" ", "\t"):
            if out:
                out[-1] = (out[-1][0], f"{out[-1][1]} {text.strip()}".strip())
            continue
        name, colon, value = text.partition(":")
        if colon and name:
            out.append((name.rstrip(), value.strip()))
    return tuple(out)


def _decode_header(line: bytes) -> str:
    """Servers send UTF-8 in Location more often than the Latin-1 that HTTP once meant.

    Other bytes in it are an address in an encoding of the server's own: escaped, they stay what they are.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        if line[:9].lower() == b"location:":
            return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in line)
        return line.decode("latin-1")


def parse_retry_after(value: str, now: float, cap_s: float) -> float:
    """Seconds to wait according to a Retry-After header: a number or a date; 0 for what can't be read.

    >>> parse_retry_after("120", 0.0, 3600.0), parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0.0, 3600.0)
    (120.0, 60.0)
    """
    value = value.strip()
    # Nearly always: reading a date that is not there would cost more than the rest of the head
    if not value:
        return 0.0
    if value.isascii() and value.isdigit():
        return cap_s if len(value) > 9 else min(float(value), cap_s)
    date = parse_http_date(value)
    return 0.0 if date is None else min(max(0.0, date - now), cap_s)


def redirect_target(status: int, location: str, url: str) -> str:
    """Where a redirect leads, canonical; empty where the answer is no redirect or leads nowhere we may go."""
    if not 300 <= status < 400 or status == 304 or not location:
        return ""
    return canonicalize_url(location, url) or ""


def parse_content_length(value: str) -> int:
    """The announced size; 0 where it is missing or nonsense."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0


CLOSED_CODE = -1  # not libcurl's: the fetcher was closed while the request was under way

# code: (kind, whether asking again later may help)
_CODE_KINDS: dict[int, tuple[str, bool]] = {
    CLOSED_CODE: ("closed", True),
    pycurl.E_UNSUPPORTED_PROTOCOL: ("protocol", False),  # also HTTP/0.9, that is: no status line
    pycurl.E_URL_MALFORMAT: ("url", False),
    pycurl.E_COULDNT_RESOLVE_PROXY: ("proxy", True),
    pycurl.E_COULDNT_RESOLVE_HOST: ("dns", True),
    pycurl.E_COULDNT_CONNECT: ("connect", True),
    8: ("protocol", False),  # weird server reply
    16: ("protocol", True),  # HTTP/2 framing
    pycurl.E_PARTIAL_FILE: ("truncated", True),
    pycurl.E_OPERATION_TIMEDOUT: ("timeout", True),
    pycurl.E_SSL_CONNECT_ERROR: ("tls", True),
    pycurl.E_GOT_NOTHING: ("empty", True),
    pycurl.E_SEND_ERROR: ("reset", True),
    pycurl.E_RECV_ERROR: ("reset", True),
    58: ("tls", False),
    59: ("tls", False),
    60: ("tls", False),  # the certificate can't be trusted
    61: ("decode", False),
    77: ("tls", False),
    83: ("tls", False),
    90: ("tls", False),
    92: ("reset", True),  # HTTP/2 stream
    97: ("proxy", True),
    100: ("headers", False),  # larger than libcurl itself allows
}

_MESSAGE_KINDS: tuple[tuple[str, tuple[str, bool]], ...] = (
    ("CONNECT tunnel", ("proxy", True)),
    ("oo large response headers", ("headers", False)),
    ("chunk", ("protocol", False)),
)


def classify_curl_error(code: int, message: str, proxy: str = "") -> Failure:
    """The failure a libcurl code stands for, where a proxy is asked or none."""
    # To hosts only the proxy connects, and tells in its own words
    if proxy and code == pycurl.E_COULDNT_CONNECT:
        scheme, _, place = proxy.rpartition("://")
        # Without a password
        named = f"{scheme or 'http'}://{place.rpartition('@')[2]}"
        return Failure("proxy", f"the proxy {named} can't be reached ({code})"[:200], retry=True)
    kind, retry = _CODE_KINDS.get(code, ("transfer", True))
    # One code stands for several troubles; only libcurl's words tell them apart.
    if code == pycurl.E_OPERATION_TIMEDOUT and "too slow" in message:
        kind = "slow"
    if code in (pycurl.E_RECV_ERROR, pycurl.E_COULDNT_CONNECT):
        kind, retry = next((known for words, known in _MESSAGE_KINDS if words in message), (kind, retry))
    return Failure(kind, f"{message or 'curl error'} ({code})"[:200], retry)


async def follow_redirects(fetcher: Fetcher, url: str, hops: int = 5) -> FetchResult:
    """The answer at the end of at most `hops` redirects; a failure `redirect-loop` where there is no end."""
    been = {url}
    found = await fetcher.fetch(url)
    while found.location and found.failure is None:
        if len(been) > hops or found.location in been:
            return replace(found, failure=Failure("redirect-loop", f"gave up at {found.location}"[:200]))
        been.add(found.location)
        found = await fetcher.fetch(found.location)
    return found
