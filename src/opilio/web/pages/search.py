"""Search over all collections: hits with matches marked, facets, a suggested spelling; and subtopics to browse."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from opilio.core.errors import CollectionError, QueryError, UsageError
from opilio.search.candidates import MAX_PAGE_SIZE
from opilio.search.results import SORT_ORDERS, SearchFilters, SearchHit, SearchResults
from opilio.store.labels import label_name
from opilio.web.context import PAGE_PARAM, AppContext, PageRequest, PageRoute, PageView, Param
from opilio.web.templating import MAX_TIME, format_day, url_of_format, url_with_query

FACETS = {"hosts": "host", "languages": "language", "genres": "genre", "bands": "band", "subtopics": "subtopic"}
FACETS |= {"polarities": "polarity", "years": "year", "tags": "tag"}
HITS_PER_HOST = 2  # shown of one host; more are folded
TITLES = {"bands": "Relevance", "hosts": "Host", "languages": "Language", "genres": "Genre", "years": "Year"}
TITLES |= {"polarities": "Tone"}
# Where the parameter's name is not the word that is shown.
CHIP_NAMES = {"polarity": "tone"}


def show_search(context: AppContext, request: PageRequest) -> PageView:
    context.limit_searches(request.client)
    values = request.values
    data: dict[str, Any] = {"query": values["q"], "values": values, "names": context.collections.names}
    if not context.collections.folders:
        return PageView(
            template="search.html", data=data | {"results": None, "hits": []}, title="Search", table_key="hits"
        )
    folders, problems = context.collections.readable_folders(context.collections.names)
    fresh = context.searchers.refresh(folders)
    problems += fresh.problems
    if not fresh.collections:
        raise CollectionError(problems[0])
    searcher = context.searchers.searcher_for(fresh.collections)
    try:
        results = searcher.search(
            values["q"], search_filters(context, values), values["page"], values["size"], values["sort"]
        )
    except QueryError as error:
        data |= {"results": None, "hits": [], "error": str(error)}
        return PageView(template="search.html", data=data, title="Search", table_key="hits", status=400)
    data |= {
        "total": results.total,
        "page": results.page,
        "pages": results.pages,
        "took_s": round(results.took_s, 4),
        "suggestion": results.suggestion,
        "notes": [*results.notes, *problems],
        "waiting": fresh.pages_behind,
        "hits": (hits := _labelled_hits(context, results.hits)),
        "_groups": _group_by_host(hits, (results.page - 1) * results.size),
        "_chips": _chips(values),
        "facets": _facets(results, values),
        "results": True,
        "sorts": SORT_ORDERS,
        "_feeds": {
            form: url_with_query(f"/search.{form}", **_changed(values, _FEED_VALUES)) for form in ("atom", "rss")
        },
        "_table": url_of_format(_search_url(values, page=1, size=MAX_PAGE_SIZE), "csv"),
        "again": _search_url(values, page=1, q=results.suggestion) if results.suggestion else "",
    }
    return PageView(template="search.html", data=data, title=values["q"] or "Search", table_key="hits")


def search_filters(context: AppContext, values: dict[str, Any]) -> SearchFilters:
    """The filters of a request."""
    chosen: dict[str, Any] = {name: tuple(values[param]) for name, param in FACETS.items()}
    for name in values["in"]:
        # Raises UnknownCollectionError.
        context.collections.folder(name)
    relevant = {"yes": True, "no": False}.get(values["relevant"])
    return SearchFilters(
        **chosen,
        collections=tuple(values["in"]),
        relevant=relevant,
        after=values["after"],
        before=values["before"],
        added_after=values.get("since"),
    )


def filter_params(filters: SearchFilters) -> dict[str, Any]:
    """The parameters of a request that stand for filters; the reverse of `search_filters`."""
    chosen: dict[str, Any] = {param: list(getattr(filters, name)) for name, param in FACETS.items()}
    chosen |= {"after": filters.after, "before": filters.before}
    if filters.relevant is not None:
        chosen["relevant"] = "yes" if filters.relevant else "no"
    return {name: value for name, value in chosen.items() if value}


def hit_data(hit: SearchHit) -> dict[str, Any]:
    """A hit as JSON; the marked segments, with a leading underscore, are for the template only."""
    row: dict[str, Any] = msgspec.to_builtins(hit)
    row |= {"title": str(hit.title), "snippet": str(hit.snippet)}
    row.pop("key")
    return row | {"_title": hit.title, "_snippet": hit.snippet}


def _labelled_hits(context: AppContext, hits: Sequence[SearchHit]) -> list[dict[str, Any]]:
    """The hits, each with the user's label in the collection whose buttons are shown beside it."""
    with ExitStack() as opened:
        collections = {
            name: opened.enter_context(context.open(name)) for name in dict.fromkeys(hit.collections[0] for hit in hits)
        }
        return [
            hit_data(hit) | {"label": label_name(collections[hit.collections[0]].connection, hit.key)} for hit in hits
        ]


