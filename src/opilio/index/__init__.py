"""Full-text search over collections: derived data, made from the store and thrown away without loss."""
