"""The crawl loop: lease, fetch, analyze, commit, learn."""
