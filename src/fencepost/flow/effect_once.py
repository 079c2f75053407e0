"""Has an effect once: write down, do, record. A second call gets the recorded answer; an effect in doubt is probed."""

import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from fencepost.model.effect_ledger import Done, NotDone, check_answer, check_key
from fencepost.model.errors import FencepostError, InDoubt, Invalid, StoreUnavailable

Ask = Callable[..., Mapping[str, Any]]  # a verb and its fields to the holder of the lease; raises what is refused
Wait = Callable[[float], None]

COMPLETE_TRIES = 20  # a store that is being restarted comes back; the effect has taken place and wants its record
COMPLETE_AGAIN_SECONDS = 0.5


class Once:
    """One call, step by step, so that it reads the same whether its effect is awaited or not."""

    def __init__(self, ask: Ask, wait: Wait, key: str, *, scope: str = "tenant") -> None:
        self._ask = ask
        self._wait = wait
        self._fields = {"entry": check_key(key), "call": os.urandom(12).hex(), "scope": scope}
        self._key = key

    def begin(self) -> Mapping[str, Any]:
        """Write the effect down, or learn what is known of it; raise Busy while another call is at it."""
        return self._ask("ledger_begin", **self._fields)

    def complete(self, answer: object) -> Any:  # noqa: ANN401  # whatever JSON the effect answered
        """Record the answer and return it as every later caller will get it."""
        try:
            text = check_answer(json.dumps(answer, allow_nan=False))
        except (TypeError, ValueError, RecursionError, Invalid) as error:
            self.failed(error)
            raise Invalid(
                f"{self._key!r} was done, and its answer cannot be recorded: {error} Return JSON of at most 64 KB, "
                f"such as an id. The entry is ambiguous now."
            ) from error
        self._record("ledger_complete", answer=text)
        return json.loads(text)

    def failed(self, error: BaseException) -> None:
        """Give the effect back if it certainly did not take place; else leave it in doubt, for a person or a probe.

        A lease that is lost by now leaves it in doubt just as well.
        """
        with suppress(FencepostError):
            if isinstance(error, NotDone):
                self._ask("ledger_release", **self._fields)
            else:
                self._ask("ledger_doubt", **self._fields, why=f"{type(error).__name__}: {error}")

    def probed(self, found: object, told: Mapping[str, Any]) -> Mapping[str, Any]:
        """Settle an ambiguity by what the probe found: answered, or new and ours to do."""
        seen = str(told["seen"])
        if isinstance(found, Done):
            text = check_answer(json.dumps(found.answer, allow_nan=False))
            self._ask("ledger_settle", **self._fields, seen=seen, answer=text)
            return {"verdict": "answered", "answer": text}
        if isinstance(found, NotDone) or found is NotDone:
            self._ask("ledger_take_over", **self._fields, seen=seen)
            return {"verdict": "new"}
        raise InDoubt(f"{told['message']} (The probe returned {found!r}; it returns Done(answer) or NotDone().)")

    def _record(self, verb: str, **more: str) -> None:
        for _ in range(COMPLETE_TRIES - 1):
            with suppress(StoreUnavailable):
                self._ask(verb, **self._fields, **more)
                return
            self._wait(COMPLETE_AGAIN_SECONDS)
        self._ask(verb, **self._fields, **more)


def once(steps: Once, effect: Callable[[], object], probe: Callable[[], object] | None = None) -> Any:  # noqa: ANN401  # whatever JSON the effect answered
    """Have an effect once and return its answer."""
    told = steps.begin()
    if told["verdict"] == "ambiguous":
        told = steps.probed(_probe(probe, told), told)
    if told["verdict"] == "answered":
        return json.loads(told["answer"])
    try:
        answer = effect()
        _refuse_awaitable(answer)
    except BaseException as error:
        steps.failed(error)
        raise
    return steps.complete(answer)


async def once_awaited(
    steps: Once, effect: Callable[[], Awaitable[object]], probe: Callable[[], object] | None = None
) -> Any:  # noqa: ANN401  # whatever JSON the effect answered
    """Have an awaited effect once; the ledger is asked in a thread, so that nothing else on the loop waits for it."""
    from asyncio import to_thread

    told = await to_thread(steps.begin)
    if told["verdict"] == "ambiguous":
        found = await _probe_awaited(probe, told)
        told = await to_thread(steps.probed, found, told)
    if told["verdict"] == "answered":
        return json.loads(told["answer"])
    try:
        answer = await effect()
    except BaseException as error:
        steps.failed(error)  # at once: a task that is being cancelled may not come back from another thread
        raise
    return await to_thread(steps.complete, answer)


def is_awaited(effect: Callable[[], object]) -> bool:
    """Tell whether calling it gives something to await."""
    return inspect.iscoroutinefunction(effect) or inspect.iscoroutinefunction(getattr(effect, "__call__", None))  # noqa: B004  # the method itself is looked at


def _refuse_awaitable(answer: object) -> None:
    if inspect.iscoroutine(answer):
        answer.close()
        raise NotDone(
            "the effect is a coroutine that was never awaited; hand over an async function, and await once()."
        )
    if inspect.isawaitable(answer):
        raise TypeError("the effect returned something to await; hand over an async function, and await once().")


def _probe(probe: Callable[[], object] | None, told: Mapping[str, Any]) -> object:
    if probe is None:
        raise InDoubt(str(told["message"]))
    try:
        return probe()
    except NotDone as found:
        return found


async def _probe_awaited(probe: Callable[[], object] | None, told: Mapping[str, Any]) -> object:
    found = _probe(probe, told)
    try:
        return await found if inspect.isawaitable(found) else found
    except NotDone as not_done:
        return not_done
