"""A search as an Atom or RSS feed, newest pages of the collection first, and the OpenSearch description of the server.

A feed reader that polls a search reports new pages: a saved search without an account and without e-mail. The ending of
the URL chooses the format; both are written from the same `Feed`.
"""

import re
from collections.abc import Mapping
from email.utils import formatdate
from html import escape
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opilio.core.clock import format_iso_time
from opilio.core.errors import CollectionError
from opilio.search.results import MarkedText, SearchHit
from opilio.store.annotations import require_search
from opilio.web.context import AppContext, Param, RawRoute, parse_params
from opilio.web.pages.search import SEARCH_PARAMS, search_filters

FEED_TYPES = {"atom": "application/atom+xml", "rss": "application/rss+xml"}
OPENSEARCH_TYPE = "application/opensearchdescription+xml"
ENTRIES = 30
_FORMAT_NAMES = {"atom": "Atom", "rss": "RSS 2.0"}
# The filters of a search; a feed is for relevant pages unless it says otherwise.
_OWN_PARAMS = ("sort", "page", "size", "note", "relevant")
_SIZE = Param(name="size", about="Entries.", kind="integer", default=ENTRIES, maximum=100)
_SEARCH_PARAMS = (
    *(param for param in SEARCH_PARAMS if param.name not in _OWN_PARAMS),
    Param(name="relevant", about="Which pages.", kind="choice", choices=("yes", "no", "all"), default="yes"),
    _SIZE,
)
_SAVED_PARAMS = (Param(name="search", about="The name of the search.", required=True), _SIZE)


def _feed_routes(path: str, about: str, params: tuple[Param, ...]) -> dict[str, RawRoute]:
    """One route for each format."""
    return {
        form: RawRoute(
            path=f"{path}.{form}",
            about=f"{about} As a feed in {_FORMAT_NAMES[form]} format.",
            media_type=media_type,
            params=params,
        )
        for form, media_type in FEED_TYPES.items()
    }


SEARCH_FEEDS = _feed_routes("/search", "A search, the pages that were stored last first.", _SEARCH_PARAMS)
SAVED_FEEDS = _feed_routes(
    "/c/{name}/feed", "The relevant pages of a saved search that were stored since it was saved.", _SAVED_PARAMS
)
OPENSEARCH = RawRoute(
    path="/opensearch.xml", about="The OpenSearch description, for browsers.", media_type=OPENSEARCH_TYPE
)
# What XML 1.0 does not permit, not even as a reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Feed(msgspec.Struct, frozen=True, kw_only=True):
    """Pages for a feed reader, the last stored first."""

    title: str
    hits: tuple[SearchHit, ...]
    page: str  # the URL of the same search for people
    itself: str  # the URL of the feed
    since: float = 0.0  # the time of an empty feed

    @property
    def updated(self) -> float:
        return max((hit.fetched_at for hit in self.hits), default=self.since)


def feed_routes(context: AppContext) -> list[Route]:
    """Both kinds of feeds in both formats."""

    def search(request: Request) -> Response:
        context.limit_searches(request.client.host if request.client else "")
        return _feed_response(_search_feed(context, request))

    def saved(request: Request) -> Response:
        context.limit_searches(request.client.host if request.client else "")
        return _feed_response(_saved_feed(context, request))

    paths = {route.path: search for route in SEARCH_FEEDS.values()}
    paths |= {route.path: saved for route in SAVED_FEEDS.values()}
    return [Route(path, endpoint, methods=["GET", "HEAD"]) for path, endpoint in paths.items()]


def _feed_response(feed: Feed) -> Response:
    form = "rss" if feed.itself.partition("?")[0].endswith(".rss") else "atom"
    text = rss_feed(feed) if form == "rss" else atom_feed(feed)
    return Response(text, media_type=FEED_TYPES[form])


def _search_feed(context: AppContext, request: Request) -> Feed:
    values = parse_params(_SEARCH_PARAMS, request.query_params.multi_items())
    folders, problems = context.collections.readable_folders(context.collections.names)
    fresh = context.searchers.refresh(folders)
    if not fresh.collections:
        raise CollectionError("; ".join([*problems, *fresh.problems]) or "no collection is served")
    filters = search_filters(context, values)
    searcher = context.searchers.searcher_for(fresh.collections)
    results = searcher.search(values["q"], filters, 1, values["size"], "added")
    words = values["q"] or "New pages"
    return Feed(
        title=f"{words} – {', '.join(values['in'])} – Opilio" if values["in"] else f"{words} – Opilio",
        hits=results.hits,
        page=_address(request, "/search", values | {"size": 10}),
        itself=str(request.url),
    )


