"""The store stage: a collection on disk (SQLite beside WARC files), read and written."""
