"""`/metrics`: the state of every served collection in the text format of Prometheus."""

import re
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from opilio.model.errors import CollectionError
from opilio.web.desk import Desk, Raw
from opilio.web.standing import standing

KIND = "text/plain; version=0.0.4; charset=utf-8"
PROMETHEUS = Raw(path="/metrics", about="Every collection's state for Prometheus.", kind="text/plain")
METRICS = (
    ("opilio_pages", "pages", "Pages stored."),
    ("opilio_relevant_pages", "relevant", "Pages judged relevant."),
    ("opilio_fetches", "fetched", "Fetch attempts that ended."),
    ("opilio_failures", "failed", "Fetch attempts that failed."),
    ("opilio_duplicates", "duplicates", "Pages with a text seen before."),
    ("opilio_body_bytes", "size_bytes", "Bytes of the pages stored."),
    ("opilio_queued_urls", "queued", "URLs that wait."),
    ("opilio_under_way_urls", "under_way", "URLs that are being fetched."),
    ("opilio_hosts", "hosts", "Hosts known."),
    ("opilio_harvest_ratio", "harvest", "Relevant pages per page."),
    ("opilio_harvest_recent_ratio", "harvest_now", "The same over the last hundred pages."),
    ("opilio_pages_per_second", "pages_per_s", "Pages a second over the last seconds."),
)


def metrics_route(desk: Desk) -> Route:
    def endpoint(_request: Request) -> Response:
        return PlainTextResponse("\n".join(_lines(desk)) + "\n", media_type=KIND)

    return Route(PROMETHEUS.path, endpoint, methods=["GET", "HEAD"])


def _lines(desk: Desk) -> Iterator[str]:
    stands = {name: _stand(desk, name) for name in desk.shelf.names}
    yield from ("# HELP opilio_up Can the collection be read?", "# TYPE opilio_up gauge")
    for name, stand in stands.items():
        yield f'opilio_up{{collection="{_label(name)}"}} {int(stand is not None)}'
    yield from ("# HELP opilio_running Does a crawl run?", "# TYPE opilio_running gauge")
    for name, stand in stands.items():
        yield f'opilio_running{{collection="{_label(name)}"}} {int(stand is not None and stand["state"] == "running")}'
    for metric, field, about in METRICS:
        yield from (f"# HELP {metric} {about}", f"# TYPE {metric} gauge")
        for name, stand in stands.items():
            if stand is not None:
                yield f'{metric}{{collection="{_label(name)}"}} {stand[field]}'


def _stand(desk: Desk, name: str) -> dict[str, Any] | None:
    try:
        with desk.open(name) as collection:
            return standing(collection, desk.tally(collection), desk.clock.now())
    except CollectionError:
        return None


def _label(text: str) -> str:
    return re.sub(r'(["\\])', r"\\\1", text).replace("\n", " ")
