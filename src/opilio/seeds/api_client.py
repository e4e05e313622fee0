"""Requests to one seed engine: pauses, Retry-After, rate-limit headers, the daily budget, and API keys.

It knows no engine's formats. Failures are values in `FetchResult`. Requests go through an `ApiTransport`, which the
crawl provides: this package opens no sockets. Keys come from the environment or a file and appear in no configuration
and no message.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from opilio.core.clock import Clock
from opilio.core.errors import ConfigError
from opilio.core.files import read_text
from opilio.core.records import Failure, FetchResult, media_type

OK, TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE = 200, 429, 503
REFUSED_STATUSES = (401, 403)
MAX_OPTION_S = 1e6
MAX_QUOTA_S = 31 * 86400.0  # the longest known quota period
# A larger reset value is a point in time: some engines send that instead of seconds.
MIN_UNIX_TIME = 1_000_000_000
MAX_DIGITS = 16
MAX_MESSAGE_CHARS = 300  # of an engine's message
_CONTROL_CHARS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
UNEXPECTED_JSON = Failure("answer", "sent JSON in an unexpected format")
HeaderPairs = Sequence[tuple[str, str]]


class ApiTransport(Protocol):
    """Sends one API request, a POST of JSON if there is a body. `trusted`: the user named this server."""

    async def request(
        self, url: str, headers: HeaderPairs = (), body: bytes = b"", *, timeout_s: float = 10.0, trusted: bool = False
    ) -> FetchResult: ...


class RequestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of requests to an engine: options of every kind of engine."""

    # Libcurl counts in ms, and 0 means endless
    timeout_s: Annotated[float, Meta(ge=0.001, le=MAX_OPTION_S)] = 10.0
    pause_s: Annotated[float, Meta(ge=0, le=MAX_OPTION_S)] = 1.0  # between two requests
    # An engine that asks to wait longer is left out
    patience_s: Annotated[float, Meta(ge=0, le=MAX_OPTION_S)] = 5.0
    budget: Annotated[int, Meta(ge=0)] = 100  # requests per day; 0: no limit
    pages: Annotated[int, Meta(ge=1)] = 5  # maximum of result pages per query


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request. Keys are stored separately, so that only the client combines them with the rest."""

    url: str
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    secret_params: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secret_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    trusted: bool = False

    def full_url(self) -> str:
        """The complete URL, with keys."""
        query = urlencode([*self.params, *self.secret_params])
        return self.url + ("&" if "?" in self.url else "?") * bool(query) + query

    def redact(self, text: str) -> str:
        """A text without the keys, in any mixture of percent-encoding."""
        for _, secret in (*self.secret_params, *self.secret_headers):
            # `Bearer KEY`: a key is one word.
            key = secret.rpartition(" ")[2]
            spelled = "".join(f"(?:{re.escape(sign)}|%(?:25)*{ord(sign):02x})" for sign in key)
            text = re.sub(spelled, "…", text, flags=re.IGNORECASE)
        return text

    def redact_failure(self, failure: Failure | None) -> Failure | None:
        """The failure as one line without the keys."""
        return failure and msgspec.structs.replace(
            failure, detail=sanitize_message(self.redact(failure.detail))[:MAX_MESSAGE_CHARS]
        )


class Quota(Protocol):
    """Usage of an engine beyond one run: today's requests, and until when the engine asked for a pause."""

    def used_today(self) -> int: ...

    def count_request(self) -> None: ...

    def blocked_until(self) -> float: ...

    def block_until(self, until: float) -> None: ...


class MemoryQuota:
    """Stores the usage for one run."""

    def __init__(self) -> None:
        self._used = 0
        self._blocked_until = 0.0

    def used_today(self) -> int:
        return self._used

    def count_request(self) -> None:
        self._used += 1

    def blocked_until(self) -> float:
        return self._blocked_until

    def block_until(self, until: float) -> None:
        self._blocked_until = max(self._blocked_until, until)


class EngineClient:
    """Sends requests to one engine, one after the other."""

    def __init__(self, transport: ApiTransport, clock: Clock, limits: RequestLimits, quota: Quota) -> None:
        self._transport = transport
        self._clock = clock
        self.limits = limits
        self._quota = quota
        self._next_at = 0.0

    async def send(self, request: ApiRequest) -> FetchResult:
        """The response, after one retry if the engine asks for a short pause; a status from 400 on is a failure.

        A success with Retry-After asks for it too: MediaWiki does so when its database lags behind (`maxlag`).
        """
        fetched = await self._send_once(request)
        wait_s = self._requested_delay(fetched)
        again = fetched.retry_after_s > 0 if fetched.failure is None else fetched.failure.retry
        if again and 0 < wait_s <= self.limits.patience_s:
            fetched = await self._send_once(request)
            wait_s = self._requested_delay(fetched)
        if wait_s > self.limits.patience_s:
            self._quota.block_until(self._clock.now() + wait_s)
        return fetched

    def _requested_delay(self, fetched: FetchResult) -> float:
        """The pause that the engine asks for; the next request waits for it."""
        asks = fetched.status in (OK, TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE)
        retry_after_s = fetched.retry_after_s if asks else 0.0
        wait_s = max(retry_after_s, quota_reset_s(fetched, self._clock.now()))
        self._next_at = max(self._next_at, self._clock.now() + wait_s)
        return wait_s

    async def _send_once(self, request: ApiRequest) -> FetchResult:
        limits, now = self.limits, self._clock.now()
        rest_s = max(self._quota.blocked_until(), self._next_at) - now
        if rest_s > limits.patience_s:
            return _failed_result(request, Failure("limit", f"asks for a pause of {rest_s:.0f} s more"))
        if limits.budget and self._quota.used_today() >= limits.budget:
            return _failed_result(
                request, Failure("budget", f"the daily budget of {limits.budget} requests is used up")
            )
        await self._clock.sleep(rest_s)
        self._quota.count_request()
        headers = (*request.headers, *request.secret_headers)
        fetched = await self._transport.request(
            request.full_url(), headers, request.body, timeout_s=limits.timeout_s, trusted=request.trusted
        )
        self._next_at = self._clock.now() + limits.pause_s
        failure = request.redact_failure(fetched.failure or status_failure(fetched))
        return msgspec.structs.replace(fetched, url=request.url, failure=failure)


