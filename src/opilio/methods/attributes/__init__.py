"""S1: link relevance learned from four attributes."""
