"""The gate of a Redis server."""
