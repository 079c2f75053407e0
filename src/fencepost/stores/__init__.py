"""Where it is kept: SQLite on one machine, PostgreSQL for many."""
