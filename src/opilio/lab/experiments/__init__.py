"""Experiments: declarations, replays, results."""
