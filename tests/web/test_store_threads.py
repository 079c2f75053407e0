"""A store that is away costs a 503, never a hang."""

import asyncio
from collections.abc import Sequence
from threading import Event

import pytest

from fencepost.model.errors import FencepostError, Invalid, StoreUnavailable
from fencepost.operations.run_queries import Store
from fencepost.stores.transaction import Transaction
from fencepost.web import store_threads as desks
from fencepost.web.store_threads import StoreThreads
from tests.support.runtime import Runtime
from tests.support.webdoor import WebDoor


def test_a_store_that_does_not_answer_is_given_up_on(runtime: Runtime) -> None:
    desk = StoreThreads(runtime.another, threads=1, patience_seconds=0.05)
    let_go = Event()

    def hangs(_: Store) -> None:
        let_go.wait(30)

    with pytest.raises(StoreUnavailable, match="not answered within"):
        asyncio.run(desk.ask(hangs))
    let_go.set()
    desk.close()


def test_while_every_thread_waits_for_a_silent_store_the_next_is_told_at_once_and_afterwards_served(
    runtime: Runtime,
) -> None:
    desk = StoreThreads(runtime.another, threads=2, patience_seconds=0.05)
    let_go = Event()

    async def ask() -> int:
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="not answered within"):
                await desk.ask(lambda _: let_go.wait(30))
        desk._patience_seconds = 30  # nobody has to wait that long any more
        with pytest.raises(StoreUnavailable, match="not answered for a while"):
            await desk.ask(lambda store: store.clock_us())
        let_go.set()
        while desk._stuck:  # noqa: ASYNC110  # the threads tell nobody
            await asyncio.sleep(0.01)
        return await desk.ask(lambda store: store.clock_us())

    assert asyncio.run(ask()) > 0
    desk.close()


def test_a_question_that_was_given_up_before_a_thread_took_it_is_never_asked(runtime: Runtime) -> None:
    desk = StoreThreads(runtime.another, threads=1, patience_seconds=0.1)
    let_go, asked = Event(), Event()

    async def ask() -> None:
        both = await asyncio.gather(
            desk.ask(lambda _: let_go.wait(30)), desk.ask(lambda _: asked.set()), return_exceptions=True
        )
        assert [type(one) for one in both] == [StoreUnavailable] * 2
        assert desk._stuck == 1
        let_go.set()

    asyncio.run(ask())
    desk.close()
    assert not asked.is_set()


def test_no_more_than_so_many_wait_for_it(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "WAITING_MAX", 2)
    desk = StoreThreads(runtime.another, threads=1)
    let_go = Event()

    async def crowd() -> None:
        waiting = [asyncio.create_task(desk.ask(lambda _: let_go.wait(30))) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="too many"):
            await desk.ask(lambda _: None)
        let_go.set()
        await asyncio.gather(*waiting)

    asyncio.run(crowd())
    desk.close()


def test_a_store_that_cannot_be_opened_is_a_503_that_says_when_to_come_back(web: WebDoor) -> None:
    def away() -> Store:
        raise StoreUnavailable("the server does not answer.")

    shown = web.bearer()
    web.desk._open_store = away
    answer = web.ask("GET", "/readyz", headers=shown)

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "store_unavailable"


