"""SQL of verify, repair, compact and merge."""
