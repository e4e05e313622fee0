"""The index of a collection on an OpenSearch server: bulk indexing, an alias that is swapped on a rebuild, searches.

The name of the alias is that of the collection; `maintain reindex --server` stores it in the collection. The `_meta`
of the mapping holds the number of the last indexed response, written after the documents, so that any machine continues
where another stopped; a document sent twice changes nothing.
"""

import base64
import http.client
import json
import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec

from opilio.core.errors import CollectionError, QueryError, ServerError, UsageError
from opilio.parse.html import HtmlParser
from opilio.search.candidates import RankingWeights, SearchCandidate, SearchRequest, build_hit
from opilio.search.documents import BATCH_ANSWERS, DocumentReader, UnparsedDocument, complete_document
from opilio.search.opensearch.queries import Json, QueryTranslator
from opilio.search.query import parse_query, positive_terms
from opilio.search.query_builder import FILTER_FIELD_NAMES
from opilio.search.results import (
    FACET_FIELDS,
    Facet,
    FacetValue,
    IndexDocument,
    IndexProgress,
    SearchFilters,
    SearchHit,
    SearchResults,
)
from opilio.search.schema import (
    EXACT_FIELD,
    FILTER_FIELDS,
    LEAD_FIELD,
    SHOWN_FIELDS,
    STEMMED_FIELDS,
    TIME_FIELDS,
    WHOLE_TITLE_FIELD,
    document_fields,
    document_id,
    index_terms,
)
from opilio.search.snippet import Highlighter
from opilio.store.collection import open_readonly

TIMEOUT_S = 60.0
# Of one request; the server takes 100 MB.
BULK_BYTES = 8 << 20
# Most frequent ones, in which a query is stemmed.
LANGUAGES = 8
_TEXT = {"type": "text", "analyzer": "whitespace"}
_STORED = {"type": "keyword", "index": False, "doc_values": False}
_KEYWORD, _LONG = {"type": "keyword"}, {"type": "long"}
_MAPPING: Json = {
    "dynamic": "strict",
    "properties": {
        **dict.fromkeys((*STEMMED_FIELDS, EXACT_FIELD), _TEXT),
        **dict.fromkeys((WHOLE_TITLE_FIELD, *FILTER_FIELDS), _KEYWORD),
        **dict.fromkeys(SHOWN_FIELDS, _STORED),
        **dict.fromkeys(("key", *TIME_FIELDS), _LONG),
        "relevance": {"type": "double"},
    },
}
_SORTS = {"newest": "date", "added": "since", "relevance": "relevance"}


