"""The ASGI application: routes, response formats, error pages; and the server that runs it until it is stopped."""

import ipaddress
import secrets
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from opilio.core.clock import SystemClock
from opilio.core.errors import CollectionError, MissingExtraError, OpilioError, UsageError, errors_of_damage
from opilio.core.records import media_type
from opilio.store.seal import seal_problems
from opilio.web.auth import COOKIE, AccessMiddleware, AccessPolicy, TokenChecker, TooManyRequestsError
from opilio.web.collections import ServedCollections, UnknownCollectionError
from opilio.web.context import (
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    ReadOnlyError,
    csv_response,
    json_response,
    parse_params,
    response_format,
)
from opilio.web.downloads import curve_routes, export_route, metrics_route
from opilio.web.feeds import feed_routes, opensearch_route
from opilio.web.openapi import build_openapi
from opilio.web.pages import ACTIONS, PAGES
from opilio.web.pages.crawl import live_route
from opilio.web.pages.hosts import GEXF, gexf_response, show_graph
from opilio.web.pages.stored_copy import original_route
from opilio.web.templating import TemplateRenderer

MAX_BODY_BYTES = 1_000_000
FIRST_QUESTION = "pages about this topic"  # asked when the server starts
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
METHODS = ["GET", "HEAD"]


class Application:
    """Serves the pages and actions."""

    def __init__(self, context: AppContext, access: AccessPolicy) -> None:
        self.context = context
        self.access = msgspec.structs.replace(access, form_secret=access.form_secret or secrets.token_urlsafe(24))
        self.templates = TemplateRenderer(context, self.access)
        self._token_checker = TokenChecker(self.access, context.clock)

    def asgi(self) -> Starlette:
        """The application behind the access middleware."""
        routes: list[Route | Mount] = [r for page in PAGES for r in self._page_routes(page)]
        routes += [Route(a.path, self._action_endpoint(a), methods=["POST"], name=a.path) for a in ACTIONS]
        routes += [
            live_route(self.context, self.templates),
            metrics_route(self.context),
            export_route(self.context),
            original_route(self.context),
            *feed_routes(self.context),
            opensearch_route(),
            *curve_routes(self.context),
            Route(GEXF.path, self._gexf, methods=METHODS),
            Route("/c/{name}/wish", _redirect_to_command, methods=["POST"]),
            Route("/openapi.json", self._openapi, methods=METHODS),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/favicon.ico", lambda _: RedirectResponse("/static/favicon.svg", 301), methods=METHODS),
            Mount("/static", _static()),
        ]
        handlers: dict[Any, Any] = {
            **dict.fromkeys(errors_of_damage(), self._handle_damage),
            OpilioError: self._handle_error,
            HTTPException: self._handle_http_error,
            msgspec.DecodeError: self._handle_decode_error,
        }
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.add_middleware(AccessMiddleware, access=self.access, token_checker=self._token_checker)
        return app

    def _page_routes(self, page: PageRoute) -> list[Route]:
        def endpoint(request: Request) -> Response:
            page_request = _parse_request(request, page.params, request.query_params.multi_items())
            return self._render(request, page.show(self.context, page_request), page_request)

        forms = [f"{page.data_path}.json", *([f"{page.data_path}.csv"] if page.has_table else [])]
        return [Route(path, endpoint, methods=METHODS) for path in (*forms, page.path)]

    def _render(self, request: Request, view: PageView, page_request: PageRequest) -> Response:
        form = response_format(request)
        headers = {"Vary": "Accept", **view.headers}
        # Programs get the error, not the form.
        if form != "html" and view.status >= 400:
            return self._error_response(request, view.status, view.data["error"], headers)
        if form == "json":
            return json_response(view.data, view.status, headers)
        if form == "csv" and view.table_key:
            return csv_response(view.data[view.table_key], headers)
        return self.templates.response(view, page_request, headers)

    def _action_endpoint(self, action: ActionRoute) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            values = await self._read_values(request)
            page_request = _parse_request(request, action.params, values)
            self.context.require_writable()
            done = await run_in_threadpool(action.run, self.context, page_request)
            if isinstance(done, PageView):
                return self._render(request, done, page_request)
            if response_format(request) == "json":
                return json_response({"message": done.message, **done.data})
            note = urlencode({"note": self.context.flash.add(done.message)})
            return RedirectResponse(f"{done.redirect_to}{'&' if '?' in done.redirect_to else '?'}{note}", 303)

        return endpoint

    async def _read_values(self, request: Request) -> list[tuple[str, str]]:
        """Values of a form that carries the secret, or of a JSON object, which a form of another site cannot send."""
        kind = media_type(request.headers.get("content-type", ""))
        raw = await _raw_body(request)
        if kind == JSON:
            return _json_values(raw)
        if kind != FORM:
            raise HTTPException(415, f"send {FORM} or {JSON}")
        values = parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=2_000)
        if not secrets.compare_digest(dict(values).get("secret", "").encode(), self.access.form_secret.encode()):
            raise HTTPException(403, "the form belongs to an earlier run of the server; reload the page")
        return values

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            return self.templates.response(
                PageView(template="login.html", data={"wrong": False}), PageRequest(address="/login")
            )
        raw = await _raw_body(request)
        token = dict(parse_qsl(raw.decode("utf-8", "replace"))).get("token", "") if len(raw) < 10_000 else ""
        if not self._token_checker.check(request.client.host if request.client else "", token):
            view = PageView(template="login.html", data={"wrong": True}, status=403)
            return self.templates.response(view, PageRequest(address="/login"))
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, max_age=30 * 86400, httponly=True, samesite="strict")
        return answer

    def _gexf(self, request: Request) -> Response:
        page_request = _parse_request(request, GEXF.params, request.query_params.multi_items())
        return gexf_response(show_graph(self.context, page_request))

    def _openapi(self, _request: Request) -> Response:
        body = msgspec.json.encode(build_openapi(self.context.collections.names))
        return Response(body, media_type="application/json")

    def _handle_error(self, request: Request, error: OpilioError) -> Response:
        headers = error.headers if isinstance(error, TooManyRequestsError) else {}
        return self._error_response(request, _status(error), str(error), headers)

    def _handle_http_error(self, request: Request, error: HTTPException) -> Response:
        message = "no page has this URL" if error.detail == "Not Found" else error.detail
        return self._error_response(request, error.status_code, message, dict(error.headers or {}))

    def _handle_decode_error(self, request: Request, _error: msgspec.DecodeError) -> Response:
        message = "the stored model was written by another version of Opilio and cannot be read by this one"
        return self._error_response(request, 503, message, {})

    def _handle_damage(self, request: Request, error: Exception) -> Response:
        """An error that a damaged collection can cause. If none is damaged, it is a bug: the log shows it."""
        folders = self.context.collections.folders
        for folder in [folders[name] for name in folders if request.path_params.get("name", name) == name]:
            if problem := next((problem for problem in seal_problems(folder) if not problem.harmless), None):
                advice = f"'opilio maintain verify {folder}' lists all damage"
                return self._error_response(request, 503, f"{folder}: is damaged: {problem.message}; {advice}", {})
        raise error

    def _error_response(self, request: Request, status: int, message: str, headers: dict[str, str]) -> Response:
        if response_format(request) != "html":
            return json_response({"error": message}, status, headers)
        view = PageView(template="problem.html", data={"status": status, "message": message}, status=status)
        return self.templates.response(view, PageRequest(address=request.url.path), headers)


