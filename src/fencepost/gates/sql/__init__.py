"""The SQL gate: the mark is in the target's own database, and commits with the payload."""
