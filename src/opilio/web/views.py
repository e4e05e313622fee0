"""The data of a page as HTML, JSON or CSV at the same URL.

The suffix decides (`/c/birds/hosts.csv`), else the Accept header. Templates escape everything; CSV cells that a
spreadsheet would treat as a formula become text, since titles come from untrusted pages.
"""

import csv
import io
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from opilio.manage.export import escape_formula

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
