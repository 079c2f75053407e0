"""The door's way to the store: a few threads, a connection each, and never a wait without an end.

Everything below the doors is synchronous, so each question is handed to a thread. How many wait is bounded, and so is
how long: a store that is away costs a 503, not a hang.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock, local
from typing import Concatenate, ParamSpec, TypeVar

from fencepost.model.errors import StoreUnavailable
from fencepost.operations.run_queries import Store

THREADS = 6
WAITING_MAX = 200
PATIENCE_SECONDS = 10.0

P = ParamSpec("P")
T = TypeVar("T")


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

    async def ask(self, operation: Callable[Concatenate[Store, P], T], /, *args: P.args, **values: P.kwargs) -> T:
        """Carry out one operation on the store; raise StoreUnavailable when it takes too long.

        What was begun may still take effect then: a caller asks again with the same key.
        """
        if self._closed:
            raise StoreUnavailable("this server is about to end; try again later.")
        if self._waiting >= WAITING_MAX:
            raise StoreUnavailable("too many requests wait for the store; try again later.")
        if self._stuck >= self._size:
            raise StoreUnavailable("the store has not answered for a while; try again later.")
        self._waiting += 1
        work = self._threads.submit(self._with_store, lambda store: operation(store, *args, **values))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(work), self._patience_seconds)
        except TimeoutError:
            self._give_up_on(work)
            raise StoreUnavailable(
                f"the store has not answered within {self._patience_seconds:g} seconds; try again later."
            ) from None
        finally:
            self._waiting -= 1

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


def _close(store: Store) -> None:
    with suppress(StoreUnavailable):  # nothing is owed to this connection
        store.close()
