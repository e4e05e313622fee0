"""Models of links and pages that learn during a crawl."""
