"""S2: topics as Dewey classes."""
