"""The pages over real sockets, in a thread of their own, and a client for them."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import uvicorn

from checks.small_webs import BIRDS, PATIENCE_S, TRAINS, SmallWeb, crawl, page, served, settings_for, word
from opilio.core.clock import SystemClock
from opilio.web.app import Application, UiServerConfig, open_listener
from opilio.web.auth import AccessPolicy, RateLimiter
from opilio.web.collections import ServedCollections
from opilio.web.context import AppContext


class Answer(NamedTuple):
    status: int
    text: str
    headers: Mapping[str, str]

    @property
    def data(self) -> Any:
        return json.loads(self.text)


class Client:
    """Asks a server; redirects are not followed."""

    def __init__(self, base: str, secret: str = "") -> None:
        self.base = base
        self.secret = secret
        self._opener = urllib.request.build_opener(_Stay())

    def get(self, path: str, **headers: str) -> Answer:
        return self._ask(path, None, headers)

    def form(self, path: str, values: Mapping[str, object], **headers: str) -> Answer:
        """As a browser sends a form of ours."""
        body = urlencode({"secret": self.secret, **values}, doseq=True).encode()
        return self._ask(path, body, headers)

    def post(self, path: str, values: object, **headers: str) -> Answer:
        """JSON, as a program sends it; bytes as they are."""
        body = values if isinstance(values, bytes) else json.dumps(values).encode()
        return self._ask(path, body, {"Content_Type": "application/json", **headers})

    def _ask(self, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(f"{self.base}{path}", body, names)
        try:
            with self._opener.open(request, timeout=PATIENCE_S) as answer:
                return Answer(answer.status, answer.read().decode(), answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                # A plain dictionary is case-sensitive: names as the tests write them.
                named = {name.title(): value for name, value in error.headers.items()}
                return Answer(error.code, error.read().decode(), named)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@contextmanager
def pages_of(folders: Sequence[Path], home: Path, **options: Any) -> Iterator[Client]:
    """The pages of these collections while the block runs. `options`: token, names, read_only,
    allow_local, searches."""
    access = AccessPolicy(token=options.pop("token", ""), host_names=options.pop("names", ()))
    searches = options.pop("searches", RateLimiter(rate_s=1e6, burst=1_000_000))
    pool = AppContext(ServedCollections(folders, home), SystemClock(), **options)
    pool.search_limiter = searches
    application = Application(pool, access)
    listener = open_listener(UiServerConfig(port=0))
    config = uvicorn.Config(application.asgi(), log_level="error", lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield Client(f"http://127.0.0.1:{listener.getsockname()[1]}", application.access.form_secret)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


def mixed_web(hosts: int = 3, pages: int = 12) -> SmallWeb:
    """Sites about birds with pages about trains between, all within reach."""
    answers = {}
    for h in range(hosts):
        for p in range(pages):
            own = [f"/{(2 * p + 1) % pages}.html", f"/{(2 * p + 2) % pages}.html"]
            text = TRAINS if p % 3 == 2 else BIRDS
            url = f"http://h{h}.example/{p}.html"
            body = f"{text} {word(h)} {word(p)} {word(h * pages + p)}"
            answers[url] = page(
                body, [*own, f"http://h{(h + 1) % hosts}.example/{p}.html"], f"Page {word(h * pages + p)}"
            )
    return SmallWeb(answers)


def crawled(folder: Path, strategy: str = "opilio", source: SmallWeb | None = None, **more: Any) -> Path:
    """A collection of such a web."""
    with served(source or mixed_web()) as server, ThreadPoolExecutor(1) as thread:
        tree = settings_for(server, ["http://h0.example/0.html"], strategy=strategy, **more)
        thread.submit(crawl, folder, tree).result()  # a browser that is driven from this thread has its loop there
    return folder
