"""What pages work with: collections, statistics, clock; declarations of pages and actions; data as HTML, JSON or CSV.

The suffix of a URL decides the format (`/c/birds/hosts.csv`), else the Accept header. Templates escape everything; CSV
cells that a spreadsheet would treat as a formula become text, since titles come from untrusted pages.
"""

import csv
import io
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from opilio.core import files
from opilio.core.caches import evict_oldest
from opilio.core.clock import Clock
from opilio.core.errors import UsageError
from opilio.manage.export import escape_formula
from opilio.store.collection import Collection, open_readonly
from opilio.web.auth import RateLimiter
from opilio.web.collections import SearcherPool, ServedCollections
from opilio.web.processes import launch_state
from opilio.web.stats import ACTIVE_STATES, CollectionStats, crawl_stats

# tomllib takes quadratic time for keys of thousands of parts.
_LONG_KEY = re.compile(r"(?<![\w\"'-])(?:[\w\"'-]++[ \t]*+\.[ \t]*+){100}")

_encode = msgspec.json.Encoder(enc_hook=str).encode


class PageView(msgspec.Struct, kw_only=True):
    """What a page shows. `table_key` names the list in `data` that is its table."""

    template: str
    data: dict[str, Any]
    title: str = ""
    table_key: str = ""
    status: int = 200
    headers: dict[str, str] = {}


def response_format(request: Request) -> str:
    """html, json or csv: by the suffix of the path, else by the Accept header; JSON requests get JSON."""
    path = request.url.path
    for form in ("json", "csv"):
        if path.endswith(f".{form}"):
            return form
    if request.headers.get("content-type", "").startswith("application/json"):
        return "json"
    accepted = request.headers.get("accept", "")
    wanted = [part.partition(";")[0].strip() for part in accepted.split(",")]
    for kind in wanted:
        if kind in ("text/html", "application/xhtml+xml", "*/*"):
            return "html"
        if kind in ("application/json", "text/csv"):
            return kind.rpartition("/")[2]
    return "html"


