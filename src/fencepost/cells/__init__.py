"""Leases in stores that can only compare and swap: one algorithm, and an adapter for each kind of store."""
