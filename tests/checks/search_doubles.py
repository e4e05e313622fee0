"""A real HTTP server on loopback that answers in the shapes of search APIs, with the faults a test asks for.

Shapes are those of the engines' own documentation. Each engine answers its own list, page by page, whatever the query;
a list may also be chosen by query. Every request is noted with its headers.
"""

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

Query = dict[str, str]
KEY = "the-secret-key"


@dataclass
class Asked:
    """One request as the server saw it."""

    path: str
    query: Query
    headers: dict[str, str]
    body: bytes


@dataclass
class SearchDouble:
    """What the engines know, how they fail, and what they were asked."""

    lists: dict[str, list[str]] = field(default_factory=dict)  # engine: URLs, best first
    by_query: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # (engine, query): URLs
    backlinks: dict[str, list[str]] = field(default_factory=dict)  # title or address: titles of articles that link
    faults: dict[str, str] = field(default_factory=dict)  # engine: 429, slow, html, … (see `_faulty`, `_echo`)
    retry_after: str = "1"
    log: list[Asked] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)  # ends what is slow
    url: str = ""
    article_path: str = "/wiki/$1"  # of the wiki

    def asked(self, engine: str) -> list[Asked]:
        return [asked for asked in self.log if asked.path.startswith(f"/{engine}/")]

    def found(self, engine: str, query: str) -> list[str]:
        return self.by_query.get((engine, query), self.lists.get(engine, []))

    def engine(self, kind: str, **options: object) -> dict[str, Any]:
        """A table of seeds.engines for an engine of this server, asked without pauses."""
        keyed = {"key": "env:TEST_SEARCH_KEY"} if kind in ("brave", "kagi", "mojeek", "marginalia") else {}
        path = "mediawiki/w/api.php" if kind.startswith("mediawiki") else "searxng" if kind == "searxng" else ""
        url = f"{self.url}/{path or f'{kind}/search'}"
        if kind == "common-crawl":
            url = f"{self.url}/common-crawl"
        patterns = {"patterns": ["*.example"]} if kind == "common-crawl" else {}
        return {"kind": kind, "url": url, "pause_s": 0.0, **keyed, **patterns, **options}


Answer = tuple[int, Any, dict[str, str]]


def _brave(double: SearchDouble, asked: Asked) -> Answer:
    left = {"X-RateLimit-Limit": "1, 2000", "X-RateLimit-Remaining": "1, 1999", "X-RateLimit-Reset": "1, 1419704"}
    if asked.headers.get("x-subscription-token") != KEY:
        detail = "The provided subscription token is invalid."
        error = {"status": 422, "code": "SUBSCRIPTION_TOKEN_INVALID", "detail": detail}
        return 422, {"type": "ErrorResponse", "error": error}, left
    q = asked.query
    count, page = int(q["count"]), int(q["offset"])
    if not (1 <= count <= 20 and 0 <= page <= 9):
        return 422, {"type": "ErrorResponse", "error": {"code": "VALIDATION", "detail": "Unable to validate"}}, left
    urls = double.found("brave", q["q"])
    results = [{"title": f"T {u}", "url": u, "description": "d"} for u in urls[page * count : (page + 1) * count]]
    more = (page + 1) * count < len(urls)
    query = {"original": q["q"], "more_results_available": more}
    return 200, {"type": "search", "query": query, "web": {"type": "search", "results": results}}, left


def _kagi(double: SearchDouble, asked: Asked) -> Answer:
    meta = {"trace": "t", "node": "n", "ms": 1}
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return 401, {"meta": meta, "error": [{"code": "auth.invalid", "message": "Unauthorized"}]}, {}
    wanted = json.loads(asked.body)
    start = (wanted["page"] - 1) * wanted["limit"]
    page = double.found("kagi", wanted["query"])[start : start + wanted["limit"]]
    data = {"search": [{"url": u, "title": "T", "snippet": "s"} for u in page]} if page else {}
    return 200, {"meta": meta, "data": data}, {}


def _mojeek(double: SearchDouble, asked: Asked) -> Answer:
    q = asked.query
    if q.get("api_key") != KEY:
        return 200, {"response": {"status": "ERROR: Invalid API Key"}}, {}
    urls, start, size = double.found("mojeek", q["q"]), int(q["s"]), int(q["t"])
    page = urls[start - 1 : start - 1 + size]
    head = {"query": q["q"], "start": start, "return": len(page), "results": len(urls)}
    results = [{"url": u, "title": "T", "desc": "d"} for u in page]
    return 200, {"response": {"status": "OK", "head": head, "results": results}}, {}


