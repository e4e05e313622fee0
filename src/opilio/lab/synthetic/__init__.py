"""Generated webs."""
