"""One definition at a time from Python, under the names that HTTP and MCP have for it: for a platform's own screens."""

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol

from fencepost.model.secret_rights import NO_LISTS
from fencepost.operations.run_queries import Store
from fencepost.operations.single_definition import Put, SentDefinition, check_sent, drop_definition, put_definition


class _App(Protocol):
    tenant: str

    def _opened(self, made: str = "") -> AbstractContextManager[Store]: ...
    def _asks_as(self) -> str: ...


class SingleDefinitions:
    """Puts and retires single definitions, each owned by itself: what the program or a file defines stays theirs.

    `tag` is what an earlier call returned, or "absent" for something that shall be new: raises Outdated if the
    definition is another one by now. The worker that hands a secret over decides whether the tenant may have it.
    """

    def put_schedule(
        self: _App, name: str, definition: Mapping[str, Any], *, tag: str | None = None, take_over: bool = False
    ) -> str:
        """Define one schedule, with the keys of [schedules.NAME]; return its tag.

        What is probably not meant, such as */45 in a cron, comes as a Python warning.
        """
        done = _put(self, "schedule", name, definition, tag=tag, take_over=take_over)
        for one in done.planned.warnings:
            warnings.warn(f"{one.what} {one.name}: {one.message}", stacklevel=2)
        return done.tag

    def put_agent(
        self: _App, name: str, definition: Mapping[str, Any], *, tag: str | None = None, take_over: bool = False
    ) -> str:
        """Define one agent, with the keys of [agents.NAME]; return its tag."""
        return _put(self, "agent", name, definition, tag=tag, take_over=take_over).tag

    def delete_schedule(self: _App, name: str, *, tag: str | None = None) -> None:
        """Retire one schedule that was put alone; its runs and ticks stay on record."""
        _drop(self, "schedule", name, tag)

    def delete_agent(self: _App, name: str, *, tag: str | None = None) -> None:
        """Retire one agent that was put alone; refused while a schedule runs it."""
        _drop(self, "agent", name, tag)


def _put(app: _App, kind: str, name: str, definition: Mapping[str, Any], *, tag: str | None, take_over: bool) -> Put:
    check_sent(kind, definition, name)
    with app._opened() as store:  # noqa: SLF001  # the app's own part
        return put_definition(
            store.registry(),
            kind,
            name,
            SentDefinition(definition),
            tenant=app.tenant,
            actor=app._asks_as(),  # noqa: SLF001  # likewise
            rights=NO_LISTS,
            expected=tag,
            take_over=take_over,
        )


def _drop(app: _App, kind: str, name: str, tag: str | None) -> None:
    with app._opened() as store:  # noqa: SLF001  # likewise
        drop_definition(store.registry(), kind, name, tenant=app.tenant, actor=app._asks_as(), expected=tag)  # noqa: SLF001  # one thing in two modules
