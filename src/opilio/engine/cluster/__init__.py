"""A crawl by several workers that share a collection in PostgreSQL."""
