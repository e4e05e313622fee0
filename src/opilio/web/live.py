"""`/c/{name}/live`: a crawl as it happens, as server-sent events. One stream serves a whole page.

- `status`: the facts of the run header, whenever they change, at most once a second.
- `event`: one line of the event log; its `id` is the number of the event, so a client that lost the stream goes on
  where it was (`Last-Event-ID`).
- `parts` (with `?parts=1`): pieces of our own page, ready to be put in place.

Every look reads the store, never the crawler; what several streams want of one collection is read once.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opilio.model.errors import OpilioError
from opilio.web.crawlpage import live_data
from opilio.web.desk import Desk, Raw
from opilio.web.eventpage import events_after
from opilio.web.params import Param, read
from opilio.web.rendering import Templates
from opilio.web.view import json_response

EVERY_S = 1.0
PARTS_EVERY = 3  # looks between two sets of tables: they cost more than tiles and curve
QUIET_S = 15.0  # a comment keeps proxies from closing a stream in which nothing happens
MOST_STREAMS = 40
MOST_EVENTS = 100
LIVE = Raw(
    path="/c/{name}/live",
    about="A crawl as it happens: server-sent events status, event and, where asked for, parts. It has no end.",
    kind="text/event-stream",
    params=(
        Param(name="parts", about="1: send pieces of our own page too.", kind="flag", default=False),
        Param(name="after", about="Number of the last event that is known; Last-Event-ID goes before it."),
    ),
)
_encode = msgspec.json.Encoder(enc_hook=str).encode


class Watch:
    """What the streams of one collection share: one look a second, however many look."""

    def __init__(self, desk: Desk, templates: Templates, name: str) -> None:
        self._desk = desk
        self._templates = templates
        self._name = name
        self._lock = asyncio.Lock()
        self._seen: dict[str, Any] = {}
        self._looks = 0
        self._at = 0.0

    async def look(self) -> dict[str, Any]:
        """The newest facts and parts."""
        async with self._lock:
            now = self._desk.clock.now()
            if not self._seen or now - self._at >= EVERY_S * 0.9:
                self._seen = await run_in_threadpool(self._read, self._looks % PARTS_EVERY == 0)
                self._looks, self._at = self._looks + 1, now
            return self._seen

    def _read(self, everything: bool) -> dict[str, Any]:
        data = live_data(self._desk, self._name, everything=everything)
        names = ("tiles", "controls", "curve") + (("queue", "hosts", "errors") if everything else ())
        parts = {part: self._templates.text(f"parts/{part}.html", here=self._name, **data) for part in names}
        return {"status": data["status"], "parts": {**self._seen.get("parts", {}), **parts}}


def live_route(desk: Desk, templates: Templates) -> Route:
    watches: dict[str, Watch] = {}
    streams: set[object] = set()

    async def endpoint(request: Request) -> Response:
        name = request.path_params["name"]
        desk.shelf.folder(name)
        values = read(LIVE.params, request.query_params.multi_items())
        if len(streams) >= MOST_STREAMS:
            return json_response({"error": "too many live streams are open; close some pages"}, 503)
        watch = watches.setdefault(name, Watch(desk, templates, name))
        last = request.headers.get("last-event-id", values["after"])
        stream = _Stream(desk, watch, name, last)
        body = stream.run(streams, parts=values["parts"])
        return StreamingResponse(body, media_type=LIVE.kind, headers={"X-Accel-Buffering": "no"})

    return Route(LIVE.path, endpoint, methods=["GET"])


class _Stream:
    """One client that looks on."""

    def __init__(self, desk: Desk, watch: Watch, name: str, last: str) -> None:
        self._desk = desk
        self._watch = watch
        self._name = name
        self._after = int(last) if last.isascii() and last.isdecimal() and len(last) < 18 else -1
        self._told: dict[str, Any] = {}
        self._quiet_since = desk.clock.now()

    async def run(self, streams: set[object], *, parts: bool) -> AsyncIterator[bytes]:
        streams.add(self)
        try:
            yield b"retry: 2000\n\n"
            while True:
                for message in await self._news(parts):
                    yield message
                await asyncio.sleep(EVERY_S)
        except OpilioError as error:
            yield _message("problem", {"error": str(error)})
        finally:
            streams.discard(self)

    async def _news(self, parts: bool) -> list[bytes]:
        seen = await self._watch.look()
        messages = []
        if seen["status"] != self._told.get("status"):
            self._told["status"] = seen["status"]
            messages.append(_message("status", seen["status"]))
        if parts:
            fresh = {part: text for part, text in seen["parts"].items() if text != self._told.get(part)}
            self._told |= fresh
            if fresh:
                messages.append(_message("parts", fresh))
        messages += await self._events()
        if not messages and self._desk.clock.now() - self._quiet_since >= QUIET_S:
            messages.append(b": still here\n\n")
        if messages:
            self._quiet_since = self._desk.clock.now()
        return messages

    async def _events(self) -> list[bytes]:
        rows = await run_in_threadpool(events_after, self._desk, self._name, self._after, MOST_EVENTS)
        if self._after < 0 and not rows:
            self._after = 0
        if rows:
            self._after = rows[-1]["id"]
        return [_message("event", row, row["id"]) for row in rows]


def _message(kind: str, data: object, number: int | None = None) -> bytes:
    """JSON has no raw line breaks, so one `data` line is enough."""
    id_ = f"id: {number}\n" if number is not None else ""
    return f"{id_}event: {kind}\n".encode() + b"data: " + _encode(data) + b"\n\n"
