"""The server behind a Redis gate: one connection, no second tries, and what its settings mean for the marks."""

from collections.abc import Iterator, Sequence
from typing import Any

from fencepost.gates.target_secrets import resolved
from fencepost.model.errors import GateUnreachable, Invalid, Misconfigured
from fencepost.ports.gate import Fetch

WAIT_SECONDS = 10.0
SCHEMES = ("redis://", "rediss://", "unix://")
BEST_EFFORT = "best effort, no gate: "


class RedisServer:
    """A connection that is opened at the first question."""

    def __init__(self, where: str, fetch: Fetch) -> None:
        self._url = resolved(where, fetch)
        if not self._url.startswith(SCHEMES):
            raise Invalid("a Redis gate's url is redis://host:6379/0, rediss://…, unix://…, or a reference, env:NAME.")
        self._client: Any = None

    def call(self, *command: object, doing: str) -> Any:  # noqa: ANN401  # whatever the command answers
        """Carry out one command."""
        return self._explained(doing, lambda: self._connected().execute_command(*command))

    def evaluate(self, script: str, keys: Sequence[object], args: Sequence[object], *, doing: str) -> Any:  # noqa: ANN401  # the library has no types
        """Carry out a script, by its hash where the server knows it."""
        return self._explained(doing, lambda: self._connected().register_script(script)(keys=keys, args=args))

    def warnings(self) -> Iterator[str]:
        """Yield why the marks may be forgotten: then a late write might pass after a crash."""
        settings = self._settings()
        if settings is None:
            yield f"{BEST_EFFORT}the server does not tell its settings (CONFIG GET), so it is not known how durable marks are."
            return
        if settings["appendonly"] != "yes":
            yield f"{BEST_EFFORT}appendonly is off, so a crash of the server loses marks. Set appendonly yes, appendfsync always."
        elif settings["appendfsync"] != "always":
            yield f"{BEST_EFFORT}appendfsync is {settings['appendfsync']}, so a crash may lose the last marks. Set appendfsync always."
        if settings["maxmemory-policy"].startswith("allkeys") and settings["maxmemory"] != "0":
            yield f"{BEST_EFFORT}maxmemory-policy {settings['maxmemory-policy']} may evict the marks. Set noeviction or volatile-…."
        replication = self.call("INFO", "replication", doing="look at the server")
        if replication.get("connected_slaves"):
            yield f"{BEST_EFFORT}it has replicas, and a failover to one may lose the last marks."

    def _settings(self) -> dict[str, str] | None:
        names = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
        try:
            found = {name: value for one in names for name, value in self.call("CONFIG GET", one, doing="look").items()}
        except GateUnreachable:
            raise
        except Misconfigured:
            return None  # forbidden, as with most hosted servers
        texts = {_text(name): _text(value) for name, value in found.items()}
        return texts if all(name in texts for name in names) else None

    def _connected(self) -> Any:  # noqa: ANN401  # the library has no types
        if self._client is None:
            redis = _library()
            self._client = redis.Redis.from_url(
                self._url,
                socket_timeout=WAIT_SECONDS,
                socket_connect_timeout=WAIT_SECONDS,
                # A second try after a lost answer might carry a payload out twice.
                retry=_never(),
                decode_responses=False,
                client_name="fencepost-gate",
            )
        return self._client

    def _explained(self, doing: str, ask: Any) -> Any:  # noqa: ANN401  # the library has no types
        redis = _library()
        try:
            return ask()
        except redis.AuthenticationError as error:
            raise Misconfigured(f"cannot {doing}: the server refuses the login: {error}.") from None
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            unknown = " Whether it was carried out is not known." if doing.startswith("write") else ""
            raise GateUnreachable(f"cannot {doing}: the server does not answer: {_first(error)}.{unknown}") from None
        except redis.RedisError as error:
            raise Misconfigured(f"cannot {doing}: {_first(error)}.") from None


def _library() -> Any:  # noqa: ANN401  # the library has no types
    try:
        import redis
    except ImportError:
        raise Misconfigured("gates of kind redis need the redis library: pip install 'fencepost[redis]'.") from None
    return redis


def _never() -> Any:  # noqa: ANN401  # the library has no types
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return Retry(NoBackoff(), 0)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
