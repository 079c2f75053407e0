"""The Python door: define agents and schedules in a program, and speak to the same store as every other door."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from fencepost import wiring
from fencepost.app.definitions import Definitions, Function, name_of, source_of, target_of
from fencepost.app.options import AgentOptions, Moment, ScheduleOptions, Span
from fencepost.app.run import ExecRun, Run, exec_run_of, run_of
from fencepost.app.single import SingleDefinitions
from fencepost.config.find import resolved_store
from fencepost.config.sections import AGENTS
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Busy, Invalid, Misconfigured, Rollback, Unknown
from fencepost.operations import bulk_requests, run_queries, run_requests
from fencepost.operations.asked_by import actor_of
from fencepost.operations.command_history import list_commands
from fencepost.operations.run_queries import Filter
from fencepost.operations.schedule_registry import Planned, apply_config, file_id, plan_config
from fencepost.ports.requests import TriggeredRun
from fencepost.service.following import wait_for_end
from fencepost.wiring import machine_facts, serving, store_choice

if TYPE_CHECKING:
    from fencepost.app.aio import AsyncFencepost
    from fencepost.config.load import Config
    from fencepost.model.ownership import FileId
    from fencepost.operations.run_queries import Store

F = TypeVar("F", bound=Function)
AGENT_KEYS = frozenset(AGENTS.by_name)
WORKERS_DEFAULT = 2


class Fencepost(SingleDefinitions):
    """The agents and schedules of one program, and the store that they are kept in.

        app = Fencepost(timezone="Europe/Berlin")

        @app.schedule(cron="0 2 1 * *", timeout="4h")
        def close_books(run: RunContext) -> None:
            ...

        if __name__ == "__main__":
            app.up()

    The program takes the place of a fencepost.toml: it owns what it defines, and `apply` retires what it no longer does.
    Defining has no effect; `apply` and `up` have.
    """

    def __init__(
        self,
        store: str | None = None,
        *,
        tenant: str = "default",
        timezone: str = "",
        drain_timeout: Span = "60s",
        retention: Span = "90d",
        name: str = "",
        source: str | None = None,
    ) -> None:
        """Begin an empty set of definitions.

        `store` is a URL or `env:NAME`; without one FENCEPOST_STORE is used, or else a file that belongs to this program.
        The definitions belong to `name`, on every machine; without one to `source`, the file that this is written in.
        """
        frame = sys._getframe(1)  # noqa: SLF001  # who writes this, which is what owns the definitions
        if source is not None:
            self._source, self._folder = os.path.realpath(source), os.path.dirname(os.path.realpath(source))
        else:
            self._source, self._folder = source_of(frame)
        self._store = store
        self._agents: dict[Function, str] = {}
        self._schedules: dict[Function, str] = {}
        general = {
            "store": store,
            "tenant": tenant,
            "timezone": timezone,
            "drain_timeout": drain_timeout,
            "retention": retention,
            "name": name,
        }
        self._definitions = Definitions(self._source, general, frame.f_lineno)
        self.tenant = tenant

    def agent(self, *, name: str | None = None, **options: Unpack[AgentOptions]) -> Callable[[F], F]:
        """Register a function, sync or async, as an agent: it runs when it is triggered, or by a schedule."""
        line = sys._getframe(1).f_lineno  # noqa: SLF001  # for messages

        def register(function: F) -> F:
            self._agent(function, name or name_of(function), options, line)
            return function

        return register

    def schedule(
        self,
        *,
        cron: str | Sequence[str] | None = None,
        every: Span | None = None,
        at: Moment | Sequence[Moment] | None = None,
        timezone: str | None = None,
        name: str | None = None,
        **options: Unpack[ScheduleOptions],
    ) -> Callable[[F], F]:
        """Run a function, sync or async, by a schedule; its agent is made along the way unless it has one.

        The schedule is named after the function, and the agent that is made for it `NAME-agent`.
        """
        line = sys._getframe(1).f_lineno  # noqa: SLF001  # for messages
        trigger = {"cron": cron, "every": every, "at": at, "timezone": timezone}

        def register(function: F) -> F:
            self._schedule(function, name, trigger, options, line)
            return function

        return register

    def gate(self, name: str, *, kind: str, **values: object) -> None:
        """Describe a write target that compares fences, as [gates.NAME] does; agents list it in `gates`."""
        self.define("gates", name, {"kind": kind, **values}, line=sys._getframe(1).f_lineno)  # noqa: SLF001  # the line of the caller, for messages

    def project(self, name: str, path: str = ".", **values: object) -> None:
        """Describe a directory that agents work in, as [projects.NAME] does."""
        self.define("projects", name, {"path": path, **values}, line=sys._getframe(1).f_lineno)  # noqa: SLF001  # the line of the caller, for messages

    def define(self, section: str, name: str, values: Mapping[str, object], *, line: int | None = None) -> None:
        """Write down any section of a configuration file, such as `hooks`, with the same keys."""
        self._definitions.add(section, name, values, line=line or sys._getframe(1).f_lineno)  # noqa: SLF001  # the line of the caller, for messages

    def config(self) -> "Config":
        """Check everything that was defined; raise InvalidConfig with all that is wrong, and where."""
        return self._definitions.config()

    def plan(self) -> Planned:
        """Compare what is defined with the registry, writing nothing."""
        config = self.config()
        with store_choice.planning_url(self.store_url) as url, self._opened(url) as store:
            return plan_config(store.registry(), config, tenant=self.tenant, file=_file(config))

    def apply(self, *, take_over: bool = False, rollback: bool = False) -> Planned:
        """Put the definitions into the registry, all of them or none; what is no longer defined is retired.

        Definitions that a later version has replaced are refused with Rollback, unless `rollback` is said.
        """
        config = self.config()
        with self._opened(self.store_url) as store:
            return apply_config(
                store.registry(),
                config,
                tenant=self.tenant,
                actor=_actor(),
                take_over=take_over,
                rollback=rollback,
                file=_file(config),
            )

    def up(self, *, workers: int = WORKERS_DEFAULT, ttl: Span = "30s") -> int:
        """Apply, then schedule and work until SIGINT or SIGTERM; call it from the main thread of the program."""
        return self._serve("up", ticks=True, workers=workers, ttl=ttl)

    def scheduler(self, *, ttl: Span = "30s") -> int:
        """Apply, then only schedule; start several if you like, one drives."""
        return self._serve("scheduler", ticks=True, workers=0, ttl=ttl)

    def worker(self, *, workers: int = WORKERS_DEFAULT, ttl: Span = "30s") -> int:
        """Only work, on as many machines as you like."""
        return self._serve("worker", ticks=False, workers=workers, ttl=ttl)

    def trigger(
        self,
        target: str | Function,
        *,
        payload: Mapping[str, Any] | None = None,
        key: str | None = None,
        tick: datetime | None = None,
        again: bool = False,
        overlap: str | None = None,
        priority: int | None = None,
    ) -> Run:
        """Run a schedule or an agent now, by its name or its function; return when the request is durable.

        `key` makes it idempotent: the same key returns the same run, with `earlier` set. A schedule's overlap policy is
        obeyed by raising Busy.
        """
        name = self._named(target)
        with self._opened() as store:
            made = run_requests.request_run(
                store,
                tenant=self.tenant,
                target=name,
                payload=payload,
                key=key,
                tick=tick,
                again=again,
                overlap=overlap,
                priority=priority,
                new_run_id=wiring.new_run_id,
                by=_actor(),
            )
        return run_of(run_queries.SeenRun(made.run), earlier=made.earlier)

    def trigger_many(
        self,
        target: str | Function,
        payloads: Iterable[Mapping[str, Any]],
        *,
        keys: Iterable[str] | None = None,
        priority: int | None = None,
    ) -> list[TriggeredRun]:
        """Run an agent once for each payload; return when all requests are durable, or raise and none is.

        `keys`, one for each payload, make them idempotent. At most 10,000 at once; Busy if more would wait than the
        agent's `waiting_max`.
        """
        told = list(payloads)
        named: list[str | None] = [None] * len(told) if keys is None else list(keys)
        if len(named) != len(told):
            raise Invalid(f"there are {len(told)} payloads and {len(named)} keys; give one key for each payload.")
        wanted = [bulk_requests.WantedRun(payload, key) for payload, key in zip(told, named, strict=True)]
        name = self._agents.get(target) if not isinstance(target, str) else target
        with self._opened() as store:
            return bulk_requests.request_many(
                store,
                tenant=self.tenant,
                agent=name or self._named(target),
                wanted=wanted,
                priority=priority,
                new_run_ids=wiring.new_run_ids,
                by=_actor(),
            )

    def show(self, run_id: str) -> Run:
        """Return a run as it is now; the beginning of its id is enough if no other begins so."""
        with self._opened() as store:
            return run_of(run_queries.show(store, self.tenant, run_id).seen)

    def runs(self, *, state: str = "", schedule: str = "", agent: str = "", limit: int = 100) -> list[Run]:
        """Return runs, newest first."""
        with self._opened() as store:
            wanted = run_queries.Filter(schedule, agent, state)
            try:
                return [run_of(seen) for seen in run_queries.list_runs(store, self.tenant, wanted, limit=limit).runs]
            except Unknown:  # no run ever had that name, so there are none
                return []

    def commands(self, *, state: str = "", limit: int = 100) -> list[ExecRun]:
        """Return guarded commands, newest first; `state` is a run's: dead are those that failed or were lost."""
        with self._opened() as store:
            return [exec_run_of(row) for row in list_commands(store, self.tenant, Filter(state=state), limit=limit)]

    def wait(self, run_id: str, *, timeout: Span | None = None) -> Run:
        """Wait for a run to end and return it as it ended; raise Busy if it has not after `timeout`."""
        seconds = None if timeout is None else _seconds(timeout)
        with self._opened() as store:
            ended = wait_for_end(lambda: run_queries.find_run(store, self.tenant, run_id), timeout_seconds=seconds)
            if ended is None:
                raise Busy(f"run {run_id} has not ended after {seconds:g} s; it goes on. See: fencepost show {run_id}")
            return run_of(run_queries.with_attempts(store, ended))

    def cancel(self, run_id: str) -> Run:
        """Take a queued run out, or ask a running one to stop."""
        with self._opened() as store:
            found = run_queries.find_run(store, self.tenant, run_id)
            done = run_requests.cancel(store, found.id, tenant=self.tenant, by=_actor())
            return run_of(run_queries.with_attempts(store, done))

    @property
    def aio(self) -> "AsyncFencepost":
        """The same verbs for async code: each is awaited, and done in a thread."""
        from fencepost.app.aio import AsyncFencepost

        return AsyncFencepost(self)

    @property
    def store_url(self) -> str:
        """The store that this program uses: named, from the environment, or the program's own."""
        named = None if self._store else os.environ.get("FENCEPOST_STORE")
        return named or resolved_store(self._store, self._source, os.environ)

    def _agent(self, function: Function, name: str, options: Mapping[str, object], line: int) -> None:
        values = {"engine": "python", "function": target_of(function), **options}
        self._definitions.add("agents", name, values, line=line)
        self._agents[function] = name

    def _schedule(
        self,
        function: Function,
        name: str | None,
        trigger: Mapping[str, object],
        options: Mapping[str, object],
        line: int,
    ) -> None:
        of_agent = {key: value for key, value in options.items() if key in AGENT_KEYS}
        of_schedule = {key: value for key, value in options.items() if key not in AGENT_KEYS}
        own = name or self._free_name(function, trigger)
        if function not in self._agents:
            self._agent(function, f"{own}-agent", of_agent, line)
        elif of_agent:
            words = ", ".join(of_agent)
            raise Invalid(
                f"{self._source}:{line}: the agent of {own!r} is defined already; say {words} there, in @app.agent(...)."
            )
        said = {key: value for key, value in trigger.items() if value is not None}
        self._definitions.add("schedules", own, {"agent": self._agents[function], **said, **of_schedule}, line=line)
        self._schedules.setdefault(function, own)

    def _free_name(self, function: Function, trigger: Mapping[str, object]) -> str:
        """Name a schedule after its function, or where an agent has that name, after function and trigger."""
        name = name_of(function)
        if not self._definitions.has("agents", name):
            return name
        return f"{name}-{next((kind for kind in ('cron', 'every', 'at') if trigger[kind] is not None), 'schedule')}"

    def _named(self, target: str | Function) -> str:
        if isinstance(target, str):
            return target
        name = self._schedules.get(target) or self._agents.get(target)
        if name is None:
            raise Invalid(f"{target!r} is neither a schedule nor an agent of this app; decorate it, or give a name.")
        return name

    def _serve(self, name: str, *, ticks: bool, workers: int, ttl: Span) -> int:
        if os.environ.get("FENCEPOST_SOCKET"):
            raise Misconfigured(
                f"app.{name}() was called inside a run, probably by importing {self._source}; "
                'write it below: if __name__ == "__main__":'
            )
        config = self.config()
        if ticks:
            self._apply_and_tell(config)
        return serving.serve_app(
            self.store_url,
            config,
            name=name,
            folder=self._folder,
            ticks=ticks,
            workers=workers,
            ttl=_seconds(ttl),
        )

    def _apply_and_tell(self, config: "Config") -> None:
        store = wiring.open_patiently(self.store_url)
        try:
            done = apply_config(store.registry(), config, tenant=self.tenant, actor=_actor(), file=_file(config))
        except Rollback as older:
            wiring.say(f"{older} What runs is what the registry holds.")
            return
        finally:
            store.close()
        for warning in done.warnings:
            wiring.say(f"warning: {warning.what} {warning.name}: {warning.message}")
        wiring.say(f"applied {config.path}: {len(config.agents)} agents, {len(config.schedules)} schedules.")

    def _asks_as(self) -> str:
        return _actor()

    @contextmanager
    def _opened(self, made: str = "") -> "Iterator[Store]":
        """Open the store; `made` is one that may be new, while else a file that is named must be there."""
        if not made and (self._store or os.environ.get("FENCEPOST_STORE")):
            how = f"Fencepost({self._store!r})" if self._store else "FENCEPOST_STORE"
            store_choice.refuse_missing(self.store_url, how, makers="app.apply() or app.up()")
        store = wiring.open_runtime(made or self.store_url)
        try:
            yield store
        finally:
            store.close()


def _file(config: "Config") -> "FileId":
    return file_id(config, machine_facts.this_machine())


def _actor() -> str:
    """Say who asks: the run that we are inside of, or a program of a person."""
    return actor_of(os.environ)


def _seconds(span: Span) -> float:
    return span.total_seconds() if isinstance(span, timedelta) else parse_duration(span)
