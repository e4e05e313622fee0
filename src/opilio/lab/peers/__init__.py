"""Other crawlers, run on the same webs."""
