"""The pages: search, live crawl, why, topic, runs, over HTTP for people and machines. Reads from the store only."""
