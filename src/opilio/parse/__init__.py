"""From bytes to a page: encoding, links, text blocks, metadata."""
