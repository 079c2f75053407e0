"""What comes by itself: a run's log as it is written, and a word whenever something of the tenant's has changed.

Both are server-sent events. A stream ends after a while and is taken up again by the browser, with the place that it
had come to; so a session that is over, or was revoked, does not go on listening.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from fencepost.model.errors import FencepostError, QueueFull, Unauthorised
from fencepost.model.run import RunState
from fencepost.operations.attempt_logs import log_of
from fencepost.operations.log_reading import LogPart, LogReading
from fencepost.operations.phrases import readable
from fencepost.operations.run_queries import SeenRun, Store, ending_words, find_run, list_audit, show
from fencepost.operations.web_keys import Caller, is_in_force
from fencepost.web.door import Door, caller_of, door_of

router = APIRouter(include_in_schema=False)
STREAMS_MAX, TENANT_MAX, KEY_MAX = 400, 100, 40
TENANT_SURE = 5  # that a tenant gets, however many the others have open
READ_SECONDS, LOOK_SECONDS, BEAT_SECONDS = 0.4, 2.0, 15.0
HEADERS = {"X-Accel-Buffering": "no"}
AGAIN = "retry: 1500\n\n"


@dataclass(slots=True)
class Streams:
    """How many listen, of each tenant and with each key, and what was last heard for each tenant."""

    tenants: Counter[str] = field(default_factory=Counter)
    keys: Counter[str] = field(default_factory=Counter)
    newest: dict[str, tuple[float, int]] = field(default_factory=dict)

    def check(self, caller: Caller) -> None:
        """Refuse one more stream to a key or a tenant that has enough; one tenant's leave the others theirs."""
        mine = self.tenants[caller.tenant]
        full = mine >= TENANT_MAX or (self.tenants.total() >= STREAMS_MAX and mine >= TENANT_SURE)
        if full or self.keys[caller.key_id] >= KEY_MAX:
            raise QueueFull("too many live pages are open already; close one, or reload this one now and then.")

    def count(self, caller: Caller, number: int) -> None:
        """Count one more, or one less."""
        for counter, name in ((self.tenants, caller.tenant), (self.keys, caller.key_id)):
            counter[name] += number
            if not counter[name]:
                del counter[name]


STREAMS = Streams()


@router.get("/live")
async def live(request: Request) -> Response:
    """Tell whenever something has changed; the page then asks for itself anew."""
    return _stream(_changes(request), caller_of(request))


@router.get("/runs/{run_id}/stream")
async def log_stream(request: Request, run_id: str) -> Response:
    """Send what a run prints, from where the browser has come to."""
    door, caller = door_of(request), caller_of(request)
    run = await door.desk.ask(find_run, caller.tenant, run_id)
    place = request.headers.get("last-event-id") or request.query_params.get("place", "")
    return _stream(_log(request, run.id, place[:100]), caller)


def _stream(events: AsyncIterator[str], caller: Caller) -> Response:
    STREAMS.check(caller)
    return StreamingResponse(_counted(events, caller), media_type="text/event-stream", headers=HEADERS)


async def _counted(events: AsyncIterator[str], caller: Caller) -> AsyncIterator[str]:
    STREAMS.count(caller, 1)
    try:
        yield AGAIN
        async for one in events:
            yield one
    except Unauthorised:
        yield event("bye", "the session is over")
    except FencepostError:
        pass  # the store is away for now; the browser comes back, and is told then
    finally:
        STREAMS.count(caller, -1)


def event(kind: str, data: object, place: str = "") -> str:
    """Spell an event; its data is JSON on one line, so that no text can end it early."""
    return f"{f'id: {place}' if place else ':'}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"


