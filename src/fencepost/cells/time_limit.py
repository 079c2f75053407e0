"""A limit for one call in all: the time-out of a socket begins anew with each byte that comes."""

from __future__ import annotations

from threading import Thread

from fencepost.model.fast_typing import Callable, TypeVar

T = TypeVar("T")


def within(seconds: float, call: Callable[[], T], *, hang_up: Callable[[], None] = lambda: None) -> T:
    """Return what a call returns, or raise TimeoutError when it takes longer in all.

    What it had sent may still be carried out. A call that is late goes on by itself until `hang_up` ends it; nothing waits
    for it any more.
    """
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(call())
        except BaseException as error:  # noqa: BLE001  # raised below, where the caller is
            errors.append(error)

    thread = Thread(target=run, name="fencepost-cells", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not answers:
        hang_up()
        raise TimeoutError(f"no whole answer within {seconds:g} s")
    return answers[0]
