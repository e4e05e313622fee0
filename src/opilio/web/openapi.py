"""The OpenAPI 3.1 description, generated from the declarations of pages and actions."""

import re
from collections.abc import Sequence
from typing import Any

from opilio import __version__
from opilio.web.context import ActionRoute, PageRoute, Param, RawRoute, param_schema
from opilio.web.downloads import CURVE_ROUTES, EXPORT, PROMETHEUS
from opilio.web.feeds import OPENSEARCH, SAVED_FEEDS, SEARCH_FEEDS
from opilio.web.pages import ACTIONS, PAGES
from opilio.web.pages.crawl import LIVE
from opilio.web.pages.hosts import GEXF
from opilio.web.pages.stored_copy import ORIGINAL

FEEDS = (*SEARCH_FEEDS.values(), *SAVED_FEEDS.values())
RAW = (PROMETHEUS, EXPORT, *FEEDS, OPENSEARCH, GEXF, LIVE, ORIGINAL, *CURVE_ROUTES)
_OBJECT = {"type": "object", "required": ["schema"], "properties": {"schema": {"const": 1}}}
_PROBLEM = {
    "type": "object",
    "required": ["schema", "error"],
    "properties": {"schema": {"const": 1}, "error": {"type": "string"}},
}
_PROBLEMS = {
    "400": "A value is invalid; the error names it.",
    "401": "Token required.",
    "403": "The server is read-only, or the request is cross-site.",
    "404": "No such collection or page.",
    "413": "The body is too large.",
    "415": "The body is neither a form nor JSON.",
    "429": "Too many requests; see Retry-After.",
    "501": "An optional dependency is not installed.",
    "503": "The collection cannot be read at the moment.",
}


def build_openapi(names: Sequence[str]) -> dict[str, Any]:
    """The whole description. `names`: the served collections."""
    paths: dict[str, Any] = {}
    for page in PAGES:
        paths[f"{page.data_path}.json"] = {"get": _get(page, "application/json", _OBJECT)}
        if page.has_table:
            paths[f"{page.data_path}.csv"] = {"get": _get(page, "text/csv", {"type": "string"})}
    for action in ACTIONS:
        paths.setdefault(action.path, {})["post"] = _post(action)
    for raw in RAW:
        paths[raw.path] = {"get": _get(raw, raw.media_type, {})}
    for path, methods in paths.items():
        for operation in methods.values():
            operation["parameters"] = [*_in_path(path, names), *operation.get("parameters", [])]
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Opilio",
            "version": __version__,
            "description": "Every page is also data: append .json or .csv to its path, or send an Accept header.",
        },
        "paths": paths,
    }


def _get(page: PageRoute | RawRoute, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": page.about,
        "operationId": _operation_id(page.path, kind),
        "parameters": [_in_query(param) for param in page.params],
        "responses": _responses(kind, schema),
    }


def _post(action: ActionRoute) -> dict[str, Any]:
    properties = {param.name: {**param_schema(param), "description": param.about} for param in action.params}
    required = [param.name for param in action.params if param.required]
    schema = {"type": "object", "properties": properties, "required": required}
    return {
        "summary": action.about,
        "operationId": _operation_id(action.path, "post"),
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _responses("application/json", _OBJECT),
    }


def _responses(kind: str, schema: dict[str, Any]) -> dict[str, Any]:
    text = {"schema": {"type": "string"}}
    problem = {"application/json": {"schema": _PROBLEM}, "text/plain": text, "text/html": text}
    good = {"200": {"description": "The data.", "content": {kind: {"schema": schema}}}}
    return good | {code: {"description": about, "content": problem} for code, about in _PROBLEMS.items()}


def _in_path(path: str, names: Sequence[str]) -> list[dict[str, Any]]:
    about = "Name of the collection."
    schema = {"type": "string", **({"enum": list(names)} if names else {})}
    return [
        {"name": name, "in": "path", "required": True, "description": about, "schema": schema}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _in_query(param: Param) -> dict[str, Any]:
    schema = param_schema(param)
    return {
        "name": param.name,
        "in": "query",
        "required": param.required,
        "description": param.about,
        "schema": schema,
    }


def _operation_id(path: str, kind: str) -> str:
    words: Sequence[str] = re.findall(r"[a-z]+", path) or ["home"]
    return "_".join([*words, *re.findall(r"[a-z]+", kind.rpartition("/")[2])])
