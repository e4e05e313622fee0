"""A search as an Atom feed, newest pages of the collection first, and the OpenSearch description of the server.

A feed reader that polls a search reports new pages: a saved search without an account and without e-mail.
"""

from collections.abc import Mapping
from html import escape
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from opilio.core.clock import format_iso_time
from opilio.core.errors import CollectionError
from opilio.search.results import MarkedText, SearchHit
from opilio.store.annotations import require_search
from opilio.web.context import AppContext, RawRoute
from opilio.web.pages.search import SEARCH_PARAMS, search_filters
from opilio.web.params import Param, parse_params

ATOM_TYPE = "application/atom+xml"
OPENSEARCH_TYPE = "application/opensearchdescription+xml"
ENTRIES = 30
# The filters of a search; a feed is for relevant pages unless it says otherwise.
_OWN_PARAMS = ("sort", "page", "size", "note", "relevant")
FEED = RawRoute(
    path="/search.atom",
    about="A search as an Atom feed: the pages that were stored last first.",
    media_type=ATOM_TYPE,
    params=(
        *(param for param in SEARCH_PARAMS if param.name not in _OWN_PARAMS),
        Param(name="relevant", about="Which pages.", kind="choice", choices=("yes", "no", "all"), default="yes"),
        Param(name="size", about="Entries.", kind="integer", default=ENTRIES, maximum=100),
    ),
)
SAVED_FEED = RawRoute(
    path="/c/{name}/feed",
    about="A saved search as an Atom feed: relevant pages that were stored since it was saved.",
    media_type=ATOM_TYPE,
    params=(
        Param(name="search", about="The name of the search.", required=True),
        Param(name="size", about="Entries.", kind="integer", default=ENTRIES, maximum=100),
    ),
)
OPENSEARCH = RawRoute(
    path="/opensearch.xml", about="The OpenSearch description, for browsers.", media_type=OPENSEARCH_TYPE
)


def feed_route(context: AppContext) -> Route:
    def endpoint(request: Request) -> Response:
        values = parse_params(FEED.params, request.query_params.multi_items())
        folders, problems = context.collections.readable_folders(context.collections.names)
        fresh = context.searchers.refresh(folders)
        if not fresh.collections:
            raise CollectionError("; ".join([*problems, *fresh.problems]) or "no collection is served")
        filters = search_filters(context, values)
        searcher = context.searchers.searcher_for(fresh.collections)
        results = searcher.search(values["q"], filters, 1, values["size"], "added")
        page = _address(request, "/search", values | {"size": 10})
        title = f"{values['q']} – Opilio" if values["q"] else "New pages – Opilio"
        text = atom_feed(title, results.hits, page, str(request.url))
        return Response(text, media_type=ATOM_TYPE)

    return Route(FEED.path, endpoint, methods=["GET", "HEAD"])


def saved_feed_route(context: AppContext) -> Route:
    def endpoint(request: Request) -> Response:
        values = parse_params(SAVED_FEED.params, request.query_params.multi_items())
        name = request.path_params["name"]
        with context.open(name) as collection:
            search = require_search(collection.connection, values["search"])
        fresh = context.searchers.refresh({name: context.collections.folder(name)})
        if not fresh.collections:
            raise CollectionError("; ".join(fresh.problems))
        found = context.searchers.searcher_for(fresh.collections).new_hits(search, search.at, values["size"])
        page = _address(request, "/search", {"q": search.query, "in": [name]})
        title = f"{search.name} – {name} – Opilio"
        return Response(atom_feed(title, found.hits, page, str(request.url), search.at), media_type=ATOM_TYPE)

    return Route(SAVED_FEED.path, endpoint, methods=["GET", "HEAD"])


def opensearch_route() -> Route:
    def endpoint(request: Request) -> Response:
        return Response(opensearch_description(str(request.base_url)), media_type=OPENSEARCH_TYPE)

    return Route(OPENSEARCH.path, endpoint, methods=["GET", "HEAD"])


def atom_feed(title: str, hits: tuple[SearchHit, ...], page: str, itself: str, since: float = 0.0) -> str:
    """The feed, updated when the newest hit was stored, else at `since`. Text of the web is escaped."""
    updated = max((hit.fetched_at for hit in hits), default=since)
    entries = "".join(_entry(hit) for hit in hits)
    return (
        '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
        f"<title>{escape(title)}</title>\n<id>{escape(itself)}</id>\n<updated>{format_iso_time(updated)}</updated>\n"
        f'<link rel="self" href="{escape(itself)}"/>\n<link rel="alternate" href="{escape(page)}"/>\n'
        f"<generator>Opilio</generator>\n{entries}</feed>\n"
    )


def _entry(hit: SearchHit) -> str:
    url, title = escape(hit.url), escape(str(MarkedText(hit.title)))
    return (
        f"<entry>\n<title>{title}</title>\n<id>{url}</id>\n"
        f'<link rel="alternate" href="{url}"/>\n<updated>{format_iso_time(hit.fetched_at)}</updated>\n'
        f"<author><name>{escape(hit.host)}</name></author>\n"
        f"<summary>{escape(str(MarkedText(hit.snippet)))}</summary>\n</entry>\n"
    )


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
        f'<Url type="{ATOM_TYPE}" template="{root}/search.atom?q={{searchTerms}}"/>\n'
        "</OpenSearchDescription>\n"
    )


def _address(request: Request, path: str, values: Mapping[str, Any]) -> str:
    """The URL of a page of this server with these parameters."""
    pairs = [(name, one) for name, value in values.items() for one in (value if isinstance(value, list) else [value])]
    return f"{str(request.base_url).rstrip('/')}{path}?{urlencode([(n, v) for n, v in pairs if v])}"
