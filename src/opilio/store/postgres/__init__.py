"""A collection in a PostgreSQL database: connection, schema, leases of roles."""
