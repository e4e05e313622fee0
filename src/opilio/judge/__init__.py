"""Is a page on topic? One protocol, several ways; pure."""
