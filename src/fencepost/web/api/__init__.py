"""The HTTP API: every operation that the command line has, under /api/v1, with the same field names."""
