"""HTTP without the network: options of fetchers, response heads, libcurl errors as failures, redirects.

Header lines are untrusted: every parser accepts any bytes and raises nothing. A crawl queues redirects;
`follow_redirects` is for single requests (robots.txt, example pages).
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec
import pycurl
from msgspec.structs import replace

from opilio.core.clock import parse_http_date
from opilio.core.protocols import Fetcher
from opilio.core.records import CONTENT_TYPE_FAILURE, Failure, FetchResult, media_type
from opilio.core.urls import canonicalize_url
from opilio.fetch.identity import RequestIdentity


class FetchLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits on every response in bytes and in seconds."""

    # After decoding; of a longer text the beginning is kept, anything else that is longer is a failure.
    body_bytes: int = 8 << 20
    # The same for documents such as PDF, which can't be read in part.
    document_bytes: int = 32 << 20
    in_flight_bytes: int = 32 << 20  # of all bodies that are being received
    header_bytes: int = 64 << 10
    header_count: int = 256
    total_s: float = 60.0
    connect_s: float = 10.0
    # A response slower than this for `slow_s` is aborted.
    slow_bytes_per_s: int = 200
    slow_s: int = 20
    retry_after_s: float = 86_400.0  # maximum of Retry-After


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to reach hosts.

    `resolve` maps a host (as in the URL, with or without its port, or `*` for all) to an address with an optional port.
    It only changes where to connect: the address guard still checks the address.

    A `proxy` (http, https, socks4a, socks5h, ...) is trusted because the user configured it: the address guard then
    does not apply, as only the proxy resolves names. Proxy variables of the environment are never read.
    """

    proxy: str = ""
    resolve: Mapping[str, str] = {}
    verify_tls: bool = True
    # Certificates to trust; empty: the system's.
    ca_file: str = ""
    allow_private: bool = False
    # Maximum of open connections and of requests in flight.
    connections: int = 64
    # Return the cookies that hosts set, in this process only.
    cookies: bool = False
    # Preferred language code, sent as Accept-Language; empty: none.
    language: str = ""
    identity: RequestIdentity | None = None  # credentials and signature of requests


PAGE_TYPES = frozenset(("text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/x-markdown"))
# Sitemaps and feeds list pages.
FEED_TYPES = frozenset(("text/xml", "application/xml", "application/rss+xml", "application/atom+xml"))
# Types that say nothing about the content.
_UNKNOWN_TYPES = frozenset(("application/octet-stream", "application/x-download", "binary/octet-stream"))
_FILES_OF_ANY_TYPE = ("/robots.txt", "/.well-known/tdmrep.json", ".xml.gz")


def is_text(content_type: str) -> bool:
    """True for types of which a beginning is readable: HTML, plain text, XML."""
    kind = media_type(content_type)
    return not kind or kind.startswith("text/") or kind in PAGE_TYPES or kind.endswith("xml")


class ResponseFilter:
    """Which responses are received, decided by their heads: pages, sitemaps, feeds, robots.txt and some documents.

    `documents` are media types, `extensions` those of their files, for servers that send no useful type. `refused` has
    types that are not received, with the failure that says why.
    """

    def __init__(
        self,
        documents: Collection[str] = (),
        extensions: Collection[str] = (),
        refused: Mapping[str, Failure] | None = None,
    ) -> None:
        self.documents = tuple(documents)
        self._accepted = PAGE_TYPES | FEED_TYPES | frozenset(documents)
        self._endings = tuple(f".{extension}" for extension in extensions)
        self._refused = refused or {}

    def refusal(self, url: str, content_type: str) -> Failure | None:
        """Why the body is not wanted; None if it is.

        >>> ResponseFilter().refusal("http://a.example/", "text/html; charset=utf-8")
        >>> ResponseFilter().refusal("http://a.example/", "image/png")
        Failure(kind='content-type', detail='image/png', retry=False)
        """
        kind = media_type(content_type)
        if not kind or kind in self._accepted or self.is_document(url, content_type):
            return None
        if url.partition("?")[0].endswith(_FILES_OF_ANY_TYPE):
            return None
        return self._refused.get(kind) or Failure(CONTENT_TYPE_FAILURE, content_type[:100])

    def is_document(self, url: str, content_type: str) -> bool:
        """True for a document by its type, or by the name of its file if the type says nothing."""
        kind = media_type(content_type)
        is_file = kind in _UNKNOWN_TYPES and url.partition("?")[0].lower().endswith(self._endings)
        return is_file or (kind in self.documents and not is_text(content_type))


class AnyResponse(ResponseFilter):
    """Receives everything: for requests of a browser."""

    def refusal(self, url: str, content_type: str) -> Failure | None:  # noqa: ARG002 - the same for all
        return None


def parse_status_line(line: bytes) -> int:
    """The status code in a status line; 0 if there is none."""
    parts = line.split(None, 2)
    code = parts[1] if len(parts) > 1 else b""
    return int(code) if code.isdigit() and len(code) <= 3 else 0


def parse_headers(lines: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    """Names and values of raw header lines; folded lines are joined (RFC 9112, 5.2), lines without a name dropped.

    >>> parse_headers([b"A: b\\r\\n", b" c\\r\\n", b": d\\r\\n", b"\\x1e: e\\r\\n"])
    (('A', 'b c'),)
    """
    out: list[tuple[str, str]] = []
    for line in lines:
        text = _decode_header(line)
        if text[:1] in (" ", "\t"):
            if out:
                out[-1] = (out[-1][0], f"{out[-1][1]} {text.strip()}".strip())
            continue
        name, colon, value = text.partition(":")
        if colon and (name := name.rstrip()):
            out.append((name, value.strip()))
    return tuple(out)


def _decode_header(line: bytes) -> str:
    """Decode a header line as UTF-8, which servers use in Location more often than HTTP's Latin-1.

    Other bytes in Location are a URL in the server's own encoding and are percent-encoded.
    """
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError:
        if line[:9].lower() == b"location:":
            return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in line)
        return line.decode("latin-1")


def parse_retry_after(value: str, now: float, cap_s: float) -> float:
    """Seconds to wait according to a Retry-After header, a number or a date; 0 if it can't be parsed.

    >>> parse_retry_after("120", 0.0, 3600.0), parse_retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 0.0, 3600.0)
    (120.0, 60.0)
    """
    value = value.strip()
    # The common case.
    if not value:
        return 0.0
    if value.isascii() and value.isdigit():
        return cap_s if len(value) > 9 else min(float(value), cap_s)
    date = parse_http_date(value)
    return 0.0 if date is None else min(max(0.0, date - now), cap_s)


def redirect_target(status: int, location: str, url: str) -> str:
    """The canonical target of a redirect; empty if there is none or it is not a valid URL."""
    if not 300 <= status < 400 or status == 304 or not location:
        return ""
    return canonicalize_url(location, url) or ""


def parse_content_length(value: str) -> int:
    """The value of Content-Length; 0 if it is missing or invalid."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < 20 else 0


