"""The gate of an object in an S3-compatible store."""