def _marginalia(double: SearchDouble, asked: Asked) -> Answer:
    if asked.headers.get("api-key") != KEY:
        return 401, {"error": "unauthorized"}, {}
    q = asked.query
    size, page = int(q["count"]), int(q["page"])
    urls = double.found("marginalia", q["query"])[(page - 1) * size : page * size]
    results = [{"url": u, "title": "T", "description": "d", "quality": 5.0} for u in urls]
    return 200, {"license": "CC-BY-NC-SA 4.0", "query": q["query"], "results": results}, {}


def _mediawiki(double: SearchDouble, asked: Asked) -> Answer:
    q = asked.query
    if "http" not in asked.headers.get("user-agent", ""):
        return 403, "Please set a user-agent and respect our robot policy.", {}
    site = {"general": {"articlepath": double.article_path}} if q.get("meta") == "siteinfo" else {}
    if q.get("list") == "search":
        # Without CirrusSearch, a wiki finds the words in titles only unless it is asked for the text.
        titles = double.found("mediawiki", q["srsearch"]) if q.get("srwhat") == "text" else []
        start, size = int(q["sroffset"]), int(q["srlimit"])
        found = [{"ns": 0, "title": t, "pageid": i} for i, t in enumerate(titles)][start : start + size]
        more: dict[str, Any] = {"continue": {"sroffset": start + size}} if start + size < len(titles) else {}
        return 200, {**more, "query": {**site, "searchinfo": {"totalhits": len(titles)}, "search": found}}, {}
    if (kind := q.get("list")) in ("backlinks", "exturlusage"):
        target, most = (q["bltitle"], q["bllimit"]) if kind == "backlinks" else (q["euquery"], q["eulimit"])
        linking = [{"ns": 0, "title": title} for title in double.backlinks.get(target, [])]
        return 200, {"batchcomplete": "", "query": {**site, kind: linking[: int(most)]}}, {}
    if q.get("prop") == "extlinks":
        links = double.lists.get("extlinks", [])
        start = int(q.get("elcontinue", "0"))
        page = {"title": q["titles"].split("|")[0], "extlinks": [{"url": u} for u in links[start : start + 2]]}
        more = {"continue": {"elcontinue": str(start + 2), "continue": "||"}} if start + 2 < len(links) else {}
        return 200, {**more, "query": {"pages": [page]}}, {}
    return 200, {"error": {"code": "badvalue", "info": "unsupported"}}, {"MediaWiki-API-Error": "badvalue"}


def _common_crawl(double: SearchDouble, asked: Asked) -> Answer:
    if asked.path.endswith("/collinfo.json"):
        crawls = ["CC-MAIN-2026-42", "CC-MAIN-2026-38"]
        return 200, [{"id": c, "name": c, "cdx-api": f"{double.url}/common-crawl/{c}-index"} for c in crawls], {}
    pattern = asked.query["url"].strip("*.")
    urls = [u for u in double.lists.get("common-crawl", []) if pattern.rstrip("/*") in u]
    if not urls:
        return 404, {"message": f"No Captures found for: {asked.query['url']}"}, {}
    return 200, "".join(json.dumps({"url": u}) + "\n" for u in urls), {"Content-Type": "text/x-ndjson"}


def _searxng(double: SearchDouble, asked: Asked) -> Answer:
    names = ("alpha", "beta", "gamma")
    if asked.path.endswith("/config"):
        listed = [{"name": n, "enabled": True, "categories": ["general"]} for n in names]
        return 200, {"engines": [*listed, {"name": "off", "enabled": False, "categories": ["general"]}]}, {}
    if asked.query["pageno"] != "1":
        return 200, {"results": [], "unresponsive_engines": []}, {}
    said: dict[str, list[tuple[str, int]]] = {}
    for name in names:
        for position, url in enumerate(double.found(name, asked.query["q"]), 1):
            said.setdefault(url, []).append((name, position))
    results = [{"url": u, "engines": [n for n, _ in v], "positions": [p for _, p in v][::-1]} for u, v in said.items()]
    tired = [[n, "Suspended: too many requests"] for n in names if double.faults.get(n) == "429"]
    return 200, {"query": asked.query["q"], "results": results, "unresponsive_engines": tired}, {}


def _json(double: SearchDouble, asked: Asked) -> Answer:
    """An engine behind a real SearXNG server: /json/NAME."""
    name = asked.path.split("/")[2]
    if double.faults.get(name) == "429":
        return 429, "", {}
    urls = double.found(name, asked.query["q"]) if asked.query.get("p", "1") == "1" else []
    return 200, {"hits": {"items": [{"link": u, "title": f"T {u}", "snip": "about it"} for u in urls]}}, {}


