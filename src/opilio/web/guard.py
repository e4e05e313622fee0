"""What every request passes before it reaches a page: whose host it names, who asks, what answers may do.

- The Host header must be ours: a stranger's page that resolves its own name to 127.0.0.1 (DNS rebinding) gets nothing.
  Literal addresses can't be rebound; names are ours when they are loopback's or were given.
- With a token, nobody without it sees anything. It comes as a cookie, or as `Authorization: Bearer`. A client has few
  wrong ones: when they are used up, no token is looked at before it has waited.
- What changes something must come from our own pages: browsers say where a request comes from (`Sec-Fetch-Site`,
  `Origin`), and forms carry a secret that other sites can't read.
- Answers may load nothing but our own files and run no inline script.
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

from opilio.model.clock import Clock
from opilio.web.buckets import Buckets, TooManyError

COOKIE = "opilio-token"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN_PATHS = ("/login", "/static/", "/favicon.ico")
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


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Who may ask. An empty token: everybody who can reach us, which on loopback is this machine."""

    names: tuple[str, ...] = ()  # host names that are ours, beside loopback's
    token: str = ""
    form_secret: str = ""

    def fits(self, token: str) -> bool:
        return secrets.compare_digest(token.encode(), self.token.encode())


class Guesses:
    """Tokens as clients try them, wherever they come from. Only wrong ones count."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._wrong = Buckets(rate_s=0.2, burst=10)

    def fits(self, token: str, client: str) -> bool:
        """Is it the right one? TooManyError, whatever it is, where the client must wait."""
        self._wrong.take(client, self._clock.now())
        right = self._access.fits(token)
        if right:
            self._wrong.give_back(client)
        return right


class Guard:
    """ASGI middleware around all pages."""

    def __init__(self, app: ASGIApp, access: Access, guesses: Guesses) -> None:
        self._app = app
        self._access = access
        self._guesses = guesses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refusal(scope)
        await (refused or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        if not is_ours(headers.get("host", ""), self._access.names):
            return PlainTextResponse("This host name is not served here; use --name to allow it.\n", 421)
        if scope["method"] not in SAFE_METHODS and _is_foreign(headers):
            return PlainTextResponse("Refused: this came from another site.\n", 403)
        if not self._access.token or scope["path"].startswith(OPEN_PATHS):
            return None
        refused = PlainTextResponse("A token is needed: send Authorization: Bearer TOKEN.\n", 401)
        try:
            if self._knows(scope, headers):
                return None
        except TooManyError as error:
            refused = PlainTextResponse(f"{error}\n", 429, error.headers)
        if "text/html" in headers.get("accept", "") and scope["method"] == "GET":
            return RedirectResponse("/login", 303)
        return refused

    def _knows(self, scope: Scope, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        tokens = (given.strip() if kind.lower() == "bearer" else "", Request(scope).cookies.get(COOKIE, ""))
        client = scope["client"][0] if scope.get("client") else ""
        return any(self._guesses.fits(token, client) for token in tokens if token)


def is_ours(host: str, names: Sequence[str]) -> bool:
    """May a request name this host?

    >>> [is_ours(h, ("box.example",)) for h in ("127.0.0.1:80", "localhost", "box.example:1", "evil.example", "")]
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


def _is_foreign(headers: Headers) -> bool:
    """Does a browser say that another site made this request?"""
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != headers.get("host", "")


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return sending
