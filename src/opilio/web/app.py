"""Puts the pages together into one ASGI application: routes, forms of answers, errors as pages."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import as_file, files
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from opilio.model.errors import CollectionError, OpilioError, UsageError
from opilio.web.buckets import TooManyError
from opilio.web.desk import Action, Asked, Desk, Page, ReadOnlyError
from opilio.web.exporting import export_route
from opilio.web.graphpage import GEXF, gexf, graph
from opilio.web.guard import COOKIE, Access, Guard, Guesses
from opilio.web.live import live_route
from opilio.web.metrics import metrics_route
from opilio.web.openapi import description
from opilio.web.pages import ACTIONS, PAGES
from opilio.web.params import read
from opilio.web.picture import MissingExtraError, curve_routes
from opilio.web.rendering import Templates
from opilio.web.shelf import UnknownCollectionError
from opilio.web.view import View, csv_response, form_of, json_response

MOST_BODY = 1_000_000
FORM = "application/x-www-form-urlencoded"
JSON = "application/json"
METHODS = ["GET", "HEAD"]


class Application:
    """Serves pages and actions over a desk."""

    def __init__(self, desk: Desk, access: Access) -> None:
        self.desk = desk
        self.access = msgspec.structs.replace(access, form_secret=access.form_secret or secrets.token_urlsafe(24))
        self.templates = Templates(desk, self.access)
        self._guesses = Guesses(self.access, desk.clock)

    def asgi(self) -> Starlette:
        """The application, guarded."""
        routes: list[Route | Mount] = [r for page in PAGES for r in self._page_routes(page)]
        routes += [Route(a.path, self._action(a), methods=["POST"], name=a.path) for a in ACTIONS]
        routes += [
            live_route(self.desk, self.templates),
            metrics_route(self.desk),
            export_route(self.desk),
            *curve_routes(self.desk),
            Route(GEXF.path, self._gexf, methods=METHODS),
            Route("/openapi.json", self._openapi, methods=METHODS),
            Route("/login", self._login, methods=["GET", "POST"]),
            Route("/favicon.ico", lambda _: RedirectResponse("/static/favicon.svg", 301), methods=METHODS),
            Mount("/static", _static()),
        ]
        handlers: dict[Any, Any] = {
            OpilioError: self._failed,
            HTTPException: self._no_page,
            msgspec.DecodeError: self._other_version,
        }
        app = Starlette(routes=routes, exception_handlers=handlers)
        app.add_middleware(Guard, access=self.access, guesses=self._guesses)
        return app

    def _page_routes(self, page: Page) -> list[Route]:
        def endpoint(request: Request) -> Response:
            asked = _asked(request, page.params, request.query_params.multi_items())
            self._count(page, asked)
            return self._told(request, page.show(self.desk, asked), asked)

        base = page.path if page.path != "/" else "/index"
        forms = [f"{base}.json", *([f"{base}.csv"] if page.table else [])]
        return [Route(path, endpoint, methods=METHODS) for path in (*forms, page.path)]

    def _count(self, page: Page, asked: Asked) -> None:
        if page.path == "/search":
            self.desk.searches.take(asked.client, self.desk.clock.now())

    def _told(self, request: Request, view: View, asked: Asked) -> Response:
        form = form_of(request)
        headers = {"Vary": "Accept", **view.headers}
        if form != "html" and view.status >= 400:  # a page that shows a form again tells machines what was wrong
            return self._problem(request, view.status, view.data["error"], headers)
        if form == "json":
            return json_response(view.data, view.status, headers)
        if form == "csv" and view.rows:
            return csv_response(view.data[view.rows], headers)
        return self.templates.response(view, asked, headers)

    def _action(self, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            values = await self._body(request)
            asked = _asked(request, action.params, values)
            self.desk.writable()
            done = await run_in_threadpool(action.act, self.desk, asked)
            if isinstance(done, View):
                return self._told(request, done, asked)
            if form_of(request) == "json":
                return json_response({"said": done.said, **done.data})
            note = urlencode({"note": self.desk.notes.keep(done.said)})
            return RedirectResponse(f"{done.back}{'&' if '?' in done.back else '?'}{note}", 303)

        return endpoint

    async def _body(self, request: Request) -> list[tuple[str, str]]:
        """The values of a form with our secret in it, or of a JSON object, which no other site's form can send."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        raw = await _raw_body(request)
        if kind == JSON:
            return _json_values(raw)
        if kind != FORM:
            raise HTTPException(415, f"send {FORM} or {JSON}")
        values = parse_qsl(raw.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=2_000)
        if not secrets.compare_digest(dict(values).get("secret", "").encode(), self.access.form_secret.encode()):
            raise HTTPException(403, "this form is not of this run of the server: load its page again")
        return values

    async def _login(self, request: Request) -> Response:
        if request.method == "GET":
            return self.templates.response(View(template="login.html", data={"wrong": False}), Asked(address="/login"))
        raw = await _raw_body(request)
        token = dict(parse_qsl(raw.decode("utf-8", "replace"))).get("token", "") if len(raw) < 10_000 else ""
        if not self._guesses.fits(token, request.client.host if request.client else ""):
            view = View(template="login.html", data={"wrong": True}, status=403)
            return self.templates.response(view, Asked(address="/login"))
        answer = RedirectResponse("/", 303)
        answer.set_cookie(COOKIE, token, max_age=30 * 86400, httponly=True, samesite="strict")
        return answer

    def _gexf(self, request: Request) -> Response:
        asked = _asked(request, GEXF.params, request.query_params.multi_items())
        return gexf(graph(self.desk, asked))

    def _openapi(self, _request: Request) -> Response:
        body = msgspec.json.encode(description(self.desk.shelf.names))
        return Response(body, media_type="application/json")

    def _failed(self, request: Request, error: OpilioError) -> Response:
        headers = error.headers if isinstance(error, TooManyError) else {}
        return self._problem(request, _status(error), str(error), headers)

    def _no_page(self, request: Request, error: HTTPException) -> Response:
        message = (
            "no page has this address" if error.detail == "Not Found" else error.detail
        )  # the framework's own words
        return self._problem(request, error.status_code, message, dict(error.headers or {}))

    def _other_version(self, request: Request, _error: msgspec.DecodeError) -> Response:
        message = "what this collection has learnt was written by another version of Opilio; this one can't read it"
        return self._problem(request, 503, message, {})

    def _problem(self, request: Request, status: int, message: str, headers: dict[str, str]) -> Response:
        if form_of(request) != "html":
            return json_response({"error": message}, status, headers)
        view = View(template="problem.html", data={"status": status, "message": message}, status=status)
        return self.templates.response(view, Asked(address=request.url.path), headers)


def _status(error: OpilioError) -> int:
    if isinstance(error, TooManyError):
        return 429
    if isinstance(error, MissingExtraError):
        return 501
    if isinstance(error, ReadOnlyError):
        return 403
    if isinstance(error, UnknownCollectionError):
        return 404
    return 400 if isinstance(error, UsageError) else 503 if isinstance(error, CollectionError) else 500


def _asked(request: Request, params: Sequence[Any], values: Sequence[tuple[str, str]]) -> Asked:
    query = f"?{request.url.query}" if request.url.query else ""
    return Asked(
        name=request.path_params.get("name", ""),
        values=read(params, values),
        address=f"{request.url.path}{query}",
        client=request.client.host if request.client else "",
    )


async def _raw_body(request: Request) -> bytes:
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > MOST_BODY:
            raise HTTPException(413, f"more than {MOST_BODY} bytes")
    return bytes(raw)


def _json_values(raw: bytes) -> list[tuple[str, str]]:
    try:
        tree = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"the body is no JSON: {error}") from error
    if not isinstance(tree, dict):
        raise UsageError("the body must be a JSON object")
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
