"""The garbage collector is held back for a while, and then goes on as before."""

import gc

import pytest

from fencepost.host.garbage import uncollected


def test_nobody_looks_for_garbage_meanwhile_and_afterwards_as_ever() -> None:
    with uncollected():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_goes_on_after_an_error_too() -> None:
    with pytest.raises(ZeroDivisionError), uncollected():
        _ = 1 // 0
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
