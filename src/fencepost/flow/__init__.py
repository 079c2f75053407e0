"""What happens: one file per arrow; no loops, no sleeping."""