# Not libcurl's: the fetcher was closed while the request was in flight.
CLOSED_CODE = -1

# code: (kind, whether a retry may succeed)
_CODE_KINDS: dict[int, tuple[str, bool]] = {
    CLOSED_CODE: ("closed", True),
    pycurl.E_UNSUPPORTED_PROTOCOL: ("protocol", False),  # also HTTP/0.9, without a status line
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
    60: ("tls", False),  # the certificate is not trusted
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
    """The failure for a libcurl error code."""
    # With a proxy, only the connection to the proxy itself can fail in this way.
    if proxy and code == pycurl.E_COULDNT_CONNECT:
        scheme, _, place = proxy.rpartition("://")
        # Without the password.
        named = f"{scheme or 'http'}://{place.rpartition('@')[2]}"
        return Failure("proxy", f"the proxy {named} can't be reached ({code})"[:200], retry=True)
    kind, retry = _CODE_KINDS.get(code, ("transfer", True))
    # One code stands for several problems; only libcurl's message distinguishes them.
    if code == pycurl.E_OPERATION_TIMEDOUT and "too slow" in message:
        kind = "slow"
    if code in (pycurl.E_RECV_ERROR, pycurl.E_COULDNT_CONNECT):
        kind, retry = next((known for words, known in _MESSAGE_KINDS if words in message), (kind, retry))
    return Failure(kind, f"{message or 'curl error'} ({code})"[:200], retry)


async def follow_redirects(fetcher: Fetcher, url: str, hops: int = 5) -> FetchResult:
    """The response after at most `hops` redirects; the failure `redirect-loop` if there are more."""
    visited = {url}
    found = await fetcher.fetch(url)
    while found.location and found.failure is None:
        if len(visited) > hops or found.location in visited:
            return replace(found, failure=Failure("redirect-loop", f"gave up at {found.location}"[:200]))
        visited.add(found.location)
        found = await fetcher.fetch(found.location)
    return found
