"""The queue of URLs to fetch: order, host leases, URL-seen test."""
