"""Opilio: a focused web crawler and topical search engine."""

__version__ = "0.1.0"
