"""The door's way to the store: a few threads, a connection each, and never a wait without an end.

Everything below the doors is synchronous, so each question is handed to a thread. How many wait is bounded, and so is
how long: a store that is away costs a 503, not a hang.
"""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Lock, local
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from fencepost.model.errors import FencepostError, StoreUnavailable
from fencepost.operations.run_queries import Store

THREADS = 6
WAITING_MAX = 200
PATIENCE_SECONDS = 10.0
TOGETHER_MAX, TOGETHER_BYTES = 100, 4_000_000  # of what is handed to the store at once

P = ParamSpec("P")
T = TypeVar("T")
Item = TypeVar("Item")


class InLine(NamedTuple):
    """What one caller has brought, and where it waits for the answer."""

    item: Any
    size: int
    answer: "asyncio.Future[Any]"


class StoreThreads:
    """Hands questions to the store."""

    def __init__(
        self, open_store: Callable[[], Store], *, threads: int = THREADS, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        self._open_store = open_store
        self._patience_seconds = patience_seconds
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="store")
        self._mine = local()
        self._idle: set[Store] = set()  # open and idle
        self._closed = False
        self._lock = Lock()
        self._waiting = 0
        self._size = threads
        self._stuck = 0
        self._lines: dict[Hashable, list[InLine]] = {}
        self._tasks: set[asyncio.Task[None]] = set()  # an event loop forgets a task that is not kept elsewhere

    async def ask(self, operation: Callable[Concatenate[Store, P], T], /, *args: P.args, **values: P.kwargs) -> T:
        """Carry out one operation on the store; raise StoreUnavailable when it takes too long.

        What was begun may still take effect then: a caller asks again with the same key.
        """
        self._check_room()
        self._waiting += 1
        try:
            return await self._ask(lambda store: operation(store, *args, **values))
        finally:
            self._waiting -= 1

    async def ask_together(
        self,
        operation: Callable[[Store, Sequence[Item]], Sequence[T | FencepostError]],
        item: Item,
        *,
        line: Hashable,
        size: int = 0,
    ) -> T:
        """Carry out an operation on what all callers of one line have brought while the one before was under way.

        Each gets its own answer or error. Who has given up before its turn is left out; what was begun may still take
        effect, as with `ask`.
        """
        self._check_room()
        mine = InLine(item, size, asyncio.get_running_loop().create_future())
        waiting = self._lines.get(line)
        if waiting is None:
            self._lines[line] = [mine]
            task = asyncio.create_task(self._serve_line(line, operation))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            waiting.append(mine)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._patience_seconds):
                answer: T = await mine.answer
                return answer
        except TimeoutError:
            raise self._too_late() from None
        finally:
            self._waiting -= 1

    async def _serve_line(self, line: Hashable, operation: Callable[[Store, Sequence[Any]], Sequence[Any]]) -> None:
        """Hand over what waits in a line, again and again until none waits there."""
        waiting = self._lines[line]
        try:
            while waiting:
                some = _next_of(waiting)
                try:
                    items = [one.item for one in some]
                    answers = await self._ask(partial(_handed, operation, items)) if some else []
                except Exception as error:  # noqa: BLE001 - whatever it is, it is for those who wait
                    answers = [error] * len(some)
                for one, answer in zip(some, answers, strict=True):
                    _hand_over(one.answer, answer)
        finally:
            del self._lines[line]
            for one in waiting:  # this server is about to end
                one.answer.cancel()

    def _check_room(self) -> None:
        if self._closed:
            raise StoreUnavailable("this server is about to end; try again later.")
        if self._waiting >= WAITING_MAX:
            raise StoreUnavailable("too many requests wait for the store; try again later.")
        if self._stuck >= self._size:
            raise StoreUnavailable("the store has not answered for a while; try again later.")

    async def _ask(self, task: Callable[[Store], T]) -> T:
        work = self._threads.submit(self._with_store, task)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), self._patience_seconds)
        except TimeoutError:
            self._give_up_on(work)
            raise self._too_late() from None

    def _too_late(self) -> StoreUnavailable:
        return StoreUnavailable(
            f"the store has not answered within {self._patience_seconds:g} seconds; try again later."
        )

    def _give_up_on(self, work: "Future[T]") -> None:
        """Count a thread for as long as it waits for an answer that is not wanted any more.

        While all of them do, a new caller is told so at once, instead of after a wait behind them.
        """
        if work.cancelled():  # it never began
            return
        with self._lock:
            self._stuck += 1
        work.add_done_callback(lambda _: self._is_back())

    def _is_back(self) -> None:
        with self._lock:
            self._stuck -= 1

    def close(self) -> None:
        """Let go of the store: at once where it is idle, else as soon as the answer is there.

        A connection belongs to the thread that is asking; to close it from here would end us in a traceback.
        """
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for store in idle:
            _close(store)

    def _with_store(self, task: Callable[[Store], T]) -> T:
        store = self._take()
        try:
            found = task(store)
        except StoreUnavailable:
            self._mine.store = None  # the next question opens it anew
            _close(store)
            raise
        except BaseException:
            self._put_back(store)
            raise
        self._put_back(store)
        return found

    def _take(self) -> Store:
        """Return this thread's own connection, which no other thread closes for now."""
        mine: Store | None = getattr(self._mine, "store", None)
        with self._lock:
            if self._closed:
                raise StoreUnavailable("this server is about to end; try again later.")
            if mine is not None:
                self._idle.discard(mine)
        store = mine or self._open_store()
        self._mine.store = store
        return store

    def _put_back(self, store: Store) -> None:
        with self._lock:
            if not self._closed:
                self._idle.add(store)
                return
        _close(store)


def _next_of(waiting: list[InLine]) -> list[InLine]:
    """Take from the front of a line what may be handed over at once, without those who have given up."""
    size, number = 0, 0
    while number < min(len(waiting), TOGETHER_MAX) and (number == 0 or size + waiting[number].size <= TOGETHER_BYTES):
        size += waiting[number].size
        number += 1
    taken = waiting[:number]
    del waiting[:number]
    return [one for one in taken if not one.answer.done()]


def _handed(
    operation: Callable[[Store, Sequence[Any]], Sequence[Any]], items: Sequence[Any], store: Store
) -> Sequence[Any]:
    return operation(store, items)


def _hand_over(to: "asyncio.Future[Any]", answer: object) -> None:
    if to.done():  # its caller has left
        return
    if isinstance(answer, Exception):
        to.set_exception(answer)
    else:
        to.set_result(answer)


def _close(store: Store) -> None:
    with suppress(StoreUnavailable):  # nothing is owed to this connection
        store.close()
