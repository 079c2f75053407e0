"""The store for many machines."""

from fencepost.model.errors import Misconfigured

try:
    import psycopg  # noqa: F401 - asked for here, so that its absence is a sentence
except ImportError:
    raise Misconfigured(
        "a store on PostgreSQL needs the package psycopg; install it with: pip install 'fencepost[postgres]'"
    ) from None