def _redirect_to_command(request: Request) -> Response:
    """The earlier URL of the commands."""
    return RedirectResponse(f"/c/{quote(request.path_params['name'])}/command", 308)


def _status(error: OpilioError) -> int:
    if isinstance(error, TooManyRequestsError):
        return 429
    if isinstance(error, MissingExtraError):
        return 501
    if isinstance(error, ReadOnlyError):
        return 403
    if isinstance(error, UnknownCollectionError):
        return 404
    return 400 if isinstance(error, UsageError) else 503 if isinstance(error, CollectionError) else 500


def _parse_request(request: Request, params: Sequence[Any], values: Sequence[tuple[str, str]]) -> PageRequest:
    query = f"?{request.url.query}" if request.url.query else ""
    return PageRequest(
        name=request.path_params.get("name", ""),
        values=parse_params(params, values),
        address=f"{request.url.path}{query}",
        client=request.client.host if request.client else "",
    )


async def _raw_body(request: Request) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MAX_BODY_BYTES:
            raise HTTPException(413, f"the request body is larger than {MAX_BODY_BYTES} bytes")
    return bytes(raw)


def _json_values(raw: bytes) -> list[tuple[str, str]]:
    try:
        tree = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the request body is not valid JSON: {error}") from error
    if not isinstance(tree, dict):
        raise UsageError("the request body must be a JSON object")
    return [
        (name, _as_text(one)) for name, value in tree.items() for one in (value if isinstance(value, list) else [value])
    ]


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return "" if value is None else str(value)


