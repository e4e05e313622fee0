"""libcurl's error codes as the failures a crawl knows. Pure."""

import pycurl

from opilio.model.records import Failure

CLOSED = -1  # not libcurl's: the fetcher was closed while the request was under way

# code: (kind, whether asking again later may help)
_KINDS: dict[int, tuple[str, bool]] = {
    CLOSED: ("closed", True),
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

_WORDS: tuple[tuple[str, tuple[str, bool]], ...] = (
    ("CONNECT tunnel", ("proxy", True)),
    ("oo large response headers", ("headers", False)),
    ("chunk", ("protocol", False)),
)


def failure_of(code: int, message: str, proxy: str = "") -> Failure:
    """The failure a libcurl code stands for, where a proxy is asked or none."""
    if proxy and code == pycurl.E_COULDNT_CONNECT:  # to hosts only the proxy connects, and tells in its own words
        scheme, _, place = proxy.rpartition("://")
        named = f"{scheme or 'http'}://{place.rpartition('@')[2]}"  # without a password
        return Failure("proxy", f"the proxy {named} can't be reached ({code})"[:200], retry=True)
    kind, retry = _KINDS.get(code, ("transfer", True))
    # One code stands for several troubles; only libcurl's words tell them apart.
    if code == pycurl.E_OPERATION_TIMEDOUT and "too slow" in message:
        kind = "slow"
    if code in (pycurl.E_RECV_ERROR, pycurl.E_COULDNT_CONNECT):
        kind, retry = next((known for words, known in _WORDS if words in message), (kind, retry))
    return Failure(kind, f"{message or 'curl error'} ({code})"[:200], retry)