def json_response(values: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """One JSON object with its schema version."""
    body = values if isinstance(values, dict) else {"items": values}
    return Response(_encode({"schema": 1, **_public_fields(body)}), status, headers, media_type="application/json")


def _public_fields(value: Any) -> Any:  # noqa: ANN401 any JSON
    """Without fields for the template only, whose names start with an underscore."""
    if isinstance(value, dict):
        return {k: _public_fields(v) for k, v in value.items() if not (isinstance(k, str) and k.startswith("_"))}
    return [_public_fields(v) for v in value] if isinstance(value, list) else value


def attachment_header(name: str) -> dict[str, str]:
    """The header that makes a browser save the response under this name (RFC 6266, RFC 8187).

    >>> attachment_header("鳥.csv")
    {'Content-Disposition': "attachment; filename*=UTF-8''%E9%B3%A5.csv"}
    """
    return {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}"}


def csv_response(rows: list[dict[str, Any]], headers: dict[str, str] | None = None) -> Response:
    """A table; lists and objects become JSON cells."""
    out = io.StringIO()
    names = [n for n in dict.fromkeys(name for row in rows for name in row) if not n.startswith("_")]
    writer = csv.writer(out)
    writer.writerow(names)
    writer.writerows([[_cell(row.get(name, "")) for name in names] for row in rows])
    body = out.getvalue().encode("utf-8", "replace")
    return Response(body, 200, headers, media_type="text/csv; charset=utf-8")


def _cell(value: object) -> object:
    """
    >>> _cell("=1+1"), _cell(-1.5), _cell(["a"]), _cell(None)
    ("'=1+1", -1.5, '["a"]', '')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None or isinstance(value, int | float):
        return "" if value is None else value
    return escape_formula(value if isinstance(value, str) else _encode(value).decode())


FLAG_VALUES = ("1", "0", "yes", "no")
Kind = Literal["text", "integer", "number", "choice", "flag", "list"]
MAX_VALUE_CHARS = 2_000
MAX_TEXT_CHARS = 200_000  # of a text area


class Param(msgspec.Struct, frozen=True, kw_only=True):
    """One parameter. `default` is its value if it is missing."""

    name: str
    about: str
    kind: Kind = "text"
    default: Any = ""
    choices: tuple[str, ...] = ()
    # Of a number.
    minimum: int = 1
    maximum: int = 1_000_000
    max_chars: int = MAX_VALUE_CHARS
    required: bool = False


PAGE_PARAM = Param(name="page", about="Page of the table, from 1.", kind="integer", default=1, maximum=100_000)
NOTE_PARAM = Param(name="note", about="Key of a message to show.")
SIZE_PARAM = Param(name="size", about="Rows per page.", kind="integer", default=50, maximum=500)


def parse_params(params: Sequence[Param], given: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Parsed values by name; UsageError names an invalid one."""
    found: dict[str, list[str]] = {}
    for name, text in given:
        found.setdefault(name, []).append(text)
    return {param.name: _value(param, found.get(param.name, [])) for param in params}


def _value(param: Param, texts: list[str]) -> object:
    if any(len(text) > param.max_chars for text in texts):
        raise UsageError(f"{param.name}: longer than {param.max_chars} characters")
    if any("\0" in text for text in texts):
        raise UsageError(f"{param.name}: contains a NUL character")
    if param.kind == "list":
        return [text for text in texts if text]
    text = texts[-1].strip() if texts else ""
    if not text:
        if param.required:
            raise UsageError(f"{param.name}: missing ({param.about})")
        return param.default
    return _PARSERS[param.kind](param, text)


def _integer(param: Param, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 12 and param.minimum <= int(text) <= param.maximum):
        raise UsageError(
            f"{param.name} = '{text[:40]}': must be a whole number from {param.minimum} to {param.maximum}"
        )
    return int(text)


def _number(param: Param, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not param.minimum <= number <= param.maximum:
        raise UsageError(f"{param.name} = '{text[:40]}': must be a number from {param.minimum} to {param.maximum}")
    return number


def _choice(param: Param, text: str) -> str:
    if text not in param.choices:
        raise UsageError(f"{param.name} = '{text[:40]}': unknown value; known: {', '.join(param.choices)}")
    return text


def _flag(param: Param, text: str) -> bool:
    return _choice(msgspec.structs.replace(param, choices=FLAG_VALUES), text) in ("1", "yes")


def _text(_param: Param, text: str) -> str:
    return text


_PARSERS: dict[str, Callable[[Param, str], Any]] = {
    "text": _text,
    "integer": _integer,
    "number": _number,
    "choice": _choice,
    "flag": _flag,
}


def param_schema(param: Param) -> dict[str, Any]:
    """JSON schema of the value, for OpenAPI."""
    if param.kind == "list":
        return {"type": "array", "items": {"type": "string"}}
    if param.kind == "integer":
        return {"type": "integer", "minimum": param.minimum, "maximum": param.maximum, "default": param.default}
    if param.kind == "number":
        return {"type": "number", "minimum": param.minimum, "maximum": param.maximum}
    if param.kind == "choice":
        return {"type": "string", "enum": list(param.choices), "default": param.default}
    if param.kind == "flag":
        return {"type": "string", "enum": list(FLAG_VALUES)}
    return {"type": "string", "maxLength": param.max_chars}


MAX_FLASH_MESSAGES = 200


class PageRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a request that a page needs."""

    name: str = ""  # of the collection
    values: dict[str, Any] = {}
    # Path and query, for links to JSON and CSV.
    address: str = ""
    client: str = ""

    def redirect_target(self, usual: str) -> str:
        """The page to show after an action: `back` if it is a local URL, else `usual`."""
        wanted = str(self.values.get("back", ""))
        return wanted if is_local_address(wanted) else usual


def is_local_address(address: str) -> bool:
    """Whether this is a path on this server.

    >>> [is_local_address(a) for a in ("/c/birds", "//evil.example", "/\\\\evil.example", "https://evil.example", "")]
    [True, False, False, False, False]
    """
    return address.startswith("/") and address[1:2] not in ("/", "\\") and address.isprintable()


class ActionResult(msgspec.Struct, kw_only=True):
    """The result of an action: `message` for the user, `data` for programs, and the next page."""

    message: str
    redirect_to: str
    data: dict[str, Any] = {}


class PageRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A page. `has_table`: it is available as CSV too."""

    path: str
    show: "Callable[[AppContext, PageRequest], PageView]"
    about: str
    params: tuple[Param, ...] = ()
    has_table: bool = True

    def __post_init__(self) -> None:
        # Every page can show a message.
        msgspec.structs.force_setattr(self, "params", (*self.params, NOTE_PARAM))

    @property
    def data_path(self) -> str:
        """The path before `.json` and `.csv`."""
        return self.path if self.path != "/" else "/index"


class ActionRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A request that changes something."""

    path: str
    run: "Callable[[AppContext, PageRequest], PageView | ActionResult]"
    about: str
    params: tuple[Param, ...] = ()


class RawRoute(msgspec.Struct, frozen=True, kw_only=True):
    """A file, picture or stream in a single format."""

    path: str
    about: str
    media_type: str
    params: tuple[Param, ...] = ()


class ReadOnlyError(UsageError):
    """A change was requested from a read-only server."""


class FlashMessages:
    """Messages for the page that follows an action, by unguessable keys."""

    def __init__(self) -> None:
        self._messages: dict[str, str] = {}

    def add(self, message: str) -> str:
        number = secrets.token_urlsafe(9)
        self._messages[number] = message
        evict_oldest(self._messages, MAX_FLASH_MESSAGES)
        return number

    def get(self, number: str) -> str:
        return self._messages.get(number, "")


class AppContext:
    """Shared state of all pages."""

    def __init__(
        self, collections: ServedCollections, clock: Clock, *, read_only: bool = False, allow_local: bool = False
    ) -> None:
        self.collections = collections
        self.clock = clock
        self.read_only = read_only
        self.allow_local = allow_local
        self.flash = FlashMessages()
        self.searchers = SearcherPool()
        self.search_limiter = RateLimiter(rate_s=5.0, burst=40)
        self._stats: dict[Path, CollectionStats] = {}

    def limit_searches(self, client: str) -> None:
        """Count a search of a client; raises if it searches too often."""
        self.search_limiter.acquire(client, self.clock.now())

    @contextmanager
    def open(self, name: str) -> Iterator[Collection]:
        """A collection, opened read-only."""
        with open_readonly(self.collections.folder(name)) as collection:
            yield collection

    def stats(self, collection: Collection) -> CollectionStats:
        """The statistics of a collection, up to date."""
        tally = self._stats.setdefault(collection.folder, CollectionStats())
        tally.refresh(collection)
        return tally

    def crawl_status(self, collection: Collection, stats: CollectionStats | None = None) -> dict[str, Any]:
        """The run header. A crawl that was just launched has the state `starting`. `stats`: those just read."""
        status = crawl_stats(collection, stats or self.stats(collection), self.clock.now())
        if status["state"] not in ACTIVE_STATES:
            launch = launch_state(collection.folder, status["started_at"])
            status["launch_failed"] = launch == "failed"
            status["state"] = "starting" if launch == "starting" else status["state"]
        return status

    def forget(self, name: str) -> None:
        """Serve a collection no longer; called after its deletion."""
        folder = self.collections.remove(name)
        self._stats.pop(folder, None)
        self.searchers.forget(name, folder)

    def require_writable(self) -> None:
        if self.read_only:
            raise ReadOnlyError("this server is read-only (opilio serve --read-only)")


def parse_toml(text: str, field: str) -> dict[str, Any]:
    """What a visitor wrote as TOML; raises UsageError with the name of the field."""
    if _LONG_KEY.search(text):
        raise UsageError(f"{field}: a key has more than 100 parts")
    try:
        return files.parse_toml(text)
    except ValueError as error:
        raise UsageError(f"{field}: is not valid TOML: {error}") from error
