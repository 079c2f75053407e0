"""Cells in Redis: one key each, and a script that compares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.cells.time_limit import within
from fencepost.model.cell import SIZE_MAX
from fencepost.model.errors import Misconfigured, StoreUnavailable
from fencepost.ports.cells import Answer, CellFacts, Read, SwapOutcome

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

TTL_SECONDS, POLL_SECONDS = 30.0, 1.0
PREFIX = "fencepost:cell:"
FORGETFUL = (
    "the Redis server writes no append-only file, so that a crash of it may forget leases and fences; set appendonly yes, "
    "appendfsync always."
)
SWAP = """
local found = redis.call('GET', KEYS[1])
local tag = found and redis.sha1hex(found) or ''
if tag ~= ARGV[1] then return '' end
if ARGV[2] == '' then redis.call('DEL', KEYS[1]) return 'gone' end
redis.call('SET', KEYS[1], ARGV[2])
return redis.sha1hex(ARGV[2])
"""
READ = """
local now = redis.call('TIME')
local answer = {now[1], now[2]}
for _, key in ipairs(KEYS) do
    local found = redis.call('GET', key)
    answer[#answer + 1] = found and string.sub(found, 1, tonumber(ARGV[1])) or ''
    answer[#answer + 1] = found and redis.sha1hex(found) or ''
end
return answer
"""


class RedisCells:
    """Keys of one server."""

    def __init__(self, url: str, *, shown: str) -> None:
        self._url = url
        self._clients: dict[float, Any] = {}
        self.facts = CellFacts("redis", shown, TTL_SECONDS, POLL_SECONDS)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        """Get the keys, and the server's clock, in one step."""
        keys = [f"{PREFIX}{name}" for name in names]
        client = self._client(seconds)
        enough = SIZE_MAX + 1  # to see that it is too large to be a cell
        second, part, *found = self._asked(
            client, lambda: client.register_script(READ)(keys=keys, args=[enough]), seconds
        )
        store_us = int(second) * 1_000_000 + int(part)
        pairs = zip(found[::2], found[1::2], strict=True)
        return {
            name: Read(document or None, tag.decode() or None, store_us)
            for name, (document, tag) in zip(names, pairs, strict=True)
        }

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        """Compare and set in one step."""
        redis = _library()
        client = self._client(seconds)
        try:
            key, args = f"{PREFIX}{name}", [tag or "", document or b""]
            answer = _whole(client, lambda: client.register_script(SWAP)(keys=[key], args=args), seconds)
        except redis.AuthenticationError as error:
            raise Misconfigured(f"{self.facts.url} refuses the login: {_first(error)}.") from None
        except redis.ResponseError as error:
            raise Misconfigured(f"{self.facts.url}: cannot write: {_first(error)}.") from None
        except (redis.RedisError, OSError) as error:
            return SwapOutcome(None, Answer.UNKNOWN, _first(error))
        return SwapOutcome(answer.decode()) if answer else SwapOutcome(None, Answer.CONFLICT)

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        """Return the names of the keys."""
        client = self._client(seconds)
        found = self._asked(client, lambda: list(client.scan_iter(match=f"{PREFIX}{prefix}*", count=1000)), seconds)
        return sorted({key.decode().removeprefix(PREFIX) for key in found})

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        """Refuse a server that evicts keys, and say where one may lose them."""
        settings = self._settings(seconds)
        if settings is None:
            return (
                "the Redis server does not tell its settings, so it is not known whether leases outlive its crash.",
            )
        if settings.get("maxmemory-policy", "").startswith("allkeys"):
            raise Misconfigured(
                f"{self.facts.url} may evict leases: its maxmemory-policy is {settings['maxmemory-policy']}. "
                "Set noeviction or volatile-…."
            )
        if settings.get("appendonly") != "yes":
            return (FORGETFUL,)
        return ()

    def close(self) -> None:
        """Let go of connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _settings(self, seconds: float) -> dict[str, str] | None:
        redis = _library()
        client = self._client(seconds)
        try:
            names = ("appendonly", "maxmemory-policy")
            found = _whole(client, lambda: [client.config_get(name) for name in names], seconds)
        except (redis.ConnectionError, OSError) as error:
            raise self._unreachable(error) from None
        except redis.RedisError:
            return None  # forbidden, as with most hosted servers
        return {_text(name): _text(value) for one in found for name, value in one.items()}

    def _asked(self, client: Any, ask: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401  # the library has no types
        redis = _library()
        try:
            return _whole(client, ask, seconds)
        except redis.AuthenticationError as error:
            raise Misconfigured(f"{self.facts.url} refuses the login: {_first(error)}.") from None
        except redis.ResponseError as error:
            raise Misconfigured(f"{self.facts.url}: cannot read: {_first(error)}.") from None
        except (redis.RedisError, OSError) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: Exception) -> StoreUnavailable:
        return StoreUnavailable(f"{self.facts.url} cannot be reached: {_first(error)}.")

    def _client(self, seconds: float) -> Any:  # noqa: ANN401  # redis-py's methods answer now or later
        if seconds not in self._clients:
            redis = _library()
            from redis.backoff import NoBackoff
            from redis.retry import Retry

            try:
                self._clients[seconds] = redis.Redis.from_url(
                    self._url,
                    socket_timeout=seconds,
                    socket_connect_timeout=seconds,
                    retry=Retry(NoBackoff(), 0),  # whether a swap was carried out is found out by reading
                    client_name="fencepost-cells",
                )
            except ValueError as error:
                raise Misconfigured(f"{self.facts.url} is no address of a Redis server: {error}.") from None
        return self._clients[seconds]


def _whole(client: Any, ask: Callable[[], Any], seconds: float) -> Any:  # noqa: ANN401  # the library has no types
    """Ask, for so long at most; a server that is late is hung up on."""
    return within(seconds, ask, hang_up=lambda: client.connection_pool.disconnect(inuse_connections=True))


def _library() -> Any:  # noqa: ANN401  # the library has no types
    try:
        import redis
    except ImportError:
        raise Misconfigured("a store in Redis needs the redis library: pip install 'fencepost[redis]'.") from None
    return redis


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _first(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
