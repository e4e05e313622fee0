"""Scrapy as its documentation writes a crawler: LinkExtractor, XPath for the text, 64 requests at once, robots on.

python scrapy_stock.py TEXT_FILE SEED...        Prints how many pages it read.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor

SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": True,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "COOKIES_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
}


class Stock(Spider):  # type: ignore[misc]
    name = "stock"
    pages = 0

    def __init__(self, text: str, seeds: list[str]) -> None:
        super().__init__()
        self.start_urls = seeds
        self.links = LinkExtractor()
        self.text = Path(text).open("w", encoding="utf-8")  # noqa: SIM115 - closed at the end of the process

    async def start(self) -> AsyncIterator[Request]:
        for url in self.start_urls:
            yield Request(url, self.parse)  # Scrapy's own way would read every seed twice

    def parse(self, response: Response) -> Iterator[Request]:
        if not isinstance(response, HtmlResponse):
            return
        self.pages += 1
        self.text.write(" ".join(response.xpath("//body//text()").getall()) + "\n")
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse)

    def closed(self, _reason: str) -> None:
        print(json.dumps({"pages": self.pages}))


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS)
    process.crawl(Stock, sys.argv[1], sys.argv[2:])
    process.start()