def test_a_door_that_closes_while_a_thread_is_asking_lets_it_have_its_answer(both: Runtime) -> None:
    """Closing a connection that another thread is using would end the server in a traceback."""
    slow = {
        "sqlite": "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < 2000000) SELECT count(*) FROM n",
        "postgresql": "SELECT pg_sleep(0.5)",
    }[both.kind]
    opened, asking, closed = [], Event(), []

    def open_store() -> Store:
        store = both.another()
        close = store.close

        def close_and_note() -> None:
            closed.append(store)
            close()

        store.close = close_and_note  # type: ignore[method-assign]
        opened.append(store)
        return store

    def ask(store: Store) -> int:
        def read(tx: Transaction) -> int:
            connection = tx.tables()._connection  # type: ignore[attr-defined]
            asking.set()
            return len(list(connection.execute(slow)))

        return store.dialect.read(read)

    desk = StoreThreads(open_store, threads=2)

    async def play() -> int:
        await desk.ask(lambda store: store.clock_us())
        answer = asyncio.create_task(desk.ask(ask))
        await asyncio.to_thread(asking.wait, 30)
        desk.close()
        with pytest.raises(StoreUnavailable, match="about to end"):
            await desk.ask(lambda store: store.clock_us())
        return await answer

    assert asyncio.run(play()) == 1
    desk._threads.shutdown(wait=True)
    assert sorted(map(id, closed)) == sorted(map(id, opened)), "each connection is closed once"


def test_a_store_that_comes_back_is_opened_anew(runtime: Runtime) -> None:
    desk = StoreThreads(runtime.another, threads=1)

    def lost(_: Store) -> None:
        raise StoreUnavailable("gone")

    async def ask() -> int:
        with pytest.raises(StoreUnavailable):
            await desk.ask(lost)
        return await desk.ask(lambda store: store.clock_us())

    assert asyncio.run(ask()) > 0
    desk.close()


def test_what_comes_while_the_store_is_busy_is_handed_over_together_without_those_who_left(runtime: Runtime) -> None:
    desk = StoreThreads(runtime.another, threads=2)
    let_go, handed = Event(), []

    def double(_: Store, items: Sequence[int]) -> list[int | FencepostError]:
        let_go.wait(30)
        handed.append(list(items))
        return [Invalid("odd.") if item % 2 else 2 * item for item in items]

    async def ask() -> list[int | BaseException]:
        waiting = []
        for item in (0, 1, 2, 3, 4):
            waiting.append(asyncio.create_task(desk.ask_together(double, item, line="a")))
            await asyncio.sleep(0)
        waiting[2].cancel()
        other = asyncio.create_task(desk.ask_together(double, 6, line="b"))
        await asyncio.sleep(0)
        let_go.set()
        return await asyncio.gather(*waiting, other, return_exceptions=True)

    answers = asyncio.run(ask())
    desk.close()
    assert sorted(handed) == [[0], [1, 3, 4], [6]]
    assert [answer if isinstance(answer, int) else type(answer) for answer in answers] == [
        *(0, Invalid, asyncio.CancelledError, Invalid, 8),
        12,
    ]
    assert not desk._lines


def test_no_more_is_handed_over_at_once_than_may_be(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desks, "TOGETHER_MAX", 3)
    monkeypatch.setattr(desks, "TOGETHER_BYTES", 10)
    desk = StoreThreads(runtime.another, threads=1)
    handed: list[list[int]] = []

    def note(_: Store, sizes: Sequence[int]) -> list[int]:
        handed.append(list(sizes))
        return list(sizes)

    async def ask() -> None:
        await asyncio.gather(
            *(desk.ask_together(note, size, line="a", size=size) for size in (1, 1, 1, 1, 4, 7, 20, 1))
        )

    asyncio.run(ask())
    desk.close()
    assert handed == [[1, 1, 1], [1, 4], [7], [20], [1]]


def test_who_waits_behind_a_silent_store_is_given_up_on_too(runtime: Runtime) -> None:
    desk = StoreThreads(runtime.another, threads=1, patience_seconds=0.05)
    let_go = Event()

    def hangs(_: Store, items: Sequence[int]) -> list[int]:
        let_go.wait(30)
        return list(items)

    async def ask() -> tuple[BaseException | int, ...]:
        first = asyncio.create_task(desk.ask_together(hangs, 1, line="a"))
        await asyncio.sleep(0.01)
        return await asyncio.gather(first, desk.ask_together(hangs, 2, line="a"), return_exceptions=True)

    assert [type(one) for one in asyncio.run(ask())] == [StoreUnavailable] * 2
    let_go.set()
    desk.close()
