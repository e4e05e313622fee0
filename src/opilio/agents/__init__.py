"""Agents: several crawlers with knowledge of their own over one frontier, one downloader and one politeness (S3)."""
