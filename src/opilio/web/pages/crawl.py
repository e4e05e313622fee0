"""The live page of a crawl with its controls, its event log, and `/c/{name}/live`: the same as server-sent events.

- `status`: the run header, when it changes, at most once a second.
- `event`: one line of the event log; its `id` is the number of the event, so that a client resumes after
  `Last-Event-ID`.
- `parts` (with `?parts=1`): HTML fragments of the crawl page.

There is one stream per page. Every refresh reads the store, never the crawler; all streams of a collection share one
refresh.
"""

import asyncio
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from opilio.core import events as known
from opilio.core.errors import OpilioError, UsageError
from opilio.engine.commands import send_command
from opilio.manage.status import agent_cards
from opilio.store.collection import Collection
from opilio.store.pages import JudgedPage, newest_pages
from opilio.store.run_tables import EventFilter, EventRow, events_after, newest_events
from opilio.web.charts import harvest_curve
from opilio.web.context import (
    ActionResult,
    ActionRoute,
    AppContext,
    PageRequest,
    PageRoute,
    PageView,
    Param,
    RawRoute,
    json_response,
    parse_params,
)
from opilio.web.pages.queue import blocked_hosts, error_groups, top_queue_rows
from opilio.web.processes import launch_crawl, read_log_tail
from opilio.web.sentences import event_sentence, verdict_sentence
from opilio.web.stats import ACTIVE_STATES, CollectionStats
from opilio.web.templating import TemplateRenderer, format_time

KINDS = tuple(
    name
    for name, thing in vars(known).items()
    if isinstance(thing, type) and issubclass(thing, known.Event) and name not in ("Event", "BatchCommitted")
)
LEVELS = {"VisitFailed": "error", "HostBackedOff": "warning", "TrapFound": "warning"}
EVENTS_PER_PAGE = 100


def show_events(context: AppContext, request: PageRequest) -> PageView:
    """Events, newest first."""
    wanted = request.values
    kinds = [kind for kind in KINDS if not wanted["level"] or LEVELS.get(kind, "info") == wanted["level"]]
    if wanted["kind"]:
        kinds = [wanted["kind"]] if not wanted["level"] or wanted["kind"] in kinds else []
    shown = EventFilter(kinds if wanted["kind"] or wanted["level"] else None, wanted["text"], wanted["before"])
    with context.open(request.name) as collection:
        rows = [event_row(event) for event in newest_events(collection.connection, shown, EVENTS_PER_PAGE)]
    data = {
        "events": rows,
        "kinds": KINDS,
        "values": wanted,
        "older": rows[-1]["id"] if len(rows) == EVENTS_PER_PAGE else 0,
    }
    return PageView(template="events.html", data=data, title="Events", table_key="events")


def read_events_after(context: AppContext, name: str, after: int, limit: int) -> list[dict[str, Any]]:
    """Events after number `after`, oldest first; negative: only the last ten."""
    with context.open(name) as collection:
        db = collection.connection
        found = newest_events(db, EventFilter(), 10)[::-1] if after < 0 else events_after(db, after, limit)
    return [event_row(event) for event in found]


def event_row(event: EventRow) -> dict[str, Any]:
    """One event for pages and JSON."""
    fields = msgspec.json.decode(event.data)
    fields.pop("type", None)
    fields.pop("at", None)
    level = LEVELS.get(event.kind, "info")
    return {
        "id": event.id,
        "at": event.at,
        "kind": event.kind,
        "level": level,
        "text": event_sentence(event.kind, fields) or _text(fields),
        "data": fields,
    }


def _text(fields: dict[str, Any]) -> str:
    shown = {name: format_time(value) if name == "until" else _format_value(value) for name, value in fields.items()}
    return "; ".join(f"{name} {shown[name]}" for name, value in fields.items() if value not in ("", None, []))


def _format_value(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:12])) + (" …" if len(value) > 12 else "")
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:300]


