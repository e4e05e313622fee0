"""Scrapy with uvloop and selectolax and nothing else changed: 64 requests at once, robots on.

python scrapy_tuned.py TEXT_FILE SEED...        Prints how many pages it read.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from scrapy_stock import SETTINGS
from selectolax.lexbor import LexborHTMLParser


class Tuned(Spider):  # type: ignore[misc]
    name = "tuned"

    def __init__(self, text: str, seeds: list[str]) -> None:
        super().__init__()
        self.start_urls = seeds
        self.pages = 0
        self.text = Path(text).open("w", encoding="utf-8")  # noqa: SIM115 - closed at the end of the process

    async def start(self) -> AsyncIterator[Request]:
        for url in self.start_urls:
            yield Request(url, self.parse)  # Scrapy's own way would read every seed twice

    def parse(self, response: Response) -> Iterator[Request]:
        self.pages += 1
        tree = LexborHTMLParser(response.body)
        self.text.write((tree.body.text() if tree.body else "") + "\n")
        hrefs = {(node.attributes.get("href") or "").partition("#")[0] for node in tree.css("a[href]")}
        for href in hrefs - {""}:
            yield response.follow(href, self.parse)

    def closed(self, _reason: str) -> None:
        print(json.dumps({"pages": self.pages}))


if __name__ == "__main__":
    loop = {
        "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
        "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    }
    process = CrawlerProcess(SETTINGS | loop)
    process.crawl(Tuned, sys.argv[1], sys.argv[2:])
    process.start()
