"""Asking one engine: pauses, Retry-After, rate-limit headers, the day's budget, keys that nobody gets to see.

Knows no engine's shapes. A failure is a value in `Fetched`. What an engine is asked goes through `Asker`, which the
crawl provides: this folder opens no socket.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from opilio.model.clock import Clock
from opilio.model.records import Failure, Fetched

MANY, UNAVAILABLE = 429, 503
REFUSED = (401, 403)
LONGEST_S = 1e6
MONTH_S = 31 * 86400.0  # the longest allowance that an engine is known to have
SINCE_1970 = 1_000_000_000  # a reset that is larger is a point in time: some engines send that instead of seconds
MOST_DIGITS = 16
TOLD = 300  # characters of what an engine says
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
OTHER_SHAPE = Failure("answer", "sent JSON of another shape")
Pairs = Sequence[tuple[str, str]]


class Asker(Protocol):
    """One request of an API; with a body it is a POST of JSON. `trusted`: the person named this very server."""

    async def ask(
        self, url: str, headers: Pairs = (), body: bytes = b"", *, timeout_s: float = 10.0, trusted: bool = False
    ) -> Fetched: ...


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """On what terms an engine is asked: options that every kind of engine has."""

    timeout_s: Annotated[float, Meta(ge=0.001, le=LONGEST_S)] = 10.0  # libcurl counts in ms, and 0 means endless
    pause_s: Annotated[float, Meta(ge=0, le=LONGEST_S)] = 1.0  # between two requests
    patience_s: Annotated[float, Meta(ge=0, le=LONGEST_S)] = 5.0  # an engine that asks to wait longer is left out
    budget: Annotated[int, Meta(ge=0)] = 100  # requests a day; 0: no bound
    pages: Annotated[int, Meta(ge=1)] = 5  # most pages of results for one query


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked. Keys stand apart from the rest, so that only the asker ever puts them together."""

    url: str
    params: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    secret_params: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secret_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    trusted: bool = False

    def address(self) -> str:
        """The whole address, with keys."""
        query = urlencode([*self.params, *self.secret_params])
        return self.url + ("&" if "?" in self.url else "?") * bool(query) + query

    def scrubbed(self, text: str) -> str:
        """A text without the keys, should somebody have put them into it, in whatever mixture of percent-encoding."""
        for _, secret in (*self.secret_params, *self.secret_headers):
            key = secret.rpartition(" ")[2]  # `Bearer KEY`; a key is one word
            spelled = "".join(f"(?:{re.escape(sign)}|%(?:25)*{ord(sign):02x})" for sign in key)
            text = re.sub(spelled, "…", text, flags=re.IGNORECASE)
        return text

    def cleared(self, failure: Failure | None) -> Failure | None:
        """What went wrong, told in one line without the keys."""
        return failure and msgspec.structs.replace(failure, detail=plain(self.scrubbed(failure.detail))[:TOLD])


class Tally(Protocol):
    """What is remembered of an engine beyond one run: requests of the day, and until when it wants to be left alone."""

    def asked(self) -> int: ...

    def count(self) -> None: ...

    def resting_until(self) -> float: ...

    def rest(self, until: float) -> None: ...


class MemoryTally:
    """Remembers for one run."""

    def __init__(self) -> None:
        self._asked = 0
        self._until = 0.0

    def asked(self) -> int:
        return self._asked

    def count(self) -> None:
        self._asked += 1

    def resting_until(self) -> float:
        return self._until

    def rest(self, until: float) -> None:
        self._until = max(self._until, until)


class EngineClient:
    """Asks one engine, one request after the other."""

    def __init__(self, asker: Asker, clock: Clock, terms: Terms, tally: Tally) -> None:
        self._asker = asker
        self._clock = clock
        self.terms = terms
        self._tally = tally
        self._next_at = 0.0

    async def ask(self, request: Request) -> Fetched:
        """The answer, asked for once more where the engine wants a short pause; a status from 400 on is a failure."""
        fetched = await self._once(request)
        wait_s = self._rest_of(fetched)
        if fetched.failure is not None and fetched.failure.retry and 0 < wait_s <= self.terms.patience_s:
            fetched = await self._once(request)
            wait_s = self._rest_of(fetched)
        if wait_s > self.terms.patience_s:
            self._tally.rest(self._clock.now() + wait_s)
        return fetched

    def _rest_of(self, fetched: Fetched) -> float:
        """How long the engine wants to be left alone; the next request waits for it."""
        told_s = fetched.retry_after_s if fetched.status in (MANY, UNAVAILABLE) else 0.0
        wait_s = max(told_s, exhausted_s(fetched, self._clock.now()))
        self._next_at = max(self._next_at, self._clock.now() + wait_s)
        return wait_s

    async def _once(self, request: Request) -> Fetched:
        terms, now = self.terms, self._clock.now()
        rest_s = max(self._tally.resting_until(), self._next_at) - now
        if rest_s > terms.patience_s:
            return _failed(request, Failure("limit", f"asks to be left alone for {rest_s:.0f} s more"))
        if terms.budget and self._tally.asked() >= terms.budget:
            return _failed(request, Failure("budget", f"the day's {terms.budget} requests are used up"))
        await self._clock.sleep(rest_s)
        self._tally.count()
        headers = (*request.headers, *request.secret_headers)
        fetched = await self._asker.ask(
            request.address(), headers, request.body, timeout_s=terms.timeout_s, trusted=request.trusted
        )
        self._next_at = self._clock.now() + terms.pause_s
        failure = request.cleared(fetched.failure or failure_of(fetched))
        return msgspec.structs.replace(fetched, url=request.url, failure=failure)