class OpenSearchClient:
    """Requests to one server. User and password come from OPENSEARCH_USER and OPENSEARCH_PASSWORD."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
            example = "https://search.example:9200; set OPENSEARCH_USER and OPENSEARCH_PASSWORD in the environment"
            raise UsageError(f"--server {address!r}: not the address of an OpenSearch server; for example {example}")
        self.address = address.rstrip("/")
        self._parts = parts
        self._headers = {"Content-Type": "application/json"}
        if user := os.environ.get("OPENSEARCH_USER"):
            secret = f"{user}:{os.environ.get('OPENSEARCH_PASSWORD', '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(secret.encode()).decode()}"

    def request(self, method: str, path: str, body: object = None, missing: Json | None = None) -> Json:
        """The answer of the server; `missing` in the place of a 404."""
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        place = f"{self._parts.path.rstrip('/')}/{path}"
        try:
            with closing(kind(self._parts.hostname or "", self._parts.port, timeout=TIMEOUT_S)) as connection:
                connection.request(method, place, data, self._headers)
                response = connection.getresponse()
                text = response.read()
        except (OSError, http.client.HTTPException) as error:
            problem = f"can't be reached: {error}; check the address and the server"
            raise ServerError(f"{self.address}: {problem}") from error
        if response.status == 404 and missing is not None:
            return missing
        try:
            answer = json.loads(text or b"{}")
        except ValueError as error:
            raise ServerError(f"{self.address}: does not answer as an OpenSearch server does") from error
        if response.status >= 400:
            raise CollectionError(f"{self.address}: {method} {path}: {response.status} {_reason(answer)}")
        return cast(Json, answer)


def _reason(answer: object) -> str:
    """What the server says about an error, shortened."""
    error = answer.get("error", "") if isinstance(answer, dict) else ""
    text = error.get("reason", "") if isinstance(error, dict) else error
    return " ".join(str(text).split())[:200]


class OpenSearchIndex:
    """The index of one collection. See `Searcher` for `update_indexes` and `search`."""

    def __init__(self, folder: Path, client: OpenSearchClient, alias: str = "", name: str = "") -> None:
        self._folder = folder
        self._client = client
        self._alias = alias or index_alias(folder)
        # Of the collection, in hits.
        self._name = name or folder.resolve().name
        self._parser = HtmlParser(paths=False)

    def update_indexes(self) -> IndexProgress:
        """Index what is new; everything where there is no index, or the collection was replaced by an older one."""
        mark = self._mark()
        with open_readonly(self._folder) as collection:
            reader = DocumentReader(collection)
            current = (reader.last_seq(), reader.last_label(), reader.dropped_versions())
        if mark is None or mark["seq"] > current[0] or mark["dropped"] != current[2]:
            return self.rebuild()
        return self._feed(self._alias, mark)

    def rebuild(self) -> IndexProgress:
        """Build a new index beside the old one, let the alias name it in one step, then delete the old one."""
        name = f"{self._alias}-{time.time_ns():x}"
        with open_readonly(self._folder) as collection:
            mark = {"seq": 0, "label": 0, "dropped": DocumentReader(collection).dropped_versions()}
        self._client.request("PUT", name, {"mappings": {**_MAPPING, "_meta": mark}})
        try:
            progress = self._feed(name, mark)
        except BaseException:
            self._client.request("DELETE", name, missing={})
            raise
        old = self._indexes()
        actions: list[Json] = [{"add": {"index": name, "alias": self._alias}}]
        actions += [{"remove_index": {"index": index}} for index in old]
        self._client.request("POST", "_aliases", {"actions": actions})
        return progress

    def search(
        self, query: str, filters: SearchFilters | None = None, page: int = 1, size: int = 10, sort: str = "best"
    ) -> SearchResults:
        """One page of hits with facets."""
        request = SearchRequest(query=query, filters=filters or SearchFilters(), page=page, size=size, sort=sort)
        request.check()
        if request.filters.tags or request.filters.collections:
            raise QueryError("tags and collections: not available on an OpenSearch server; leave them out")
        found = _OpenSearch(self._client, self._alias, request).run()
        hits = tuple(msgspec.structs.replace(hit, collections=(self._name,)) for hit in found.hits)
        return msgspec.structs.replace(found, query=query, hits=hits)

    def count_unindexed(self) -> int:
        """The number of pages that are not on the server yet."""
        mark = self._mark()
        with open_readonly(self._folder) as collection:
            return DocumentReader(collection).count_pages_after(mark["seq"] if mark else 0)

    def _indexes(self) -> list[str]:
        return list(self._client.request("GET", f"_alias/{self._alias}", missing={}))

    def _mark(self) -> dict[str, int] | None:
        """The numbers of what was indexed last; None where there is no index."""
        answer = self._client.request("GET", f"{self._alias}/_mapping", missing={})
        for index in answer.values():
            mark = index.get("mappings", {}).get("_meta")
            if mark:
                return {name: int(mark[name]) for name in ("seq", "label", "dropped")}
        return None

    def _feed(self, index: str, mark: dict[str, int]) -> IndexProgress:
        """Send what is newer than the mark, batch by batch, and move the mark after each."""
        indexed = removed = 0
        while True:
            with open_readonly(self._folder) as collection:
                reader = DocumentReader(collection)
                upto = min(mark["seq"] + BATCH_ANSWERS, reader.last_seq())
                if upto <= mark["seq"]:
                    keys, label = reader.labeled_since(mark["label"])
                    relabeled = reader.pages(keys)
                    break
                changes = reader.changes(mark["seq"], upto)
            self._send(index, changes.pages, changes.removed)
            mark = self._set_mark(index, {**mark, "seq": upto})
            indexed, removed = indexed + len(changes.pages), removed + len(changes.removed)
        if label > mark["label"]:
            self._send(index, relabeled, ())
            self._set_mark(index, {**mark, "label": label})
        self._client.request("POST", f"{index}/_refresh")
        return IndexProgress(indexed=indexed + len(relabeled), removed=removed)

    def _set_mark(self, index: str, mark: dict[str, int]) -> dict[str, int]:
        self._client.request("PUT", f"{index}/_mapping", {"_meta": mark})
        return mark

    def _send(self, index: str, pages: Sequence[UnparsedDocument], removed: Iterable[int]) -> None:
        documents = (complete_document(self._folder, page, self._parser) for page in pages)
        body = b""
        for action in chain(_bulk_actions(documents), (_line({"delete": {"_id": f"{key:x}"}}) for key in removed)):
            if body and len(body) + len(action) > BULK_BYTES:
                self._send_bulk(index, body)
                body = b""
            body += action
        if body:
            self._send_bulk(index, body)

    def _send_bulk(self, index: str, body: bytes) -> None:
        answer = self._client.request("POST", f"{index}/_bulk", body)
        for item in answer.get("items", ()) if answer.get("errors") else ():
            (result,) = item.values()
            if result.get("status", 200) >= 400 and result.get("status") != 404:
                raise CollectionError(f"{self._client.address}: document {result.get('_id')}: {_reason(result)}")


def index_alias(folder: Path) -> str:
    """A valid name of an index for a collection.

    >>> index_alias(Path("Sign Languages"))
    'opilio-sign-languages'
    """
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in folder.resolve().name.lower())
    return f"opilio-{name}"[:200]


def _bulk_actions(documents: Iterable[IndexDocument]) -> Iterator[bytes]:
    for document in documents:
        fields = document_fields(document)
        # Only for the order of questions, which is that of the embedded index.
        del fields[LEAD_FIELD]
        # Sent as terms, as the other fields are.
        fields[EXACT_FIELD] = " ".join(index_terms(str(fields[EXACT_FIELD])))
        yield _line({"index": {"_id": document_id(document)}}) + _line(fields)


def _line(value: Json) -> bytes:
    return json.dumps(value).encode() + b"\n"


class _OpenSearch:
    """One search."""

    def __init__(self, client: OpenSearchClient, alias: str, request: SearchRequest) -> None:
        self._client = client
        self._alias = alias
        self._request = request
        self._group = parse_query(request.query)
        self._ranking = RankingWeights()

    def run(self) -> SearchResults:
        began = time.perf_counter()
        translator = QueryTranslator(self._languages())
        answer = self._ask(translator, relaxed=False)
        notes: tuple[str, ...] = ()
        if not answer["hits"]["total"]["value"] and len(self._group.parts) > 1:
            answer, notes = self._ask(translator, relaxed=True), ("no page has most of the words; these have some",)
        hits, total, size = self._hits(answer["hits"]["hits"]), answer["hits"]["total"]["value"], self._request.size
        return SearchResults(
            query=self._request.query, total=total, page=self._request.page, pages=math.ceil(total / size), size=size,
            hits=hits, facets=self._facets(answer, translator, relaxed=bool(notes)), notes=notes,
            took_s=time.perf_counter() - began,
        )  # fmt: skip

    def _languages(self) -> list[str]:
        body = {"size": 0, "aggs": {"languages": {"terms": {"field": "language", "size": LANGUAGES}}}}
        answer = self._client.request("POST", f"{self._alias}/_search", body)
        return [bucket["key"] for bucket in answer["aggregations"]["languages"]["buckets"]]

    def _ask(self, translator: QueryTranslator, *, relaxed: bool) -> Json:
        order = _SORTS.get(self._request.sort) or (None if self._group.parts else "relevance")
        body = {
            "query": translator.translate(self._group, self._request.filters, relaxed=relaxed),
            "size": max(self._ranking.candidates, self._request.page * self._request.size),
            "track_total_hits": True,
            "_source": {"excludes": [*STEMMED_FIELDS, EXACT_FIELD, WHOLE_TITLE_FIELD]},
            "aggs": {name: {"terms": {"field": field, "size": size}} for name, field, size in FACET_FIELDS},
        }
        if order:
            body["sort"] = [{order: "desc"}, {"key": "asc"}]
        return self._client.request("POST", f"{self._alias}/_search", body)

    def _hits(self, found: Sequence[Json]) -> tuple[SearchHit, ...]:
        """The best text matches reordered by relevance, as in the embedded index; then one page of them."""
        nothing = cast(Any, None)
        made = [
            SearchCandidate(
                nothing, nothing, hit["_source"]["key"], hit["_score"] or 1.0, hit["_source"]["relevance"], 0.0, []
            )
            for hit in found
        ]
        sources = {one.key: hit["_source"] for one, hit in zip(made, found, strict=True)}
        if self._request.sort == "best" and self._group.parts:
            first = made[: self._ranking.candidates]
            self._ranking.combine_candidates(first, 0.0)
            made[: len(first)] = sorted(first, key=lambda one: -one.score)
        start = (self._request.page - 1) * self._request.size
        wanted = [term for term in positive_terms(self._group) if term.field not in FILTER_FIELD_NAMES]
        return tuple(
            build_hit(_stored(sources[one.key]), Highlighter(wanted, sources[one.key]["language"]), one)
            for one in made[start : start + self._request.size]
        )

    def _facets(self, answer: Json, translator: QueryTranslator, *, relaxed: bool) -> tuple[Facet, ...]:
        """The counts of hits; a facet with chosen values is counted as if none were chosen."""
        made = []
        for name, field, size in FACET_FIELDS:
            chosen, counts = getattr(self._request.filters, name), answer["aggregations"][name]["buckets"]
            if chosen:
                filters = msgspec.structs.replace(self._request.filters, **{name: ()})
                body = {
                    "query": translator.translate(self._group, filters, relaxed=relaxed),
                    "size": 0,
                    "aggs": {name: {"terms": {"field": field, "size": size}}},
                }
                other = self._client.request("POST", f"{self._alias}/_search", body)
                counts = other["aggregations"][name]["buckets"]
            values = [FacetValue(b["key"], b["doc_count"], b["key"] in chosen) for b in counts if b["key"]]
            if values:
                made.append(Facet(name, tuple(values)))
        return tuple(made)


def _stored(source: Json) -> dict[str, list[Any]]:
    """A document as the embedded index returns it."""
    return {name: [str(value).encode() if name in SHOWN_FIELDS else value] for name, value in source.items()}
