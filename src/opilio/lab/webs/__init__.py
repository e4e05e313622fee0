"""Offline webs: pages, labels, link graph."""