def _failed(request: Request, failure: Failure) -> Fetched:
    return Fetched(url=request.url, failure=failure)


def failure_of(fetched: Fetched) -> Failure | None:
    """What a status means that is no success, the same for every engine."""
    status = fetched.status
    if 200 <= status < 300:
        return None
    if status in (MANY, UNAVAILABLE):
        wait_s = fetched.retry_after_s
        told = f", asks to wait {wait_s:.0f} s" if wait_s else ""
        return Failure("limit", f"too many requests (status {status}{told})", retry=True)
    if fetched.location:
        return Failure("status", f"moved to {fetched.location.partition('?')[0]}; set its url to that")
    if status in REFUSED:
        return Failure("key", f"refused us (status {status})")
    return Failure("status", f"status {status}")


def exhausted_s(fetched: Fetched, now: float) -> float:
    """Seconds until the longest used-up allowance of X-RateLimit headers is new, at most a month; 0 where some is left.

    Brave sends one number for each window (a second, a month), separated by commas.
    """
    left = _numbers(fetched.header("x-ratelimit-remaining"))
    new = _numbers(fetched.header("x-ratelimit-reset"))
    waits = [r - now if r > SINCE_1970 else float(r) for n, r in zip(left, new, strict=False) if n <= 0]
    return min(max([0.0, *waits]), MONTH_S)


def _numbers(value: str) -> list[int]:
    parts = [part.strip() for part in value.split(",")]
    are_numbers = all(part.isascii() and part.isdigit() and len(part) < MOST_DIGITS for part in parts)
    return [int(part) for part in parts] if are_numbers else []


def json_of(fetched: Fetched) -> object | Failure:
    """The JSON of an answer, or why there is none."""
    if fetched.failure is not None:
        return fetched.failure
    kind = fetched.header("content-type").partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml") or fetched.body.lstrip()[:1] == b"<":
        return Failure("answer", "sent a web page instead of JSON")
    try:
        return msgspec.json.decode(fetched.body, type=object)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Failure("answer", f"sent JSON that can't be read: {str(error)[:80]}")


def at(tree: object, *path: str) -> object:
    """What stands at a path of keys, or None: nothing that comes from outside is taken for granted."""
    for key in path:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def entries(tree: object, *path: str) -> list[Mapping[str, object]]:
    """The objects of a list at a path."""
    found = at(tree, *path)
    return [entry for entry in found if isinstance(entry, Mapping)] if isinstance(found, list) else []


def listed(tree: object, *path: str, sign: str = "") -> list[Mapping[str, object]] | None:
    """The objects of the list at a path, None where the JSON has another shape.

    Engines leave out what they have nothing for: where the path ends early and `sign` is there, nothing was found.

    >>> listed({"data": {}}, "data", "search", sign="data"), listed({"oops": 1}, "data", "search", sign="data")
    ([], None)
    """
    here = tree
    for key in path:
        if not isinstance(here, Mapping):
            return None
        if here.get(key) is None:
            return [] if at(tree, sign) is not None else None
        here = here[key]
    return entries(here) if isinstance(here, list) else None


def texts(tree: object, *path: str) -> list[str]:
    """The strings of a list at a path."""
    found = at(tree, *path)
    return [plain(text) for text in found if isinstance(text, str)] if isinstance(found, list) else []


def text(tree: object, *path: str) -> str:
    """The string at a path, or an empty one."""
    found = at(tree, *path)
    return plain(found) if isinstance(found, str) else ""


def plain(said: str) -> str:
    """What a stranger says as a part of a line: it can't end the line, nor tell a terminal what to do.

    >>> plain("brave\\n\\x1b[31m")
    'brave[31m'
    """
    return _CONTROL.sub("", said)


def whole(tree: object, *path: str) -> int:
    """The whole number at a path, or 0."""
    found = at(tree, *path)
    return found if isinstance(found, int) else 0


MakeClient = Callable[[str], EngineClient]
