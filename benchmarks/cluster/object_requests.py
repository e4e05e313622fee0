"""Requests to object storage per page: of a crawl, and of an export on a machine that has no copies.

    python benchmarks/cluster/object_requests.py [PAGES]

Starts its own PostgreSQL server and S3 server (moto) and serves its own web, whose pages have some 15 KB compressed.
"""

import asyncio
import logging
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from checks.object_stores import running_s3
from checks.postgres_server import running_server
from checks.small_webs import SmallWeb, grid, served, settings_for
from opilio.api.crawl_session import open_crawl
from opilio.fetch.decoding import RecordedResponse
from opilio.manage.export import export_to_file
from opilio.store.collection import open_readonly
from opilio.store.page_selection import PageFilter
from opilio.store.postgres.collection import folder_of

HOSTS, TEXT_BYTES = 20, 20_000


class RequestCounter(logging.Handler):
    """Counts the requests that the server logs, by method."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def emit(self, record: logging.LogRecord) -> None:
        self.counts[record.getMessage().partition('"')[2].split(" ")[0]] += 1


def main() -> None:
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    web = grid(HOSTS, pages // HOSTS)
    rng = random.Random(1)
    for url, answer in web.items():
        filling = "".join(rng.choices("abcdefghijklmnopqrstuvwxyz ", k=TEXT_BYTES)).encode()
        body = answer.body.replace(b"</body>", b"<p>" + filling + b"</p></body>")
        web[url] = RecordedResponse(answer.status, answer.headers, body)
    with tempfile.TemporaryDirectory() as place, running_server() as server, running_s3() as storage:
        os.environ["XDG_CACHE_HOME"] = f"{place}/cache"
        counter = RequestCounter()
        logging.getLogger("werkzeug").handlers = [counter]
        logging.getLogger("werkzeug").setLevel(logging.INFO)
        folder = folder_of(server.new_schema())
        with served(SmallWeb(web)) as source:
            stop = {"pages": 0, "patience_s": 2.0}
            store = {"objects": storage.address}
            tree = settings_for(source, ["http://h0.example/0.html"], stop=stop, store=store)
            asyncio.run(crawl(folder, tree))
        with open_readonly(folder) as collection:
            sql = "SELECT (SELECT count(*) FROM page), count(*), count(DISTINCT object), sum(length) FROM warc_chunk"
            pages, chunks, objects, size = collection.connection.execute(sql).fetchone()
        report("crawl", counter, pages)
        print(f"{size / pages / 1000:.1f} KB per page, {pages / chunks:.0f} pages per chunk, {objects} objects")
        for path in folder.glob("pages-*"):
            path.unlink()
        written = export_to_file(folder, Path(place) / "out.warc.gz", "warc", PageFilter())
        report("export", counter, written)
        shutil.rmtree(folder)


async def crawl(folder: Path, tree: dict[str, object]) -> None:
    async with open_crawl(folder, tree, "benchmark", print, print) as session:
        await session.engine.run()


def report(what: str, counter: RequestCounter, pages: int) -> None:
    print(f"{what}: {pages} pages, {counter.counts.total() / pages:.4f} requests per page: {dict(counter.counts)}")
    counter.counts.clear()


if __name__ == "__main__":
    main()
