"""What a crawl is about: keywords with weights, how they grow, genres, senses, query logs."""
