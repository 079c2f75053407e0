"""PostgreSQL's errors, each as one sentence that says what to do."""

import psycopg

from fencepost.model.errors import StoreUnavailable
from fencepost.stores.postgres.server import PostgresServer, Silent
from fencepost.stores.transaction import RowRefused

SENTENCES = {
    "25006": "answers read-only, as a standby does; name the primary, or add target_session_attrs=read-write.",
    "42501": "does not let this role do that ({said}); have the owner run 'fencepost store migrate' and grant it the "
    "rights listed in docs/how-to/use-postgresql.md.",
    "42P01": "has lost its Fencepost tables; restore a backup with: fencepost store restore FILE",
    "3F000": "has lost its Fencepost tables; restore a backup with: fencepost store restore FILE",
    "42703": "no longer has what this Fencepost asks for ({said}): a newer one has migrated it. Upgrade this one; there is no "
    "way back for the store.",
    "53100": "has no disk space left; nothing was changed. Free some space and try again.",
    "53200": "is out of memory ({said}); nothing was changed.",
    "53300": "has no connection left; raise max_connections, or put a pooler before it.",
    "55P03": "had a row locked by another session for longer than we wait; find it with: "
    "SELECT * FROM pg_stat_activity WHERE state <> 'idle'",
    "57014": "took longer for a statement than we wait; nothing was changed.",
    "40001": "had too many writers at once ({said}); nothing was changed. Try again.",
    "40P01": "had too many writers at once ({said}); nothing was changed. Try again.",
}

# libpq gives no SQLSTATE for a connection that failed, only the server's words, in English unless it was set otherwise.
WORDS = {
    "password authentication failed": "refuses the password; check user and password, or ~/.pgpass.",
    "no password supplied": "asks for a password; put it into ~/.pgpass, PGPASSWORD or the URL.",
    "statement pooling mode": "is behind a pooler in statement mode, which forbids transactions; "
    "set pool_mode = transaction.",
    "too many clients": SENTENCES["53300"],
    "remaining connection slots": SENTENCES["53300"],
    "too many connections": SENTENCES["53300"],
    "no more connections allowed": SENTENCES["53300"],
    "does not exist": "cannot be opened ({said}); create it, or correct the URL.",
    "starting up": "is starting up; try again in a moment.",
    "shutting down": "is shutting down; try again later.",
    "server closed the connection unexpectedly": "closed the connection: it has crashed, or was restarted. Try again in a moment.",
    "Connection refused": "cannot be reached: no server listens there. Check host and port, and that the server runs.",
    "could not translate host name": "cannot be reached: its host name is unknown.",
    "timeout expired": "cannot be reached: no answer in time. Check host and port, and the firewall.",
}


def unavailable(server: PostgresServer, error: psycopg.Error) -> StoreUnavailable:
    """Return what to tell a person."""
    said = server.without_secrets(_first_line(error))
    if isinstance(error, Silent):
        return StoreUnavailable(f"{server.url} has gone silent; nothing is known to be wrong with the store itself.")
    if isinstance(error, psycopg.DataError | psycopg.IntegrityError):
        return RowRefused(f"{server.url} does not take it: {said}.")
    sentence = SENTENCES.get(error.sqlstate or "") or _by_words(str(error))
    return StoreUnavailable(f"{server.url} {(sentence or 'cannot be used: {said}.').format(said=said)}")


def unknown_outcome(server: PostgresServer) -> StoreUnavailable:
    """Return what to say when COMMIT was sent and no answer came."""
    return StoreUnavailable(
        f"{server.url} was lost while it committed: whether the last change was made is unknown. "
        "Ask again in the same way; what was granted is then found."
    )


def _by_words(text: str) -> str | None:
    return next((sentence for words, sentence in WORDS.items() if words in text), None)


def _first_line(error: psycopg.Error) -> str:
    """Return what happened; the lines after it are libpq's guesses at the reason."""
    lines = (error.diag.message_primary or str(error)).strip().splitlines()
    return lines[0].strip().rstrip(".") if lines else type(error).__name__