MAX_TABLE_ROWS = 8
MAX_BLOCKED_HOSTS = 100
RECENT_PAGES = 12
CONTROL_COMMANDS = ("pause", "resume", "stop")
KEEP_LIMIT = -1  # the stored limit stays
LIMITS = ("pages", "fetches", "relevant", "minutes")
CONTROL_MESSAGES = {
    "pause": "Pausing after the current requests.",
    "resume": "Crawl resumed.",
    "stop": "Stopping after the current requests.",
}


def show_crawl(context: AppContext, request: PageRequest) -> PageView:
    data = live_data(context, request.name, everything=True)
    data["events"] = read_events_after(context, request.name, -1, 10)[::-1]
    with context.open(request.name) as collection:
        data["several"] = bool(agent_cards(collection))
    # Of the extra `lab`.
    data["png"] = find_spec("matplotlib") is not None
    status = data["status"]
    with_log = status["state"] in ("crashed", "new") or status.get("launch_failed")
    data["log"] = read_log_tail(context.collections.folder(request.name)) if with_log else ""
    return PageView(template="crawl.html", data=data, title=data["status"]["topic"] or request.name, table_key="curve")


def live_data(context: AppContext, name: str, *, everything: bool) -> dict[str, Any]:
    """Data of the live page. `everything`: include the queue and the curve, which cost more than the rest."""
    now = context.clock.now()
    with context.open(name) as collection:
        stats = context.stats(collection)
        status = context.crawl_status(collection, stats)
        data: dict[str, Any] = {"name": name, "status": status, "recent": recent_pages(collection)}
        data |= _tables(collection, stats)
        if everything:
            with stats.lock:
                data["curve"] = harvest_curve(stats.relevant, stats.times)
                data["marks"] = [{"at": at, "kind": kind, "words": words} for at, kind, words in stats.marks]
            data["queue"] = top_queue_rows(collection, 0, MAX_TABLE_ROWS, now)
    return data


def recent_pages(collection: Collection) -> list[dict[str, Any]]:
    """The pages stored last."""
    found = newest_pages(collection.connection, RECENT_PAGES)
    return [judged_row(page) | {"at": page.fetched_at} for page in found]


def judged_row(page: JudgedPage) -> dict[str, Any]:
    """A page with the reason for its verdict in one sentence."""
    return {
        "url": page.url,
        "host": page.host,
        "title": page.title,
        "relevant": page.relevant,
        "score": round(page.score, 4),
        "reason": verdict_sentence(page.relevant, page.decoded_reasons, bool(page.duplicate_of)),
    }


def _tables(collection: Collection, stats: CollectionStats) -> dict[str, Any]:
    """Totals that agree with the status: what the tables do not list is one more row."""
    with stats.lock:
        best = sorted(stats.hosts.items(), key=lambda pair: (-pair[1].relevant, -pair[1].pages, pair[0]))[
            :MAX_TABLE_ROWS
        ]
        hosts = [
            {"host": host, "pages": one.pages, "relevant": one.relevant, "harvest": round(one.harvest, 4)}
            for host, one in best
        ]
        rest = {
            "hosts": len(stats.hosts) - len(best),
            "pages": len(stats.relevant) - sum(one.pages for _, one in best),
            "relevant": stats.relevant.count(1) - sum(one.relevant for _, one in best),
        }
        errors = error_groups(stats.failures, MAX_TABLE_ROWS)
    blocked = blocked_hosts(collection, stats, MAX_BLOCKED_HOSTS)
    return {"hosts": hosts, "other_hosts": rest, "errors": errors, "blocked": blocked}


def control_crawl(context: AppContext, request: PageRequest) -> ActionResult:
    """Pause, resume or stop a running crawl; restart one that has ended."""
    folder, word = context.collections.folder(request.name), request.values["do"]
    back = f"/c/{request.name}"
    with context.open(request.name) as collection:
        status = context.crawl_status(collection)
    state = status["state"]
    if state == "starting":
        raise UsageError("the crawl is starting; wait until it runs")
    if word == "resume" and state not in ACTIVE_STATES:
        launch_crawl(folder, _new_limits(request.values, status))
    else:
        send_command(folder, word, context.clock.now(), "stopped from the browser" if word == "stop" else "")
    return ActionResult(message=CONTROL_MESSAGES[word], redirect_to=back, data={"state_before": state})


