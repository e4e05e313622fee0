"""An HTTP server on loopback that answers as OpenSearch's documentation says, for the requests that Opilio sends.

No package registry has the real server. The double evaluates the queries on the documents it was sent, with strict
mappings; scores are sums of boosts, not BM25. A field or query that it does not know is an error.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from typing import Any

Json = dict[str, Any]


class OpenSearchDouble:
    """Indexes with their mappings and documents, aliases, and the requests so far."""

    def __init__(self) -> None:
        self.indexes: dict[str, Json] = {}
        self.aliases: dict[str, str] = {}
        self.log: list[str] = []
        self.refuse_bulk = False
        self.url = ""

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Json]:
        self.log.append(f"{method} {path}")
        first, _, rest = path.strip("/").partition("/")
        if (method, first) == ("POST", "_aliases"):
            return self._change_aliases(json.loads(body)["actions"])
        if (method, first) == ("GET", "_alias"):
            name = self.aliases.get(rest)
            return (200, {name: {"aliases": {rest: {}}}}) if name else (404, {"error": "alias missing", "status": 404})
        if (method, rest) == ("PUT", ""):
            self.indexes[first] = {"mappings": json.loads(body)["mappings"], "documents": {}}
            return 200, {"acknowledged": True, "index": first}
        name = self.aliases.get(first, first)
        if name not in self.indexes:
            return 404, {"error": {"type": "index_not_found_exception", "reason": f"no such index [{first}]"}}
        if (method, rest) == ("DELETE", ""):
            del self.indexes[name]
            return 200, {"acknowledged": True}
        return self._of_index(name, method, rest, body)

    def _change_aliases(self, actions: list[Json]) -> tuple[int, Json]:
        for action in actions:
            ((kind, values),) = action.items()
            if kind == "add":
                self.aliases[values["alias"]] = values["index"]
            else:
                assert kind == "remove_index"
                del self.indexes[values["index"]]
        return 200, {"acknowledged": True}

    def _of_index(self, name: str, method: str, rest: str, body: bytes) -> tuple[int, Json]:
        index = self.indexes[name]
        if rest == "_mapping" and method == "PUT":
            index["mappings"].update(json.loads(body))
        elif rest == "_mapping":
            return 200, {name: {"mappings": index["mappings"]}}
        elif rest == "_bulk":
            return self._bulk(index, body)
        elif rest == "_search":
            return 200, search(index, json.loads(body))
        else:
            assert rest == "_refresh", rest
        return 200, {"acknowledged": True}

    def _bulk(self, index: Json, body: bytes) -> tuple[int, Json]:
        assert body.endswith(b"\n")
        if self.refuse_bulk:
            return 429, {"error": {"type": "circuit_breaking_exception", "reason": "Data too large"}, "status": 429}
        lines = iter(body.decode().splitlines())
        items: list[Json] = []
        for line in lines:
            ((kind, about),) = json.loads(line).items()
            if kind == "delete":
                known = index["documents"].pop(about["_id"], None)
                items.append({"delete": {"_id": about["_id"], "status": 404 if known is None else 200}})
                continue
            document = json.loads(next(lines))
            assert document.keys() == index["mappings"]["properties"].keys()
            index["documents"][about["_id"]] = document
            items.append({"index": {"_id": about["_id"], "status": 201}})
        return 200, {"errors": False, "items": items}


def search(index: Json, body: Json) -> Json:
    """Hits and terms aggregations of a search."""
    properties = index["mappings"]["properties"]
    scored = [
        (match(one, body.get("query", {"match_all": {}}), properties), one) for one in index["documents"].values()
    ]
    found = [(score, one) for score, one in scored if score is not None]
    found.sort(key=lambda pair: (-pair[0], pair[1]["key"]))
    for one in reversed(body.get("sort", [])):
        ((field, order),) = one.items()
        found.sort(key=lambda pair: pair[1][field], reverse=order == "desc")
    hidden = set(body.get("_source", {}).get("excludes", ()))
    hits = [{"_score": s, "_source": {k: v for k, v in d.items() if k not in hidden}} for s, d in found]
    aggregations = {}
    for name, about in body.get("aggs", {}).items():
        counts = Counter(one[about["terms"]["field"]] for _, one in found).most_common(about["terms"]["size"])
        aggregations[name] = {"buckets": [{"key": key, "doc_count": count} for key, count in counts]}
    total = {"value": len(found), "relation": "eq"}
    return {"hits": {"total": total, "hits": hits[: body.get("size", 10)]}, "aggregations": aggregations}


def match(document: Json, query: Json, properties: Json) -> float | None:
    """The score of a document, None where it does not match."""
    ((kind, about),) = query.items()
    if kind == "match_all":
        return 1.0
    if kind == "bool":
        return _match_bool(document, about, properties)
    if kind == "dis_max":
        scores = [s for q in about["queries"] if (s := match(document, q, properties)) is not None]
        return max(scores, default=None)
    if kind == "constant_score":
        return None if match(document, about["filter"], properties) is None else about.get("boost", 1.0)
    ((field, value),) = about.items()
    assert properties[field].get("index", True)
    boost = value.get("boost", 1.0) if isinstance(value, dict) else 1.0
    return boost if _LEAVES[kind](_values(document, field, properties), value) else None


def _match_bool(document: Json, about: Json, properties: Json) -> float | None:
    assert about.keys() <= {"must", "should", "must_not", "filter", "minimum_should_match"}
    needed = [match(document, one, properties) for one in (*about.get("must", ()), *about.get("filter", ()))]
    optional = [s for one in about.get("should", ()) if (s := match(document, one, properties)) is not None]
    default = 0 if about.get("must") or about.get("filter") else min(1, len(about.get("should", ())))
    refused = any(match(document, one, properties) is not None for one in about.get("must_not", ()))
    if refused or None in needed or len(optional) < about.get("minimum_should_match", default):
        return None
    return sum(match(document, one, properties) or 0.0 for one in about.get("must", ())) + sum(optional)


def _values(document: Json, field: str, properties: Json) -> list[Any]:
    return document[field].split() if properties[field]["type"] == "text" else [document[field]]


def _phrase(words: list[str], value: Json) -> bool:
    asked, slop = value["query"].split(), value["slop"]
    places = [[n for n, word in enumerate(words) if word == one] for one in asked]
    return any(
        max(p - n for n, p in enumerate(at)) - min(p - n for n, p in enumerate(at)) <= slop for at in product(*places)
    )


def _range(values: list[Any], limits: Json) -> bool:
    tests = {"gt": int.__gt__, "gte": int.__ge__, "lt": int.__lt__, "lte": int.__le__}
    return any(all(tests[name](value, limit) for name, limit in limits.items()) for value in values)


def _distance(a: str, b: str) -> int:
    """Edits between two words; a swap of neighbours is one."""
    rows = [list(range(len(b) + 1))]
    for i, x in enumerate(a, 1):
        row = [i]
        for j, y in enumerate(b, 1):
            row.append(min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (x != y)))
            if i > 1 and j > 1 and x == b[j - 2] and a[i - 2] == y:
                row[-1] = min(row[-1], rows[-2][j - 2] + 1)
        rows.append(row)
    return rows[-1][-1]


_LEAVES = {
    "term": lambda values, value: (value["value"] if isinstance(value, dict) else value) in values,
    "terms": lambda values, wanted: any(one in wanted for one in values),
    "match_phrase": _phrase,
    "prefix": lambda values, value: any(one.startswith(value["value"]) for one in values),
    "regexp": lambda values, value: any(re.fullmatch(value["value"], one) for one in values),
    "fuzzy": lambda values, value: any(_distance(one, value["value"]) <= value["fuzziness"] for one in values),
    "range": _range,
}


@contextmanager
def opensearch_double() -> Iterator[OpenSearchDouble]:
    """A server, while the block runs."""
    double = OpenSearchDouble()

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = double.answer(self.command, self.path, body)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _respond  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    double.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
