"""The frontier on disk."""
