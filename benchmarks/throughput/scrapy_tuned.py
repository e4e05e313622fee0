"""Scrapy made as fast as it goes without changing it: uvloop, selectolax for links and text, no unneeded middleware.

python scrapy_tuned.py TEXT_FILE SEED...        Prints how many pages it read.
"""

import json
import sys
from urllib.parse import urldefrag, urljoin

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from selectolax.lexbor import LexborHTMLParser

_OFF = "scrapy.downloadermiddlewares."
_SPIDER_OFF = "scrapy.spidermiddlewares."
SETTINGS = {
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 64,
    "DOWNLOAD_DELAY": 0,
    "ROBOTSTXT_OBEY": True,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
    "DOWNLOADER_MIDDLEWARES": {
        _OFF + "httpauth.HttpAuthMiddleware": None,
        _OFF + "cookies.CookiesMiddleware": None,
        _OFF + "httpproxy.HttpProxyMiddleware": None,
        _OFF + "httpcache.HttpCacheMiddleware": None,
        _OFF + "stats.DownloaderStats": None,
    },
    "SPIDER_MIDDLEWARES": {
        _SPIDER_OFF + "referer.RefererMiddleware": None,
        _SPIDER_OFF + "urllength.UrlLengthMiddleware": None,
    },
}


class Tuned(Spider):
    name = "tuned"

    def __init__(self, text: str, seeds: list[str]) -> None:
        super().__init__()
        self.start_urls = seeds
        self.pages = 0
        self.seen = set(seeds)
        self.text = open(text, "w", encoding="utf-8")  # noqa: SIM115 - closed at the end of the process

    def parse(self, response):
        self.pages += 1
        tree = LexborHTMLParser(response.body)
        self.text.write((tree.body.text() if tree.body else "") + "\n")
        for href in {node.attributes.get("href") for node in tree.css("a[href]")}:
            if not href or href[0] == "#":
                continue
            url = urldefrag(urljoin(response.url, href))[0]
            if url.startswith("http") and url not in self.seen:
                self.seen.add(url)
                yield Request(url, self.parse, dont_filter=True)

    def closed(self, _reason):
        print(json.dumps({"pages": self.pages}))


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS)
    process.crawl(Tuned, sys.argv[1], sys.argv[2:])
    process.start()
