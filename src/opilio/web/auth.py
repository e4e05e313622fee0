"""What every request passes before it reaches a page: whose host it names, who asks, what answers may do.

- The Host header must be ours: a stranger's page that resolves its own name to 127.0.0.1 (DNS rebinding) gets nothing.
  Literal addresses can't be rebound; names are ours when they are loopback's or were given.
- With a token, nobody without it sees anything. It comes as a cookie, or as `Authorization: Bearer`. A client has few
  wrong ones: when they are used up, no token is looked at before it has waited.
- What changes something must come from our own pages: browsers say where a request comes from (`Sec-Fetch-Site`,
  `Origin`), and forms carry a secret that other sites can't read.
- Answers may load nothing but our own files and run no inline script.

How often one client may ask for something costly: a bucket of tokens that fills with time. Reads no clock.
"""

import ipaddress
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from opilio.core.clock import Clock
from opilio.core.errors import OpilioError

MAX_TRACKED_CLIENTS = 10_000


class TooManyRequestsError(OpilioError):
    """A client asks more often than it may. `wait_s` tells when it may again."""

    def __init__(self, wait_s: float) -> None:
        super().__init__(f"too many requests: please wait {wait_s:.0f} seconds")
        self.wait_s = wait_s

    @property
    def headers(self) -> dict[str, str]:
        return {"Retry-After": str(int(self.wait_s) + 1)}


class RateLimiter:
    """`rate_s` requests a second on average, `burst` at once, for each client."""

    def __init__(self, rate_s: float, burst: int) -> None:
        self._rate_s = rate_s
        self._burst = float(burst)
        self._tokens: dict[str, tuple[float, float]] = {}  # client to (tokens, when that was)

    def acquire(self, client: str, now: float) -> None:
        """Take a token; TooManyError where there is none."""
        wait_s = self.try_acquire(client, now)
        if wait_s > 0.0:
            raise TooManyRequestsError(wait_s)

    def refund(self, client: str) -> None:
        """What was taken last was not needed."""
        tokens, since = self._tokens[client]
        self._tokens[client] = (tokens + 1.0, since)

    def try_acquire(self, client: str, now: float) -> float:
        """Take a token: 0.0; or how long to wait for one.

        >>> buckets = RateLimiter(2.0, 1)
        >>> [buckets.try_acquire("a", 10.0), buckets.try_acquire("a", 10.0), buckets.try_acquire("b", 10.0),
        ...     buckets.try_acquire("a", 11.0)]
        [0.0, 0.5, 0.0, 0.0]
        """
        tokens, since = self._tokens.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + max(0.0, now - since) * self._rate_s)
        if len(self._tokens) >= MAX_TRACKED_CLIENTS:
            self._tokens.pop(next(iter(self._tokens)))
        if tokens < 1.0:
            self._tokens[client] = (tokens, now)
            return (1.0 - tokens) / self._rate_s
        self._tokens[client] = (tokens - 1.0, now)
        return 0.0


COOKIE = "opilio-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
PUBLIC_PATHS = ("/login", "/static/", "/favicon.ico")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';"
    " form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none at all, browsers say of our own forms that they come from nowhere
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class AccessPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Who may ask. An empty token: everybody who can reach us, which on loopback is this machine."""

    host_names: tuple[str, ...] = ()  # host names that are ours, beside loopback's
    token: str = ""
    form_secret: str = ""

    def is_token(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())


class TokenChecker:
    """Tokens as clients try them, wherever they come from. Only wrong ones count."""

    def __init__(self, access: AccessPolicy, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._failures = RateLimiter(rate_s=0.2, burst=10)

    def check(self, token: str, client: str) -> bool:
        """Is it the right one? TooManyError, whatever it is, where the client must wait."""
        self._failures.acquire(client, self._clock.now())
        right = self._access.is_token(token)
        if right:
            self._failures.refund(client)
        return right


class AccessMiddleware:
    """ASGI middleware around all pages."""

    def __init__(self, app: ASGIApp, access: AccessPolicy, guesses: TokenChecker) -> None:
        self._app = app
        self._access = access
        self._token_checker = guesses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, _add_security_headers(send))

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if not is_allowed_host(headers.get("host", ""), self._access.host_names):
            return PlainTextResponse("This host name is not served here; use --name to allow it.\n", 421)
        if scope["method"] not in SAFE_METHODS and _is_cross_site(headers):
            return PlainTextResponse("Refused: this came from another site.\n", 403)
        if not self._access.token or scope["path"].startswith(PUBLIC_PATHS):
            return None
        refused = PlainTextResponse("A token is needed: send Authorization: Bearer TOKEN.\n", 401)
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
        return any(self._token_checker.check(token, client) for token in tokens if token)


def is_allowed_host(host: str, names: Sequence[str]) -> bool:
    """May a request name this host?

    >>> [is_allowed_host(h, ("box.example",)) for h in ("127.0.0.1:80", "localhost", "box.example:1",
    ...     "evil.example", "")]
    [True, True, True, False, False]
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    if name == "localhost" or name.endswith(".localhost") or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_cross_site(headers: Headers) -> bool:
    """Does a browser say that another site made this request?"""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host", "")


def _add_security_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
