"""S3: several agents crawl together."""
