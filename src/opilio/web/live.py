"""`/c/{name}/live`: a running crawl as server-sent events, one stream per page.

- `status`: the run header, when it changes, at most once a second.
- `event`: one line of the event log; its `id` is the number of the event, so that a client resumes after
  `Last-Event-ID`.
- `parts` (with `?parts=1`): HTML fragments of the crawl page.

Every refresh reads the store, never the crawler; all streams of a collection share one refresh.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opilio.core.errors import OpilioError
from opilio.web.context import AppContext, Param, RawRoute, parse_params
from opilio.web.pages.crawl import live_data, read_events_after
from opilio.web.templating import TemplateRenderer
from opilio.web.views import json_response

REFRESH_INTERVAL_S = 1.0
SLOW_EVERY_N_REFRESHES = 3  # the queue and the curve cost more than the rest
KEEPALIVE_INTERVAL_S = 15.0  # a comment keeps proxies from closing an idle stream
MAX_STREAMS = 40
MAX_EVENTS_PER_REFRESH = 100
LIVE = RawRoute(
    path="/c/{name}/live",
    about="A running crawl as server-sent events: status, event and, if requested, parts. The stream does not end.",
    media_type="text/event-stream",
    params=(
        Param(name="parts", about="1: also send HTML fragments of the crawl page.", kind="flag", default=False),
        Param(name="after", about="Number of the last known event; Last-Event-ID takes precedence."),
    ),
)
_encode = msgspec.json.Encoder(enc_hook=str).encode


class LiveFeed:
    """Shared by all streams of a collection: one refresh per second."""

    def __init__(self, context: AppContext, templates: TemplateRenderer, name: str) -> None:
        self._context = context
        self._templates = templates
        self._name = name
        self._lock = asyncio.Lock()
        self._snapshot: dict[str, Any] = {}
        self._refreshes = 0
        self._refreshed_at = 0.0

    async def snapshot(self) -> dict[str, Any]:
        """The newest status and parts."""
        async with self._lock:
            now = self._context.clock.now()
            if not self._snapshot or now - self._refreshed_at >= REFRESH_INTERVAL_S * 0.9:
                self._snapshot = await run_in_threadpool(self._read, self._refreshes % SLOW_EVERY_N_REFRESHES == 0)
                self._refreshes, self._refreshed_at = self._refreshes + 1, now
            return self._snapshot

    def _read(self, everything: bool) -> dict[str, Any]:
        data = live_data(self._context, self._name, everything=everything)
        names = ("tiles", "controls", "recent", "hosts", "errors") + (("curve", "queue") if everything else ())
        parts = {part: self._templates.render_part(f"parts/{part}.html", here=self._name, **data) for part in names}
        return {"status": data["status"], "parts": {**self._snapshot.get("parts", {}), **parts}}


def live_route(context: AppContext, templates: TemplateRenderer) -> Route:
    feeds: dict[str, LiveFeed] = {}
    streams: set[object] = set()

    async def endpoint(request: Request) -> Response:
        name = request.path_params["name"]
        context.collections.folder(name)
        values = parse_params(LIVE.params, request.query_params.multi_items())
        if len(streams) >= MAX_STREAMS:
            return json_response({"error": "too many live streams are open; close some pages"}, 503)
        feed = feeds.setdefault(name, LiveFeed(context, templates, name))
        last = request.headers.get("last-event-id", values["after"])
        stream = _Stream(context, feed, name, last)
        body = stream.run(streams, parts=values["parts"])
        return StreamingResponse(body, media_type=LIVE.media_type, headers={"X-Accel-Buffering": "no"})

    return Route(LIVE.path, endpoint, methods=["GET"])


class _Stream:
    """One connected client."""

    def __init__(self, context: AppContext, feed: LiveFeed, name: str, last: str) -> None:
        self._context = context
        self._feed = feed
        self._name = name
        self._last_event_id = int(last) if last.isascii() and last.isdecimal() and len(last) < 18 else -1
        self._sent: dict[str, Any] = {}
        self._quiet_since = context.clock.now()

    async def run(self, streams: set[object], *, parts: bool) -> AsyncIterator[bytes]:
        streams.add(self)
        try:
            yield b"retry: 2000\n\n"
            while True:
                for message in await self._pending_messages(parts):
                    yield message
                await asyncio.sleep(REFRESH_INTERVAL_S)
        except OpilioError as error:
            yield _message("problem", {"error": str(error)})
        finally:
            streams.discard(self)

    async def _pending_messages(self, parts: bool) -> list[bytes]:
        seen = await self._feed.snapshot()
        messages = []
        if seen["status"] != self._sent.get("status"):
            self._sent["status"] = seen["status"]
            messages.append(_message("status", seen["status"]))
        if parts:
            fresh = {part: text for part, text in seen["parts"].items() if text != self._sent.get(part)}
            self._sent |= fresh
            if fresh:
                messages.append(_message("parts", fresh))
        messages += await self._event_messages()
        if not messages and self._context.clock.now() - self._quiet_since >= KEEPALIVE_INTERVAL_S:
            messages.append(b": keep-alive\n\n")
        if messages:
            self._quiet_since = self._context.clock.now()
        return messages

    async def _event_messages(self) -> list[bytes]:
        rows = await run_in_threadpool(
            read_events_after, self._context, self._name, self._last_event_id, MAX_EVENTS_PER_REFRESH
        )
        if self._last_event_id < 0 and not rows:
            self._last_event_id = 0
        if rows:
            self._last_event_id = rows[-1]["id"]
        return [_message("event", row, row["id"]) for row in rows]


def _message(kind: str, data: object, number: int | None = None) -> bytes:
    """JSON has no raw line breaks, so one `data` line suffices."""
    id_ = f"id: {number}\n" if number is not None else ""
    return f"{id_}event: {kind}\n".encode() + b"data: " + _encode(data) + b"\n\n"
