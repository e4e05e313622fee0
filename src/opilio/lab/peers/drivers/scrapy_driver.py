"""Runs inside Scrapy's own environment, never inside ours: breadth-first over every link, one request at a time.

python scrapy_driver.py JOB.json      {"proxy", "seeds", "keywords", "pages"}
"""

# mypy: ignore-errors

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import ClassVar

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor

JOB = json.loads(Path(sys.argv[1]).read_text("utf-8"))


class Everything(scrapy.Spider):
    """Follows every link of every page, as Scrapy's documentation shows it."""

    name = "everything"
    links = LinkExtractor()
    custom_settings: ClassVar = {
        # breadth-first, by Scrapy's FAQ
        "DEPTH_PRIORITY": 1,
        "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
        "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
        "CONCURRENT_REQUESTS": 1,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_DELAY": 0,
        "ROBOTSTXT_OBEY": False,
        "RETRY_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "ERROR",
    }

    async def start(self) -> AsyncIterator[scrapy.Request]:
        for url in JOB["seeds"]:
            yield scrapy.Request(url)

    def parse(self, response: scrapy.http.Response) -> Iterator[scrapy.Request]:
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in self.links.extract_links(response):
                yield response.follow(link)


os.environ["http_proxy"] = os.environ["https_proxy"] = JOB["proxy"]  # where Scrapy's proxy middleware looks
process = CrawlerProcess()
process.crawl(Everything)
process.start()
