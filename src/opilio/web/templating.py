"""Templates: all output is escaped, and characters that hide or reverse text are removed."""

import hashlib
import re
from datetime import UTC, datetime
from functools import cache
from importlib.resources import as_file, files
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse

from opilio import __version__
from opilio.core.display import pluralize
from opilio.web import charts
from opilio.web.auth import AccessPolicy
from opilio.web.context import AppContext, PageRequest, PageView
from opilio.web.sentences import failure_words, without_settings

# Control characters, and those that override or embed a writing direction or can't be seen (Unicode TR 36).
INVISIBLE_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)
MAX_TIME = 32_503_680_000.0  # the year 3000
MAX_RENDERED_CHARS = 250_000  # characters of one value


class TemplateRenderer:
    """Renders views."""

    def __init__(self, context: AppContext, access: AccessPolicy) -> None:
        self._context = context
        self._access = access
        with as_file(files("opilio.web") / "templates") as folder:
            self._environment = Environment(
                loader=FileSystemLoader(folder),
                autoescape=True,
                undefined=StrictUndefined,
                finalize=strip_invisible,
                trim_blocks=True,
                lstrip_blocks=True,
            )
        self._environment.filters.update(_FILTERS)
        self._environment.globals.update(_GLOBALS)

    def render_part(self, template: str, **values: object) -> str:
        """A part of a page."""
        return self._environment.get_template(template).render(self._common_values(PageRequest()) | values)

    def response(self, view: PageView, request: PageRequest, headers: dict[str, str] | None = None) -> HTMLResponse:
        values = self._common_values(request) | view.data
        values |= {"page_title": view.title, "has_table": bool(view.table_key)}
        html = self._environment.get_template(view.template).render(values)
        return HTMLResponse(html.encode("utf-8", "replace"), view.status, headers)

    def _common_values(self, request: PageRequest) -> dict[str, Any]:
        context = self._context
        return {
            "request": request,
            "here": request.name,
            "names": context.collections.names,
            "secret": self._access.form_secret,
            "note": context.flash.get(str(request.values.get("note", ""))) if request.values else "",
            "read_only": context.read_only,
            "allow_local": context.allow_local,
            "now": context.clock.now(),
            "opilio_version": __version__,
        }


def strip_invisible(value: object) -> object:
    """Template output without invisible and direction-changing characters.

    >>> strip_invisible("a\\u202eb"), strip_invisible(None)
    ('ab', '')
    """
    if isinstance(value, Markup) or not isinstance(value, str):
        return "" if value is None else value
    return (
        INVISIBLE_CHARACTERS.sub("", value[:MAX_RENDERED_CHARS])
        if len(value) > MAX_RENDERED_CHARS or INVISIBLE_CHARACTERS.search(value)
        else value
    )


@cache
def static(name: str) -> str:
    """The URL of a static file; it changes with the content."""
    data = (files("opilio.web") / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(data).hexdigest()[:12]}"


def cut(text: str, length: int = 120) -> str:
    """
    >>> cut("abcdef", 4)
    'abc…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


def number(value: float) -> str:
    return f"{value:,.0f}"


def format_ratio(value: float) -> str:
    return f"{value:.2f}"


def size(value: float) -> str:
    """
    >>> size(1536)
    '1.5 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            return f"{value:.1f} {unit}" if unit != "B" else f"{value:.0f} B"
        value /= 1024
    return ""


def format_duration(seconds: float | None) -> str:
    """A duration in words.

    >>> format_duration(75), format_duration(7300)
    ('1 min 15 s', '2 h 1 min')
    """
    if seconds is None:
        return "–"
    whole = int(max(0.0, seconds))
    if whole >= 86400:
        return f"{whole // 86400} d {whole % 86400 // 3600} h"
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 60} min {whole % 60} s" if whole >= 60 else f"{whole} s"


def format_age(seconds: float) -> str:
    """How long ago something was, in the largest unit.

    >>> [format_age(seconds) for seconds in (20, 75, 7300, 90_000, 200_000)]
    ['just now', '1 min ago', '2 h ago', '1 day ago', '2 days ago']
    """
    for unit, length in (("day", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            count = int(seconds / length)
            return f"{count} {unit}{'s' if unit == 'day' and count > 1 else ''} ago"
    return "just now"


def event_name(kind: str) -> str:
    """
    >>> event_name("CrawlStopped")
    'Crawl stopped'
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).capitalize()


def format_day(at: float) -> str:
    """
    >>> format_day(0.0), format_day(1794825244.0)
    ('', '16 Nov 2026')
    """
    return datetime.fromtimestamp(at, UTC).strftime("%-d %b %Y") if 0 < at < MAX_TIME else ""


def format_time(at: float | None) -> str:
    """
    >>> format_time(0.0), format_time(None), format_time(1e300)
    ('1970-01-01 00:00:00', '–', '–')
    """
    if at is None or not 0 <= at <= MAX_TIME:
        return "–"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S")


def http_url_or_empty(url: str) -> str:
    """The URL if it is http or https, else empty: other schemes must not become links."""
    return url if url.startswith(("http://", "https://")) else ""


def url_with_query(address: str, **values: object) -> str:
    """A local URL with query values; empty ones are omitted, lists are repeated."""
    kept = {k: v for k, v in values.items() if v not in ("", None, [], False)}
    return f"{address}?{urlencode(kept, doseq=True)}" if kept else address


def url_of_page(address: str, number: int) -> str:
    """The same table at another page.

    >>> url_of_page("/c/birds/hosts?size=5&page=2&note=x&text=a%26b", 3)
    '/c/birds/hosts?size=5&text=a%26b&page=3'
    """
    path, _, query = address.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query) if name not in ("page", "note")]
    return f"{path}?{urlencode([*kept, ('page', number)])}"


def url_of_format(address: str, form: str) -> str:
    """The same page as JSON or CSV."""
    path, question, query = address.partition("?")
    return f"{path if path != '/' else '/index'}.{form}{question}{query}"


_FILTERS = {
    "cut": cut,
    "number": number,
    "pluralize": pluralize,
    "share": format_ratio,
    "percent": charts.percent,
    "size": size,
    "event_name": event_name,
    "failure_words": failure_words,
    "format_age": format_age,
    "format_duration": format_duration,
    "format_day": format_day,
    "format_time": format_time,
    "without_settings": without_settings,
    "http_url": http_url_or_empty,
    "q": lambda text: quote(text, safe=""),
}
# The pages of a collection: name of the group, its icon, and (path, name) of its pages.
COLLECTION_TABS = (
    ("Crawl", "crawl", (("", "Overview"), ("/manage", "Manage"))),
    ("Pages", "pages", (("/pages", "Pages"), ("/review", "Review"), ("/lists", "Lists"), ("/subtopics", "Subtopics"))),
    ("Topic", "topic", (("/topic", "Topic"), ("/seeds", "Seeds"))),
    ("Hosts", "hosts", (("/hosts", "Hosts"), ("/graph", "Graph"), ("/queue", "Queue"))),
    ("Log", "log", (("/errors", "Errors"), ("/events", "Events"), ("/agents", "Agents"))),
)
_GLOBALS = {
    "collection_tabs": COLLECTION_TABS,
    "static": static,
    "link": url_with_query,
    "url_of_page": url_of_page,
    "url_of_format": url_of_format,
    "harvest_chart": charts.harvest_chart,
    "comparison_chart": charts.comparison_chart,
}
