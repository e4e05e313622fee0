"""Access control: host check, token, cross-site check, rate limits, security headers, protected settings.

- The Host header must name this server, which defeats DNS rebinding. IP addresses and loopback names are always
  accepted; other names must be configured. A second Host header is refused: a proxy in front may read the other.
- If a token is set, every request needs it, as a cookie or as `Authorization: Bearer`. The right one is always
  accepted, so that no other client of the same address can lock a user out; wrong ones are rate-limited per client.
- A request that changes something must come from this server's pages: the browser's `Sec-Fetch-Site` and `Origin`
  headers are checked, and forms carry a secret that other sites cannot read.
- Pages load only this server's files and run no inline script (Content-Security-Policy).
- A visitor of the server is not its user: the new-crawl form may not change settings that read files of the user, send
  their words or API keys elsewhere, or reach the network that the server is in, unless it has `--allow-local`.
"""

import ipaddress
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opilio.core.caches import evict_oldest
from opilio.core.clock import Clock
from opilio.core.errors import OpilioError, UsageError
from opilio.core.registry import DEFAULT_KINDS, kind_options
from opilio.core.settings import KIND_SECTIONS, Settings, Tree

MAX_TRACKED_CLIENTS = 10_000


class TooManyRequestsError(OpilioError):
    """A client exceeded its rate limit; it may retry after `wait_s` seconds."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many requests: please wait {wait_s:.0f} seconds")
        self.wait_s = wait_s

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(int(self.wait_s) + 1)}


class RateLimiter:
    """Token bucket per client: `rate_s` requests per second on average, `burst` at once."""

    def __init__(self, rate_s: float, burst: int) -> None:
        self._rate_s = rate_s
        self._burst = float(burst)
        # Client to (tokens, time).
        self._tokens: dict[str, tuple[float, float]] = {}

    def acquire(self, client: str, now: float) -> None:
        """Take a token, or raise TooManyRequestsError."""
        wait_s = self.try_acquire(client, now)
        if wait_s > 0.0:
            raise TooManyRequestsError(wait_s)

    def try_acquire(self, client: str, now: float) -> float:
        """Take a token and return 0.0, or return the seconds to wait for one.

        >>> buckets = RateLimiter(2.0, 1)
        >>> [buckets.try_acquire("a", 10.0), buckets.try_acquire("a", 10.0), buckets.try_acquire("b", 10.0),
        ...     buckets.try_acquire("a", 11.0)]
        [0.0, 0.5, 0.0, 0.0]
        """
        tokens, since = self._tokens.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + max(0.0, now - since) * self._rate_s)
        evict_oldest(self._tokens, MAX_TRACKED_CLIENTS - 1)
        if tokens < 1.0:
            self._tokens[client] = (tokens, now)
            return (1.0 - tokens) / self._rate_s
        self._tokens[client] = (tokens - 1.0, now)
        return 0.0


COOKIE = "opilio-token"
# RFC 9112, 3.2: a name or an address, and nothing around it but a port.
_HOST = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<name>[\w.-]+))(?::[0-9]{0,5})?", re.ASCII)
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC_PATHS = ("/login", "/static/", "/favicon.ico")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # With "no-referrer", browsers send Origin: null for our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class AccessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use the server. An empty token admits every client that can reach it."""

    # Accepted host names besides loopback names.
    host_names: tuple[str, ...] = ()
    token: str = ""
    form_secret: str = ""

    def is_token(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())


