"""The embedded store: one file, many processes, one machine."""