def _saved_feed(context: AppContext, request: Request) -> Feed:
    values = parse_params(_SAVED_PARAMS, request.query_params.multi_items())
    name = request.path_params["name"]
    with context.open(name) as collection:
        search = require_search(collection.connection, values["search"])
    fresh = context.searchers.refresh({name: context.collections.folder(name)})
    if not fresh.collections:
        raise CollectionError("; ".join(fresh.problems))
    found = context.searchers.searcher_for(fresh.collections).new_hits(search, search.at, values["size"])
    return Feed(
        title=f"{search.name} – {name} – Opilio",
        hits=found.hits,
        page=_address(request, "/search", {"q": search.query, "in": [name]}),
        itself=str(request.url),
        since=search.at,
    )


def opensearch_route() -> Route:
    def endpoint(request: Request) -> Response:
        return Response(opensearch_description(str(request.base_url)), media_type=OPENSEARCH_TYPE)

    return Route(OPENSEARCH.path, endpoint, methods=["GET", "HEAD"])


def atom_feed(feed: Feed) -> str:
    """The feed in Atom format (RFC 4287)."""
    entries = "".join(
        f"<entry>\n<title>{_text(hit.title)}</title>\n<id>{_text(_entry_id(hit))}</id>\n"
        f'<link rel="alternate" href="{_text(hit.url)}"/>\n<updated>{format_iso_time(hit.fetched_at)}</updated>\n'
        f"<author><name>{_text(hit.host)}</name></author>\n<summary>{_text(hit.snippet)}</summary>\n</entry>\n"
        for hit in feed.hits
    )
    itself, page = _text(feed.itself), _text(feed.page)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<title>{_text(feed.title)}</title>\n<id>{itself}</id>\n<updated>{format_iso_time(feed.updated)}</updated>\n"
        f'<link rel="self" href="{itself}"/>\n<link rel="alternate" href="{page}"/>\n'
        f"<generator>Opilio</generator>\n{entries}</feed>\n"
    )


def rss_feed(feed: Feed) -> str:
    """The feed in RSS 2.0 format."""
    items = "".join(
        f"<item>\n<title>{_text(hit.title)}</title>\n<link>{_text(hit.url)}</link>\n"
        f'<guid isPermaLink="false">{_text(_entry_id(hit))}</guid>\n'
        f"<pubDate>{formatdate(hit.fetched_at, usegmt=True)}</pubDate>\n"
        f"<description>{_text(hit.snippet)}</description>\n</item>\n"
        for hit in feed.hits
    )
    title = _text(feed.title)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom">\n'
        f"<channel>\n<title>{title}</title>\n<link>{_text(feed.page)}</link>\n<description>{title}</description>\n"
        f'<atom:link rel="self" type="{FEED_TYPES["rss"]}" href="{_text(feed.itself)}"/>\n'
        f"<lastBuildDate>{formatdate(feed.updated, usegmt=True)}</lastBuildDate>\n"
        f"<generator>Opilio</generator>\n{items}</channel>\n</rss>\n"
    )


def _entry_id(hit: SearchHit) -> str:
    """Differs between versions of a page: feed readers do not show an entry with a known id again."""
    return f"{hit.url}#{format_iso_time(hit.fetched_at)}"


def _text(value: str | tuple[Any, ...]) -> str:
    """Text of the web, escaped, without the characters that are not permitted in XML."""
    return escape(_NOT_XML.sub("", value if isinstance(value, str) else str(MarkedText(value))))


def opensearch_description(base: str) -> str:
    """The description that lets a browser offer this server as a search engine. `base` is the server's URL."""
    root = escape(base.rstrip("/"))
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n'
        '<OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/">\n'
        "<ShortName>Opilio</ShortName>\n<Description>Search the collections of this server</Description>\n"
        "<InputEncoding>UTF-8</InputEncoding>\n"
        f'<Url type="text/html" template="{root}/search?q={{searchTerms}}"/>\n'
        f'<Url type="application/json" template="{root}/search.json?q={{searchTerms}}"/>\n'
        + "".join(
            f'<Url type="{media_type}" template="{root}/search.{form}?q={{searchTerms}}"/>\n'
            for form, media_type in FEED_TYPES.items()
        )
        + "</OpenSearchDescription>\n"
    )


def _address(request: Request, path: str, values: Mapping[str, Any]) -> str:
    """The URL of a page of this server with these parameters."""
    pairs = [(name, one) for name, value in values.items() for one in (value if isinstance(value, list) else [value])]
    return f"{str(request.base_url).rstrip('/')}{path}?{urlencode([(n, v) for n, v in pairs if v])}"
