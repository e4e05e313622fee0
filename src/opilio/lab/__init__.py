"""Experiments on offline webs with labels."""
