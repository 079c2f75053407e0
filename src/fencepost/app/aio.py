"""The Python door for async code: the store blocks by nature, so each verb is done in a thread and awaited."""

from asyncio import to_thread
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fencepost.app.definitions import Function
from fencepost.app.options import Span
from fencepost.app.run import ExecRun, Run
from fencepost.operations.schedule_registry import Planned
from fencepost.ports.requests import TriggeredRun

if TYPE_CHECKING:
    from fencepost.app import Fencepost


class AsyncFencepost:
    """The verbs of an app, awaited."""

    def __init__(self, app: "Fencepost") -> None:
        self._app = app

    async def apply(self, *, take_over: bool = False, rollback: bool = False) -> Planned:
        """Put the definitions into the registry; see Fencepost.apply."""
        return await to_thread(self._app.apply, take_over=take_over, rollback=rollback)

    async def put_schedule(self, name: str, definition: Mapping[str, Any], *, tag: str | None = None) -> str:
        """Define one schedule; see Fencepost.put_schedule."""
        return await to_thread(self._app.put_schedule, name, definition, tag=tag)

    async def put_agent(self, name: str, definition: Mapping[str, Any], *, tag: str | None = None) -> str:
        """Define one agent; see Fencepost.put_agent."""
        return await to_thread(self._app.put_agent, name, definition, tag=tag)

    async def delete_schedule(self, name: str, *, tag: str | None = None) -> None:
        """Retire one schedule; see Fencepost.delete_schedule."""
        await to_thread(self._app.delete_schedule, name, tag=tag)

    async def delete_agent(self, name: str, *, tag: str | None = None) -> None:
        """Retire one agent; see Fencepost.delete_agent."""
        await to_thread(self._app.delete_agent, name, tag=tag)

    async def trigger(
        self,
        target: str | Function,
        *,
        payload: Mapping[str, Any] | None = None,
        key: str | None = None,
        tick: datetime | None = None,
        again: bool = False,
    ) -> Run:
        """Run a schedule or an agent now; see Fencepost.trigger."""
        return await to_thread(self._app.trigger, target, payload=payload, key=key, tick=tick, again=again)

    async def trigger_many(
        self,
        target: str | Function,
        payloads: Iterable[Mapping[str, Any]],
        *,
        keys: Iterable[str] | None = None,
        priority: int | None = None,
    ) -> list[TriggeredRun]:
        """Run an agent once for each payload; see Fencepost.trigger_many."""
        return await to_thread(self._app.trigger_many, target, payloads, keys=keys, priority=priority)

    async def show(self, run_id: str) -> Run:
        """Return a run as it is now."""
        return await to_thread(self._app.show, run_id)

    async def runs(self, *, state: str = "", schedule: str = "", agent: str = "", limit: int = 100) -> list[Run]:
        """Return runs, newest first."""
        return await to_thread(self._app.runs, state=state, schedule=schedule, agent=agent, limit=limit)

    async def commands(self, *, state: str = "", limit: int = 100) -> list[ExecRun]:
        """Return guarded commands, newest first; see Fencepost.commands."""
        return await to_thread(self._app.commands, state=state, limit=limit)

    async def wait(self, run_id: str, *, timeout: Span | None = None) -> Run:  # noqa: ASYNC109  # the store's verb has it
        """Wait for a run to end; see Fencepost.wait."""
        return await to_thread(self._app.wait, run_id, timeout=timeout)

    async def cancel(self, run_id: str) -> Run:
        """Take a queued run out, or ask a running one to stop."""
        return await to_thread(self._app.cancel, run_id)