class TokenChecker:
    """Checks tokens; only wrong ones count against the rate limit. Tokens are long, so guessing is hopeless anyway."""

    def __init__(self, access: AccessPolicy, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._failures = RateLimiter(rate_s=0.2, burst=10)

    def check(self, client: str, *tokens: str) -> bool:
        """Whether one of the tokens is right; TooManyRequestsError if none is and the client must wait."""
        right = any(self._access.is_token(token) for token in tokens)
        if not right:
            self._failures.acquire(client, self._clock.now())
        return right


class AccessMiddleware:
    """ASGI middleware around all pages."""

    def __init__(self, app: ASGIApp, access: AccessPolicy, token_checker: TokenChecker) -> None:
        self._app = app
        self._access = access
        self._token_checker = token_checker

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, _add_security_headers(send, _cache_control(scope)))

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not is_allowed_host(hosts[0], self._access.host_names):
            return PlainTextResponse("This host name is not served here; use --name to allow it.\n", 421)
        if scope["method"] not in SAFE_METHODS and _is_cross_site(headers):
            return PlainTextResponse("Refused: cross-site request.\n", 403)
        if not self._access.token or scope["path"].startswith(PUBLIC_PATHS):
            return None
        refused = PlainTextResponse("Token required: send Authorization: Bearer TOKEN.\n", 401)
        try:
            if self._has_valid_token(scope, headers):
                return None
        except TooManyRequestsError as error:
            refused = PlainTextResponse(f"{error}\n", 429, error.headers)
        if "text/html" in headers.get("accept", "") and scope["method"] == "GET":
            return RedirectResponse("/login", 303)
        return refused

    def _has_valid_token(self, scope: Scope, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        tokens = (given.strip() if kind.lower() == "bearer" else "", Request(scope).cookies.get(COOKIE, ""))
        client = scope["client"][0] if scope.get("client") else ""
        return any(tokens) and self._token_checker.check(client, *tokens)


def is_allowed_host(host: str, names: Sequence[str]) -> bool:
    """Whether a request may name this host.

    >>> [is_allowed_host(h, ("box.example",)) for h in ("127.0.0.1:80", "localhost", "box.example:1",
    ...     "evil.example", "[::1].evil.example", "")]
    [True, True, True, False, False, False]
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = (found["ipv6"] or found["name"]).lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_cross_site(headers: Headers) -> bool:
    """Whether the browser marks the request as cross-site."""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host", "")


def _cache_control(scope: Scope) -> str:
    """Style sheet and first script are requested with a hash of their content; what they load is revalidated."""
    if not scope["path"].startswith("/static/"):
        return "no-store"
    fixed = scope["query_string"].startswith(b"v=") or scope["path"].endswith(".woff2")
    return "public, max-age=604800, immutable" if fixed else "no-cache"


def _add_security_headers(send: Send, cache_control: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", cache_control)
        await send(message)

    return sending


# An engine's options name files, servers that may have private addresses, and keys that are sent to them.
# A browser runs scripts of sites on the server, and its path names a program to start.
LOCAL_KEYS = {
    "browser": ("on", "path"),
    "engine": ("analysis_mb", "analysis_s"),
    "fetch": ("allow_private", "archives", "credentials", "proxy", "resolve", "signature_key"),
    "seeds": ("engines", "proxy", "wiki"),
    "topic": ("genre_file", "lexicon_file"),
}
# What protects the server from pages, with the value that turns it off: without workers, analysis has no limits.
PROTECTIONS: tuple[tuple[str, str, object], ...] = (("engine", "sandbox", False), ("engine", "workers", 0))
EXAMPLE_KEYS = ("examples", "counterexamples")


def reject_local_settings(tree: Tree, settings: Settings) -> None:
    """UsageError if the form's tree sets one of them; `settings` are the valid settings made from it."""
    for name in _local_settings(tree, settings):
        raise UsageError(
            f"more settings: {name}: not allowed in this form; use 'opilio crawl', or 'opilio serve --allow-local'"
        )


def _local_settings(tree: Tree, settings: Settings) -> Iterator[str]:
    for section, keys in LOCAL_KEYS.items():
        given = tree.get(section, {})
        yield from (f"{section}.{key}" for key in keys if given.get(key))
    yield from (f"{section}.{key}" for section, key, off in PROTECTIONS if tree.get(section, {}).get(key) == off)
    yield from (f"topic.{key}" for key in EXAMPLE_KEYS if _names_file(tree.get("topic", {}), key))
    for agent in settings.agents.each:
        keys = (*LOCAL_KEYS["topic"], *(key for key in EXAMPLE_KEYS if _names_file(agent.topic, key)))
        yield from (f"agents.each.topic.{key}" for key in keys if agent.topic.get(key))
    for section in KIND_SECTIONS:
        yield from (f"{section}.{key}" for key in _file_options(section, tree.get(section, {}), settings))


def _names_file(topic: Tree, key: str) -> bool:
    """Whether one of the example pages is a file; others are URLs, which the fetcher checks."""
    places: Any = topic.get(key, [])
    return not isinstance(places, list) or any("://" not in str(place) for place in places)


def _file_options(section: str, given: Tree, settings: Settings) -> list[str]:
    """The options that are set and name a file: those that take any text. Other options have a fixed set of values."""
    kind = str(getattr(settings, section).get("kind", DEFAULT_KINDS[section]))
    options = kind_options(section, kind)
    return [key for key, value in given.items() if value and key in options and options[key].annotation in (str, Path)]
