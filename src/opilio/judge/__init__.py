"""Judges decide whether a page is on topic."""