def _new_limits(values: dict[str, Any], status: dict[str, Any]) -> dict[str, float]:
    """The limits of the resumed crawl; UsageError if one of them is reached already, so that it would stop at once."""
    given: dict[str, float] = {name: values[name] for name in LIMITS if values[name] != KEEP_LIMIT}
    limits = status["limits"] | given
    for name in ("pages", "fetches", "relevant"):
        reached = status["fetched" if name == "fetches" else name]
        if limits[name] and reached >= limits[name]:
            raise UsageError(
                f"{name} = {limits[name]}: this limit is already reached ({reached}); raise it, or use 0 for no limit"
            )
    if values["harvest_below"] != KEEP_LIMIT:
        given["harvest_below"] = values["harvest_below"] / 100
    return given


ACTIONS = (
    ActionRoute(
        path="/c/{name}/control",
        run=control_crawl,
        about="Pause, resume or stop a crawl; resume also restarts one that has ended.",
        params=(
            Param(name="do", about="What to do.", kind="choice", choices=CONTROL_COMMANDS, required=True),
            *(
                Param(name=name, about=about, kind="integer", default=KEEP_LIMIT, minimum=0, maximum=10**9)
                for name, about in (
                    ("pages", "With resume: stop at this many pages in total (0: no limit)."),
                    ("fetches", "With resume: stop at this many requests in total (0: no limit)."),
                    ("relevant", "With resume: stop at this many relevant pages in total (0: no limit)."),
                    ("minutes", "With resume: stop after this many minutes (0: no limit)."),
                )
            ),
            Param(
                name="harvest_below",
                about="With resume: stop if fewer percent of the last 500 pages are relevant (0: never).",
                kind="number",
                default=KEEP_LIMIT,
                minimum=0,
                maximum=100,
            ),
        ),
    ),
)


PAGES = (
    PageRoute(
        path="/c/{name}",
        show=show_crawl,
        about="One crawl: state, harvest curve, next URLs, hosts, errors, events.",
    ),
    PageRoute(
        path="/c/{name}/events",
        show=show_events,
        about="The event log, newest first.",
        params=(
            Param(name="kind", about="Only events of this kind.", kind="choice", choices=KINDS),
            Param(name="level", about="Only this level.", kind="choice", choices=("info", "warning", "error")),
            Param(name="text", about="Only events that contain this text."),
            Param(name="before", about="Only events before this number.", kind="integer", default=0, maximum=2**60),
        ),
    ),
)


REFRESH_INTERVAL_S = 1.0
# The queue and the curve cost more than the rest.
SLOW_REFRESH_INTERVAL_S = 3.0
# A comment keeps proxies from closing an idle stream.
KEEPALIVE_INTERVAL_S = 15.0
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
        self._refreshed_at = 0.0
        # With the queue and the curve.
        self._all_refreshed_at = 0.0

    async def snapshot(self, since: float) -> dict[str, Any]:
        """The newest status and parts, not older than `since`."""
        async with self._lock:
            now = self._context.clock.now()
            if not self._snapshot or self._refreshed_at < max(since, now - REFRESH_INTERVAL_S * 0.9):
                # Without streams, the last curve may be hours old: it must not replace that of a page just opened.
                everything = self._all_refreshed_at < max(since, now - SLOW_REFRESH_INTERVAL_S * 0.9)
                self._snapshot = await run_in_threadpool(self._read, everything)
                self._refreshed_at = now
                self._all_refreshed_at = now if everything else self._all_refreshed_at
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
        # The page may follow an action that the last snapshot does not show.
        self._opened_at = self._quiet_since = context.clock.now()

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
        seen = await self._feed.snapshot(self._opened_at)
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
