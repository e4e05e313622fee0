"""The engines: one module each, with its shapes of request and answer and its traps."""
