"""Connections to one PostgreSQL server: how to reach it, and never for ever."""

import logging
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from fencepost.model.errors import Invalid

RV = TypeVar("RV")

# What libpq does unless the URL says otherwise: a peer that is gone without a word is noticed in about ten seconds.
DEFAULTS: dict[str, str] = {
    "application_name": "fencepost",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "2",
    "tcp_user_timeout": "9000",
}
SILENCE_SECONDS = 10.0


class Silent(psycopg.OperationalError):
    """The server has not said a word for too long; TCP may still believe in it."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that does not wait for ever, also not for a peer whose kernel answers in its stead."""

    silence_seconds = SILENCE_SECONDS
    said_pid: int | None = None  # the server process that answered when it was asked last

    def wait(self, gen: PQGen[RV], *args: Any, **options: Any) -> RV:  # noqa: ANN401 - psycopg's own
        """Wait as psycopg does, which looks up every tenth of a second, but count those in which nothing came."""
        return super().wait(_bounded(gen, patience=round(self.silence_seconds / 0.1)), *args, **options)

    @property
    def answered(self) -> bool:
        """Whether the server has answered everything that it was asked."""
        return self.info.transaction_status not in (TransactionStatus.ACTIVE, TransactionStatus.UNKNOWN)


def _bounded(gen: PQGen[RV], patience: int) -> PQGen[RV]:
    silent = 0
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            silent = 0 if ready else silent + 1
            if silent > patience:
                raise Silent("no answer")
            wanted = gen.send(ready)
    except StopIteration as end:
        answer: RV = end.value
        return answer


# What psycopg logs about a connection that broke, such as "error ignored terminating <psycopg.Pipeline [BAD]>", we tell
# ourselves, in a sentence; raw on a person's terminal it is no help. A program that sets logging up still gets it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class PostgresServer(NamedTuple):
    """Where the server is, with the secrets in `parameters` only."""

    parameters: dict[str, str]
    url: str  # what may be shown

    def connect(self) -> Connection:
        """Open a connection without any state of its own, so that a transaction pooler may stand between."""
        return Connection.connect(make_conninfo(**self.parameters), autocommit=True, prepare_threshold=None)

    def without_secrets(self, text: str) -> str:
        """Return a text in which the password, should a library have repeated it, is masked."""
        secret = self.parameters.get("password")
        return text.replace(secret, "***") if secret else text


def at(url: str) -> PostgresServer:
    """Read a URL as libpq does; passwords and TLS are its business."""
    try:
        given = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    except psycopg.ProgrammingError:
        # Not repeated: what libpq could not read may well be the password.
        raise Invalid(
            "the PostgreSQL URL cannot be read; write postgresql://user@host:5432/database, "
            "and @ : / % in a password as %40 %3A %2F %25."
        ) from None
    return PostgresServer(DEFAULTS | given, shown(given))


def shown(given: dict[str, str]) -> str:
    """Return the URL without anything secret."""
    user, host = given.get("user", ""), given.get("host", given.get("hostaddr", ""))
    port, database = given.get("port", ""), given.get("dbname", "")
    return f"postgresql://{user}{'@' if user else ''}{host}{':' if port else ''}{port}/{database}"
