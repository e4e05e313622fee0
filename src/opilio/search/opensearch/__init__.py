"""Search on an OpenSearch server instead of the embedded index: the same query syntax, filters and facets."""
