"""Words, terms, vectors and what is known of them. Pure: no I/O beyond the package's own data, no clock, no chance."""
