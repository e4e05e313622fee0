"""What is next: the queue of URLs, its orders, merge policies, limits, traps and politeness arithmetic."""