def _static() -> StaticFiles:
    with as_file(files("opilio.web") / "static") as folder:
        return StaticFiles(directory=folder)


PORT = 8750
# The right token is never refused, so only its length protects against guesses.
MIN_TOKEN_CHARS = 16


class UiServerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """How collections are served."""

    host: str = "127.0.0.1"
    port: int = PORT  # 0: any free one
    token: str = ""
    host_names: tuple[str, ...] = ()
    home: Path = Path()
    read_only: bool = False
    allow_local: bool = False  # see web.auth


def serve(folders: Sequence[Path], serving: UiServerConfig, announce: Callable[[str, str], None]) -> None:
    """Serve collections until SIGINT or SIGTERM; `announce` gets the URL and the token (empty: none needed)."""
    if not (serving.token.isascii() and serving.token.isprintable()) or serving.token != serving.token.strip():
        raise UsageError("--token: use printable ASCII characters without spaces at either end")
    if serving.token and len(serving.token) < MIN_TOKEN_CHARS:
        raise UsageError(f"--token: too short; use at least {MIN_TOKEN_CHARS} characters, or omit it to generate one")
    collections = ServedCollections(folders, serving.home)
    token = serving.token if is_loopback(serving.host) else serving.token or secrets.token_urlsafe(18)
    context = AppContext(collections, SystemClock(), read_only=serving.read_only, allow_local=serving.allow_local)
    app = Application(context, AccessPolicy(host_names=serving.host_names, token=token)).asgi()
    listener = open_listener(serving)
    threading.Thread(target=_refresh_indexes, args=(context,), daemon=True).start()
    shown = f"[{serving.host}]" if ":" in serving.host else serving.host
    announce(f"http://{shown}:{listener.getsockname()[1]}/", token)
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=1, lifespan="off"
    )
    with listener:
        uvicorn.Server(config).run(sockets=[listener])


def _refresh_indexes(context: AppContext) -> None:
    """Update the indexes, and read what the first question of a user needs: indexes, and vectors of words and pages.

    The page of an unreadable collection shows the error.
    """
    fresh = context.searchers.refresh(context.collections.folders)
    if fresh.collections:
        with suppress(OpilioError):
            context.searchers.searcher_for(fresh.collections).search(FIRST_QUESTION)


def is_loopback(host: str) -> bool:
    """
    >>> [is_loopback(h) for h in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "box.example")]
    [True, True, True, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_listener(serving: UiServerConfig) -> socket.socket:
    """A socket that listens where it is wanted; UsageError where that can't be."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            serving.host, serving.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise UsageError(f"--host {serving.host}: not an address of this machine: {error.strerror or error}") from error
    listener = socket.socket(family, kind)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"--host {serving.host} --port {serving.port}: can't listen there: {error.strerror or error};"
            " choose another, or --port 0 for any free one"
        ) from error
    return listener
