"""Where seeds come from: search engines, sitemaps, files."""