def _group_by_host(hits: list[dict[str, Any]], before: int) -> list[dict[str, Any]]:
    """The hits with their numbers. From the third of a host on they are folded below its second, if there are
    other hosts."""
    numbered = [hit | {"_number": number, "_more": []} for number, hit in enumerate(hits, before + 1)]
    if len({hit["host"] for hit in hits}) < 2:
        return numbered
    shown: list[dict[str, Any]] = []
    for hit in numbered:
        same = [one for one in shown if one["host"] == hit["host"]]
        if len(same) < HITS_PER_HOST:
            shown.append(hit)
        else:
            same[-1]["_more"].append(hit)
    return shown


def _chips(values: dict[str, Any]) -> list[dict[str, str]]:
    """The chosen filters, each with the URL that removes it."""
    lists = [
        (f"{CHIP_NAMES.get(name, name)}: {value}", {name: [one for one in values[name] if one != value]})
        for name in (*FACETS.values(), "in")
        for value in values[name]
    ]
    single = [(f"{name}: {values[name]}", {name: _DEFAULTS[name]}) for name in ("relevant", "after", "before")]
    chosen = lists + [chip for chip in single if not chip[0].endswith((": ", ": all"))]
    if values["since"] is not None:
        chosen.append((f"stored after {format_day(values['since'])}", {"since": None}))
    return [{"label": label, "address": _search_url(values, page=1, **changes)} for label, changes in chosen]


def _facets(results: SearchResults, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Each value with the URL that selects or removes it."""
    found = []
    for facet in results.facets:
        param = FACETS.get(facet.name)
        if param is None:
            continue
        rows = []
        for value in facet.values:
            now = [v for v in values[param] if v != value.value]
            address = _search_url(values, page=1, **{param: now if value.chosen else [*now, value.value]})
            rows.append({"value": value.value, "count": value.count, "chosen": value.chosen, "address": address})
        title = TITLES.get(facet.name, facet.name.capitalize())
        # A single value that all results have would filter nothing.
        narrows = len(rows) > 1 or any(v.chosen or v.count < results.total for v in facet.values)
        found.append({"name": facet.name, "title": title, "values": rows, "_narrows": narrows})
    return found


def _search_url(values: dict[str, Any], **changes: object) -> str:
    return url_with_query("/search", **_changed(values, changes))


def _changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """The parameters of a URL: without those that have their default."""
    return {k: v for k, v in {**values, **changes}.items() if k != "note" and v != _DEFAULTS.get(k)}


def show_subtopics(context: AppContext, request: PageRequest) -> PageView:
    """The groups that the relevant pages of a collection fall into (S0-F1)."""
    fresh = context.searchers.refresh({request.name: context.collections.folder(request.name)})
    if not fresh.collections:
        raise CollectionError(fresh.problems[0])
    searcher = context.searchers.searcher_for(fresh.collections)
    found = [
        {"subtopic": s.name, "words": list(s.words), "pages": s.pages}
        | {"address": url_with_query("/search", **{"subtopic": [s.name], "in": [request.name]})}
        for s in searcher.subtopics()
        if s.pages
    ]
    data = {"subtopics": found, "waiting": fresh.pages_behind, "notes": fresh.problems}
    return PageView(template="subtopics.html", data=data, title="Subtopics", table_key="subtopics")


def similar_pages(context: AppContext, name: str, url: str) -> list[dict[str, Any]]:
    """Pages similar to this one; none if the index does not have it yet."""
    try:
        hits = context.searchers.searcher_for({name: context.collections.folder(name)}).similar(url, 6)
    except (UsageError, CollectionError):
        return []
    return [{"url": hit.url, "title": str(hit.title), "relevant": hit.relevant} for hit in hits]


_LISTS = (
    ("in", "Only these collections."),
    ("host", "Only these hosts."),
    ("language", "Only these languages."),
    ("genre", "Only these genres."),
    ("polarity", "Only pages of this polarity: positive, neutral, negative."),
    ("band", "Only these bands of relevance."),
    ("subtopic", "Only these subtopics."),
    ("year", "Only these years."),
    ("tag", "Only pages with one of these tags."),
)
SEARCH_PARAMS = (
    Param(name="q", about='The query: words, "a phrase", title:word, host:example.org, -not, begin*, fuzzy~.'),
    *(Param(name=name, about=about, kind="list", default=[]) for name, about in _LISTS),
    Param(name="relevant", about="Which pages.", kind="choice", choices=("yes", "no", "all"), default="all"),
    Param(name="after", about="Not older than this day (2026-01-31)."),
    Param(name="before", about="Older than this day."),
    Param(
        name="since",
        about="Stored after this time, in seconds since 1970.",
        kind="number",
        default=None,
        minimum=0,
        maximum=int(MAX_TIME),
    ),
    Param(name="sort", about="The order.", kind="choice", choices=SORT_ORDERS, default="best"),
    PAGE_PARAM,
    Param(name="size", about="Results per page.", kind="integer", default=10, maximum=MAX_PAGE_SIZE),
)
_DEFAULTS = {param.name: param.default for param in SEARCH_PARAMS}
# A feed has its own order and size, and is for relevant pages.
_FEED_VALUES = {name: _DEFAULTS[name] for name in ("page", "size", "sort", "relevant")}
PAGES = (
    PageRoute(path="/search", show=show_search, about="Search over all collections.", params=SEARCH_PARAMS),
    PageRoute(
        path="/c/{name}/subtopics",
        show=show_subtopics,
        about="The relevant pages in groups.",
    ),
)
