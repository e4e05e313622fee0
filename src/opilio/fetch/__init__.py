"""The HTTP client: one request, one response or one typed failure."""
