"""robots.txt, delays, per-host throttling, crawler traps."""
