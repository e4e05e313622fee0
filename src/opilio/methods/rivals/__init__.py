"""Learning crawlers of other authors, built from their papers for comparison in the lab."""
