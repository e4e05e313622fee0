"""One module per search engine or URL index."""
