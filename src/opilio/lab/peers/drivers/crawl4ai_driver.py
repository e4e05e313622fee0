"""Runs inside crawl4ai's own environment, never inside ours: its best-first strategy with the keyword scorer.

python crawl4ai_driver.py JOB.json      {"proxy", "seeds", "keywords", "pages", "start"}

Its deep crawl begins at one address: `start` is a page that links to all seeds and that is not counted.
"""

# mypy: ignore-errors

import asyncio
import json
import sys
from pathlib import Path

from crawl4ai import AsyncWebCrawler, CacheMode, CrawlerRunConfig, ProxyConfig
from crawl4ai.async_crawler_strategy import AsyncHTTPCrawlerStrategy
from crawl4ai.deep_crawling import BestFirstCrawlingStrategy
from crawl4ai.deep_crawling.scorers import KeywordRelevanceScorer

JOB = json.loads(Path(sys.argv[1]).read_text("utf-8"))


async def main() -> None:
    best_first = BestFirstCrawlingStrategy(
        max_depth=1000,
        include_external=True,
        max_pages=JOB["pages"] + 1,
        url_scorer=KeywordRelevanceScorer(keywords=JOB["keywords"]),
    )
    config = CrawlerRunConfig(
        deep_crawl_strategy=best_first,
        cache_mode=CacheMode.BYPASS,
        proxy_config=ProxyConfig(server=JOB["proxy"]),
        stream=True,
        verbose=False,
        semaphore_count=1,
    )
    async with AsyncWebCrawler(crawler_strategy=AsyncHTTPCrawlerStrategy(), verbose=False) as crawler:
        async for _ in await crawler.arun(JOB["start"], config=config):
            pass


asyncio.run(main())
