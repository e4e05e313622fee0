"""What a crawl is about: topics, their weight tables, how tables grow, genres and senses. Pure."""
