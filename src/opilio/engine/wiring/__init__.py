"""The composition root: builds a crawl from its settings."""
