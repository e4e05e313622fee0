"""Crawlers of others under our rules: each in an environment of its own, against the served web."""
