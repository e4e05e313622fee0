"""Search over all collections: hits with what matched, facets, a better spelling; and the subtopics to browse."""

from typing import Any

import msgspec

from opilio.index.records import SORTS, Filters, Hit, Results, Segment
from opilio.model.errors import CollectionError, QueryError, UsageError
from opilio.web.desk import Asked, Desk, Page
from opilio.web.params import NOTE, PAGE, Param
from opilio.web.rendering import with_values
from opilio.web.view import View

FACETS = {"hosts": "host", "languages": "language", "genres": "genre", "bands": "band", "subtopics": "subtopic"}
FACETS |= {"years": "year"}
TITLES = {"bands": "Relevance", "hosts": "Host", "languages": "Language", "genres": "Genre", "years": "Year"}


def search(desk: Desk, asked: Asked) -> View:
    values = asked.values
    data: dict[str, Any] = {"query": values["q"], "values": values, "names": desk.shelf.names}
    if not desk.shelf.folders:
        return View(template="search.html", data=data | {"results": None, "hits": []}, title="Search", rows="hits")
    folders, problems = desk.shelf.readable(desk.shelf.names)
    fresh = desk.library.freshen(folders)
    problems += fresh.problems
    if not fresh.collections:
        raise CollectionError(problems[0])
    searcher = desk.library.of(fresh.collections)
    try:
        results = searcher.search(values["q"], _filters(desk, values), values["page"], values["size"], values["sort"])
    except QueryError as error:
        data |= {"results": None, "hits": [], "error": str(error)}
        return View(template="search.html", data=data, title="Search", rows="hits", status=400)
    data |= {
        "total": results.total,
        "page": results.page,
        "pages": results.pages,
        "took_s": round(results.took_s, 4),
        "suggestion": results.suggestion,
        "notes": [*results.notes, *problems],
        "waiting": fresh.waiting,
        "hits": [hit_data(hit) for hit in results.hits],
        "facets": _facets(results, values),
        "results": True,
        "sorts": SORTS,
        "again": _address(values, page=1, q=results.suggestion) if results.suggestion else "",
    }
    return View(template="search.html", data=data, title=values["q"] or "Search", rows="hits")


def _filters(desk: Desk, values: dict[str, Any]) -> Filters:
    chosen: dict[str, Any] = {name: tuple(values[param]) for name, param in FACETS.items()}
    for name in values["in"]:
        desk.shelf.folder(name)  # one that is not served is told
    relevant = {"yes": True, "no": False}.get(values["relevant"])
    return Filters(
        **chosen, collections=tuple(values["in"]), relevant=relevant, after=values["after"], before=values["before"]
    )


def hit_data(hit: Hit) -> dict[str, Any]:
    """A hit for people and machines; its pieces of text are for the page alone."""
    told: dict[str, Any] = msgspec.to_builtins(hit)
    told |= {"title": _plain(hit.title), "snippet": _plain(hit.snippet)}
    told.pop("key")
    return told | {"_title": hit.title, "_snippet": hit.snippet}


def _plain(segments: tuple[Segment, ...]) -> str:
    return "".join(segment.text for segment in segments)


def _facets(results: Results, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Each value with the address that switches it on or off."""
    found = []
    for facet in results.facets:
        param = FACETS.get(facet.name)
        if param is None:
            continue
        rows = []
        for value in facet.values:
            now = [v for v in values[param] if v != value.value]
            address = _address(values, page=1, **{param: now if value.chosen else [*now, value.value]})
            rows.append({"value": value.value, "count": value.count, "chosen": value.chosen, "address": address})
        found.append({"name": facet.name, "title": TITLES.get(facet.name, facet.name.capitalize()), "values": rows})
    return found


def _address(values: dict[str, Any], **changes: object) -> str:
    kept = {k: v for k, v in {**values, **changes}.items() if k != "note" and v != _DEFAULTS.get(k)}
    return with_values("/search", **kept)


def subtopics(desk: Desk, asked: Asked) -> View:
    """What the relevant pages of a collection are about, in groups (S0-F1)."""
    fresh = desk.library.freshen({asked.name: desk.shelf.folder(asked.name)})
    if not fresh.collections:
        raise CollectionError(fresh.problems[0])
    searcher = desk.library.of(fresh.collections)
    found = [
        {"subtopic": s.name, "words": list(s.words), "pages": s.pages}
        | {"address": with_values("/search", **{"subtopic": [s.name], "in": [asked.name]})}
        for s in searcher.subtopics()
        if s.pages
    ]
    data = {"subtopics": found, "waiting": fresh.waiting, "notes": fresh.problems}
    return View(template="subtopics.html", data=data, title="Subtopics", rows="subtopics")


def similar_to(desk: Desk, name: str, url: str) -> list[dict[str, Any]]:
    """Pages like this one, as far as the index knows; a page is shown without an index, too."""
    try:
        hits = desk.library.of({name: desk.shelf.folder(name)}).similar(url, 6)
    except (UsageError, CollectionError):
        return []
    return [{"url": hit.url, "title": _plain(hit.title), "relevant": hit.relevant} for hit in hits]


_LISTS = (
    ("in", "Only these collections."),
    ("host", "Only these hosts."),
    ("language", "Only these languages."),
    ("genre", "Only these genres."),
    ("band", "Only these bands of relevance."),
    ("subtopic", "Only these subtopics."),
    ("year", "Only these years."),
)
_PARAMS = (
    Param(name="q", about='The query: words, "a phrase", title:word, host:example.org, -not, begin*, fuzzy~.'),
    *(Param(name=name, about=about, kind="list", default=[]) for name, about in _LISTS),
    Param(name="relevant", about="Which pages.", kind="choice", choices=("yes", "no", "all"), default="all"),
    Param(name="after", about="Not older than this day (2026-01-31)."),
    Param(name="before", about="Older than this day."),
    Param(name="sort", about="The order.", kind="choice", choices=SORTS, default="best"),
    PAGE,
    Param(name="size", about="Hits of a page.", kind="integer", default=10, most=100),
    NOTE,
)
_DEFAULTS = {param.name: param.default for param in _PARAMS}
PAGES = (
    Page(path="/search", show=search, about="Search over all collections.", params=_PARAMS),
    Page(
        path="/c/{name}/subtopics",
        show=subtopics,
        about="What the relevant pages are about, in groups.",
        params=(NOTE,),
    ),
)
