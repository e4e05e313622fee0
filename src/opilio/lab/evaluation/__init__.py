"""Metrics, oracle, statistics."""
