"""Export formats that need more than a writer of rows: Markdown, archives."""
