"""The content-seen test: exact and near duplicates."""
