"""Rankers score the links of a page."""
