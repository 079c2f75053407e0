"""What a Python function knows about the run it is called for, and the program that calls it."""

import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar, overload

from fencepost.model.errors import FencepostError, FenceRefused
from fencepost.model.instants import parse_instant
from fencepost.model.terminal_text import tame
from fencepost.operations import supervisor_client

if TYPE_CHECKING:
    from fencepost.operations.run_gate import RunGate

PROGRESS_MAX = 2_000

T = TypeVar("T")
Probe = Callable[[], object]


class RunContext:
    """The run, as its agent sees it.

    Everything but `checkpoint`, `once`, `gate`, `progress` and `cancelled` is fixed when the run starts and costs nothing
    to ask. Those ask the supervisor, and stop working the moment the lease is lost.
    """

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        """Read the run from the environment that its supervisor made."""
        self._environ = dict(os.environ) if environ is None else environ

    @property
    def run_id(self) -> str:
        """The run's name."""
        return self._value("RUN_ID")

    @property
    def tenant(self) -> str:
        """Whose run this is."""
        return self._value("TENANT")

    @property
    def agent(self) -> str:
        """The agent that runs."""
        return self._value("AGENT")

    @property
    def schedule(self) -> str:
        """The schedule whose tick this is, or nothing."""
        return self._value("SCHEDULE")

    @property
    def trigger(self) -> str:
        """What asked for the run: cron, every, at, webhook, manual, replay or backfill."""
        return self._value("TRIGGER")

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return int(self._value("ATTEMPT") or 1)

    @property
    def fence(self) -> int:
        """The number to show at write targets."""
        return int(self._value("FENCE") or 0)

    @property
    def idempotency_key(self) -> str:
        """A key for calls to other services, the same for every attempt at this tick."""
        return self._value("IDEMPOTENCY_KEY")

    @property
    def tick(self) -> datetime | None:
        """The instant that this run stands for."""
        return self._instant("TICK")

    @property
    def period(self) -> tuple[datetime | None, datetime | None]:
        """What the tick covers: from, and up to but not including."""
        return self._instant("PERIOD_START"), self._instant("PERIOD_END")

    @property
    def last_success(self) -> datetime | None:
        """The tick of the last run that succeeded."""
        return self._instant("LAST_SUCCESS")

    @property
    def resuming(self) -> bool:
        """Whether an earlier attempt was interrupted and this one goes on."""
        return self._value("RESUME") == "1"

    @property
    def payload(self) -> Any:  # noqa: ANN401  # whatever JSON the trigger carried
        """What the run was triggered with."""
        path = self._value("PAYLOAD")
        if not path:
            return {}
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    @property
    def checkpoint(self) -> Any:  # noqa: ANN401  # whatever JSON was kept
        """What an earlier attempt, or this one, has kept; None if nothing."""
        content = self._ask("checkpoint_get").get("content")
        return None if content is None else json.loads(str(content))

    @checkpoint.setter
    def checkpoint(self, value: object) -> None:
        self._ask("checkpoint_set", content=json.dumps(value))

    def progress(self, text: str = "") -> None:
        """Say that work is being done, so that silence is not taken for a stall."""
        self._ask("progress", content=text[:PROGRESS_MAX])

    @overload
    def once(
        self, key: str, effect: Callable[[], Awaitable[T]], probe: Probe | None = None, *, scope: str = "tenant"
    ) -> Awaitable[T]: ...

    @overload
    def once(self, key: str, effect: Callable[[], T], probe: Probe | None = None, *, scope: str = "tenant") -> T: ...

    def once(self, key: str, effect: Callable[[], Any], probe: Probe | None = None, *, scope: str = "tenant") -> Any:
        """Have an effect once, and return its recorded answer ever after.

        The key names the effect for every run of the tenant, such as "invoice-2026-10"; with `scope="run"` only the
        attempts of this run share it. The effect is written down before it is called, and its answer, which is JSON,
        afterwards. An effect that was begun and never recorded, or that raised, is in doubt and is never repeated
        blindly: `probe` says `Done(answer)` or `NotDone()`, and without one InDoubt is raised, for a person. An effect
        that raises NotDone promises that nothing took place, and may be tried again.

        Hand over an async function, and await the answer, in async code.
        """
        from fencepost.flow.effect_once import Once, is_awaited, once, once_awaited
        from fencepost.host.clock import SystemClock

        steps = Once(self._ask, SystemClock().sleep, key, scope=scope)
        return once_awaited(steps, effect, probe) if is_awaited(effect) else once(steps, effect, probe)

    def gate(self, name: str) -> "RunGate":
        """Open a gate that the agent has declared, by its name in the configuration or as `kind:where`."""
        from fencepost import wiring
        from fencepost.operations.gates import writer_from
        from fencepost.operations.run_gate import RunGate

        target = name if ":" in name else str(self._ask("gate_named", name=name)["target"])
        return RunGate(wiring.open_gate(target), writer_from(self._variables()).proof, self._ask)

    def report(
        self,
        *,
        summary: str | None = None,
        cost_usd: float | None = None,
        turns: int | None = None,
        usage: dict[str, int] | None = None,
    ) -> None:
        """Say what came of it and what it cost; budgets are settled with it. The last word stands."""
        said = {"summary": summary, "cost_usd": cost_usd, "turns": turns, "usage": json.dumps(usage) if usage else None}
        self._ask("report", **{name: str(value) for name, value in said.items() if value is not None})

    @property
    def cancelled(self) -> bool:
        """Whether this run shall stop, or has lost its lease."""
        try:
            self._ask("check")
        except FenceRefused:
            return True
        return False

    def _ask(self, verb: str, **fields: str) -> Mapping[str, Any]:
        return supervisor_client.ask_in(self._variables(), verb, **fields)

    def _value(self, name: str) -> str:
        return self._variables().get(f"FENCEPOST_{name}", "")

    def _variables(self) -> dict[str, str]:
        return self._environ

    def _instant(self, name: str) -> datetime | None:
        text = self._value(name)
        return parse_instant(text) if text else None


def call(target: str) -> int:
    """Call `module:function` with a RunContext; an exception is a failure with its traceback in the log."""
    function = load(target)
    try:
        answer = function(RunContext())
        if hasattr(answer, "__await__"):
            import asyncio

            asyncio.run(_awaited(answer))
    except FencepostError as error:
        print(f"fencepost: {tame(str(error))}", file=sys.stderr)  # noqa: T201  # this is the run's log
        return error.exit_code
    return 0


def load(target: str) -> Callable[[RunContext], Any]:
    """Find the function; the agent's folder comes first, here and nowhere else.

    Our own modules were found without that folder (see own_program): only the user's function may be looked for there.
    """
    from importlib import import_module

    module, _, name = target.partition(":")
    if (folder := os.getcwd()) not in sys.path:
        sys.path.insert(0, folder)
    found: Any = import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    if not callable(found):
        raise TypeError(f"{target} is not a function")
    loaded: Callable[[RunContext], Any] = found
    return loaded


async def _awaited(answer: Any) -> Any:  # noqa: ANN401  # whatever the function promised
    return await answer


if __name__ == "__main__":
    # By its own name, so that a function sees the RunContext that it has imported, and not a twin of it.
    from fencepost import context  # noqa: PLW0406  # it runs as __main__ here

    sys.exit(context.call(sys.argv[1]))