def _failed_result(request: ApiRequest, failure: Failure) -> FetchResult:
    return FetchResult(url=request.url, failure=failure)


def status_failure(fetched: FetchResult) -> Failure | None:
    """The failure for an HTTP status; None for success."""
    status = fetched.status
    if 200 <= status < 300:
        return None
    if status in (TOO_MANY_REQUESTS, SERVICE_UNAVAILABLE):
        wait_s = fetched.retry_after_s
        pause = f", asks to wait {wait_s:.0f} s" if wait_s else ""
        return Failure("limit", f"too many requests (status {status}{pause})", retry=True)
    if fetched.location:
        return Failure("status", f"redirects to {fetched.location.partition('?')[0]}; set its url to that")
    if status in REFUSED_STATUSES:
        return Failure("key", f"refused the request (status {status})")
    return Failure("status", f"status {status}")


def quota_reset_s(fetched: FetchResult, now: float) -> float:
    """Seconds until the longest used-up quota of X-RateLimit headers resets, at most a month; 0 if some is left.

    Brave sends one number for each window (a second, a month), separated by commas.
    """
    left = _parse_numbers(fetched.header("x-ratelimit-remaining"))
    new = _parse_numbers(fetched.header("x-ratelimit-reset"))
    waits = [r - now if r > MIN_UNIX_TIME else float(r) for n, r in zip(left, new, strict=False) if n <= 0]
    return min(max([0.0, *waits]), MAX_QUOTA_S)


def _parse_numbers(value: str) -> list[int]:
    parts = [part.strip() for part in value.split(",")]
    are_numbers = all(part.isascii() and part.isdigit() and len(part) < MAX_DIGITS for part in parts)
    return [int(part) for part in parts] if are_numbers else []


def parse_json(fetched: FetchResult) -> object | Failure:
    """The JSON of a response, or a failure."""
    if fetched.failure is not None:
        return fetched.failure
    kind = media_type(fetched.header("content-type"))
    if kind in ("text/html", "application/xhtml+xml") or fetched.body.lstrip()[:1] == b"<":
        return Failure("answer", "sent a web page instead of JSON")
    try:
        return msgspec.json.decode(fetched.body, type=object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Failure("answer", f"sent JSON that can't be read: {str(error)[:80]}")


def get_path(tree: object, *path: str) -> object:
    """The value at a path of keys, or None: the shape of external data is not trusted."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def get_objects(tree: object, *path: str) -> list[Mapping[str, object]]:
    """The objects of a list at a path."""
    found = get_path(tree, *path)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def get_objects_or_none(tree: object, *path: str, sign: str = "") -> list[Mapping[str, object]] | None:
    """The objects of the list at a path; None if the JSON has another shape.

    Engines omit empty lists: if the path ends early and `sign` is present, the list is empty.

    >>> get_objects_or_none({"data": {}}, "data", "search", sign="data")
    []
    >>> get_objects_or_none({"oops": 1}, "data", "search", sign="data") is None
    True
    """
    here = tree
    for key in path:
        if not isinstance(here, Mapping):
            return None
        if here.get(key) is None:
            return [] if get_path(tree, sign) is not None else None
        here = here[key]
    return get_objects(here) if isinstance(here, list) else None


def get_strings(tree: object, *path: str) -> list[str]:
    """The strings of a list at a path."""
    found = get_path(tree, *path)
    return [sanitize_message(text) for text in found if isinstance(text, str)] if isinstance(found, list) else []


def get_string(tree: object, *path: str) -> str:
    """The string at a path, or an empty one."""
    found = get_path(tree, *path)
    return sanitize_message(found) if isinstance(found, str) else ""


def sanitize_message(text: str) -> str:
    """Text from an engine without control characters, so that it can't break a line or control a terminal.

    >>> sanitize_message("brave\\n\\x1b[31m")
    'brave[31m'
    """
    return _CONTROL_CHARS.sub("", text)


def get_int(tree: object, *path: str) -> int:
    """The whole number at a path, or 0."""
    found = get_path(tree, *path)
    return found if isinstance(found, int) else 0


def read_key(reference: str, option: str, environment: Mapping[str, str]) -> str:
    """The key that `env:NAME` or `file:PATH` refers to; ConfigError says what to do if there is none."""
    check_key_reference(reference, option)
    kind, _, place = reference.partition(":")
    if kind == "env":
        key = environment.get(place, "").strip()
        if not key:
            raise ConfigError(f"{option}: the environment variable {place} is not set; set it to your API key")
    else:
        key = _first_line(Path(place).expanduser(), option)
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(f"{option}: {reference} does not contain a valid key; a key is one word")
    return key


def check_key_reference(reference: str, option: str) -> None:
    """Raise ConfigError for an invalid reference, without repeating it: it may be the key itself."""
    kind, _, place = reference.partition(":")
    if kind not in ("env", "file") or not place:
        raise ConfigError(f"{option}: must be env:NAME or file:PATH; do not put a key into the configuration")


def _first_line(path: Path, option: str) -> str:
    lines = read_text(path, f"{option}:").splitlines()
    key = next((line.strip() for line in lines if line.strip()), "")
    if not key:
        raise ConfigError(f"{option}: {path} is empty; put the key on its first line")
    return key
