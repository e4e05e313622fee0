"""The nouns of the crawl: records, protocols, events, errors, clocks. Imports nothing of ours."""
