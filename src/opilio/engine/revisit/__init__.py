"""Fetching stored pages again: when, and what changed."""