async def _changes(request: Request) -> AsyncIterator[str]:
    door, caller = door_of(request), caller_of(request)
    loop = asyncio.get_running_loop()
    end, beat, known = loop.time() + door.stream_seconds, loop.time(), -1
    while loop.time() < end and not door.is_leaving():
        newest = await _newest(door, caller.tenant, caller.key_id)
        if newest != known:
            yield event("change" if known >= 0 else "hello", newest)
            known, beat = newest, loop.time()
        elif loop.time() - beat > BEAT_SECONDS:
            yield ":\n\n"
            beat = loop.time()
        await asyncio.sleep(min(LOOK_SECONDS, door.stream_seconds))


async def _newest(door: Door, tenant: str, key_id: str) -> int:
    """Return the newest audit entry, which every decision leaves; asked once for all that listen."""
    now = asyncio.get_running_loop().time()
    at, newest = STREAMS.newest.get(tenant, (-LOOK_SECONDS, 0))
    if now - at < LOOK_SECONDS / 2:
        await door.desk.ask(_still_known, key_id)
        return newest
    newest = await door.desk.ask(_look_newest, tenant, key_id)
    STREAMS.newest[tenant] = (now, newest)
    return newest


async def _log(request: Request, run_id: str, place: str) -> AsyncIterator[str]:
    door, caller = door_of(request), caller_of(request)
    loop = asyncio.get_running_loop()
    end, beat = loop.time() + door.stream_seconds, loop.time()
    following = _Following(door.log_folder, place)
    try:
        while True:
            seen = await door.desk.ask(_look, caller.tenant, run_id, caller.key_id)
            over = RunState(seen.run.state).terminal
            looked = loop.time()
            while True:
                sent = False
                for one in await asyncio.to_thread(following.read, seen, over=over):
                    yield one
                    beat, sent = loop.time(), True
                if over or loop.time() - looked > LOOK_SECONDS or loop.time() > end:
                    break
                await asyncio.sleep(0 if sent else READ_SECONDS)
            if over:
                yield event("end", {"state": seen.run.state, "words": ending_words(seen.run)})
                return
            if loop.time() > end or door.is_leaving():
                return
            if loop.time() - beat > BEAT_SECONDS:
                yield ":\n\n"
                beat = loop.time()
    finally:
        following.close()


class _Following:
    """Reads the log of the attempt that is under way, and of the next one after it."""

    def __init__(self, folder: str, place: str) -> None:
        self._folder = folder
        self._place = place
        self._reading: LogReading | None = None

    def read(self, seen: SeenRun, *, over: bool) -> list[str]:
        """Return what has come, as events."""
        log = log_of(seen, self._folder)
        if log is None:
            return []
        fence = seen.attempts[-1].fence
        found: list[str] = []
        if self._reading is not None and self._reading.fence != fence:
            found += self._drain(final=True)
            self.close()
            found.append(event("attempt", {"number": log.number, "fence": fence}))
        if not log.here:
            words = readable(log.kept)
            return [event("elsewhere", {"host": log.host, "text": words})] if over and not found else found
        if self._reading is None:
            self._reading = LogReading(log.path, fence, self._place)
        return found + self._drain(final=over)

    def close(self) -> None:
        """Let go of the file."""
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _drain(self, *, final: bool) -> list[str]:
        found: list[str] = []
        while self._reading is not None and len(found) < 4 and (part := self._reading.more(final=final)):  # noqa: PLR2004  # then others have their turn
            found.append(_told(part))
        return found


def _told(part: LogPart) -> str:
    return event("text", {"text": part.text, "skipped": part.skipped}, part.place)


def _look(store: Store, tenant: str, run_id: str, key_id: str) -> SeenRun:
    _still_known(store, key_id)
    return show(store, tenant, run_id).seen


def _look_newest(store: Store, tenant: str, key_id: str) -> int:
    _still_known(store, key_id)
    rows = list_audit(store, tenant, limit=1)
    return rows[0].seq if rows else 0


def _still_known(store: Store, key_id: str) -> None:
    if not is_in_force(store.keys(), key_id):
        raise Unauthorised("the session is over.")
