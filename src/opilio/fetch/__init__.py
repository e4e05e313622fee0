"""Asking the web: one request, one answer or typed failure, and the rules of robots.txt."""