def _html(double: SearchDouble, asked: Asked) -> Answer:
    """The same as a page of results: /html/NAME."""
    name = asked.path.split("/")[2]
    urls = double.found(name, asked.query["q"]) if asked.query.get("p", "1") == "1" else []
    rows = "".join(f'<div class="r"><h3><a href="{u}">T {u}</a></h3><p>about it</p></div>' for u in urls)
    return 200, f"<html><body>{rows}</body></html>", {"Content-Type": "text/html"}


def _sitemap(double: SearchDouble, asked: Asked) -> Answer:
    here = f"{double.url}/sitemap"
    if asked.path.endswith("/index.xml"):
        inner = f"<sitemap><loc>{here}/pages.xml.gz</loc></sitemap><sitemap><loc>{here}/moved.xml</loc></sitemap>"
        return 200, f'<?xml version="1.0"?><sitemapindex>{inner}</sitemapindex>', {"Content-Type": "text/xml"}
    if asked.path.endswith("/moved.xml"):
        return 301, "", {"Location": f"{here}/pages.xml.gz"}
    rows = "".join(f"<url><loc>{u.replace('&', '&amp;')}</loc></url>" for u in double.lists.get("sitemap", []))
    body = gzip.compress(f"<urlset>{rows}</urlset>".encode())
    return 200, body, {"Content-Type": "application/gzip"}


ENGINES: dict[str, Callable[[SearchDouble, Asked], Answer]] = {
    "brave": _brave,
    "kagi": _kagi,
    "mojeek": _mojeek,
    "marginalia": _marginalia,
    "mediawiki": _mediawiki,
    "common-crawl": _common_crawl,
    "searxng": _searxng,
    "json": _json,
    "html": _html,
    "sitemap": _sitemap,
}


def _faulty(double: SearchDouble, fault: str) -> Answer:
    tired = {"Retry-After": double.retry_after}
    answers: dict[str, Answer] = {
        "429": (429, {"type": "ErrorResponse", "error": {"detail": "slow down"}}, tired),
        "429 once": (429, "", tired),
        "lag once": (200, {"error": {"code": "maxlag", "info": "Waiting for a database: 6 seconds lagged"}}, tired),
        "html": (200, "<!doctype html><title>Hello</title>", {"Content-Type": "text/html; charset=utf-8"}),
        "malformed": (200, '{"web": {"results": [', {"Content-Type": "application/json"}),
        "500": (500, "oh", {"Content-Type": "text/plain"}),
        "moved": (301, "", {"Location": f"{double.url}/elsewhere/"}),
    }
    return answers[fault]


def _echo(double: SearchDouble, asked: Asked, fault: str) -> Answer:
    """A refusal that repeats the key, in the place where this engine says what is wrong, or in the address."""
    query = urlencode(asked.query)
    if fault == "echo moved":
        return 301, "", {"Location": f"{double.url}/{query}?{query}"}
    headers = [asked.headers.get(name, "") for name in ("x-subscription-token", "authorization", "api-key")]
    said = f"no token {' '.join(headers)} {' '.join(asked.query.values())} {query}"
    shapes: dict[str, Any] = {
        "brave": {"error": {"detail": said}},
        "kagi": {"error": [{"message": said}]},
        "marginalia": {"error": said},
        "mojeek": {"response": {"status": said}},
    }
    return 200 if fault == "echo 200" else 403, shapes[asked.path.split("/")[1]], {}


def _answer(double: SearchDouble, asked: Asked) -> Answer:
    name = asked.path.split("/")[1]
    fault = double.faults.get(name, "")
    if fault.startswith("echo"):
        return _echo(double, asked, fault)
    if fault == "slow":
        double.released.wait()
    elif fault:
        if fault.endswith("once"):
            double.faults.pop(name)
        return _faulty(double, fault)
    return ENGINES[name](double, asked) if name in ENGINES else (404, {"error": "not found"}, {})


@contextmanager
def search_double(**lists: list[str]) -> Iterator[SearchDouble]:
    """The server, running while the block does."""
    double = SearchDouble(lists={name.replace("_", "-"): urls for name, urls in lists.items()})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            query = {name: values[-1] for name, values in parse_qs(address.query, keep_blank_values=True).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(address.path, query, headers, body)
            double.log.append(asked)
            status, content, more = _answer(double, asked)
            data = content if isinstance(content, bytes) else content.encode() if isinstance(content, str) else None
            data = json.dumps(content).encode() if data is None else data
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET  # noqa: N815 the library's name

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client that gave up is no error
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    double.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield double
    finally:
        double.released.set()
        server.shutdown()
        thread.join()
        server.server_close()
