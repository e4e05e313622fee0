"""Serves an offline web over HTTP."""
