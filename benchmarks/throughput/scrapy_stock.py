"""Scrapy as its documentation writes a crawler: LinkExtractor, XPath for the text, 64 requests at once, robots on.

python scrapy_stock.py TEXT_FILE SEED...        Prints how many pages it read.
"""

import json
import sys

from scrapy import Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse
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


class Stock(Spider):
    name = "stock"
    pages = 0

    def __init__(self, text: str, seeds: list[str]) -> None:
        super().__init__()
        self.start_urls = seeds
        self.links = LinkExtractor()
        self.text = open(text, "w", encoding="utf-8")  # noqa: SIM115 - closed at the end of the process

    def parse(self, response):
        if not isinstance(response, HtmlResponse):
            return
        self.pages += 1
        self.text.write(" ".join(response.xpath("//body//text()").getall()) + "\n")
        for link in self.links.extract_links(response):
            yield response.follow(link, self.parse)

    def closed(self, _reason):
        print(json.dumps({"pages": self.pages}))


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS)
    process.crawl(Stock, sys.argv[1], sys.argv[2:])
    process.start()
