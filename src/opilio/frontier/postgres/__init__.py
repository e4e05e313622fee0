"""The frontier in a PostgreSQL database, for any number of workers."""
