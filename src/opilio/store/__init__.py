"""A collection on disk: SQLite tables, WARC files, locks, the read model."""
