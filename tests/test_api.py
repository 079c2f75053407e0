"""The library: hold a lease from a Python program."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost import Busy, FenceRefused, InDoubt, LeaseLost, NotDone, StoreUnavailable, lease, try_lease
from fencepost.model.errors import Invalid, Misconfigured
from fencepost.ports.store import LeaseStore
from fencepost.wiring import open_store
from tests.support.locked import locked
from tests.support.scratch import wait_until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:{tmp_path}/state.db"


@pytest.fixture
def store(url: str) -> Iterator[LeaseStore]:
    opened = open_store(url)
    yield opened
    opened.close()


def take_away(store: LeaseStore) -> None:
    for held in store.leases():
        assert store.break_lease(held, why="by hand")


def test_it_is_held_inside_the_block_and_free_afterwards(url: str, store: LeaseStore) -> None:
    with lease("nightly", store=url) as held:
        assert held.resources == ("lock:nightly",)
        assert not held.lost
        held.check()
        assert try_lease("nightly", store=url) is None
        with pytest.raises(Busy, match="lock:nightly is held by"):
            lease("nightly", wait=None, store=url)
    assert store.leases() == []
    assert held.lost


def test_the_next_fence_is_higher(url: str) -> None:
    with lease("nightly", store=url) as first:
        pass
    with lease("nightly", store=url) as second:
        assert second.fence > first.fence


def test_waiting_ends_when_its_time_is_up(url: str) -> None:
    with lease("nightly", store=url), pytest.raises(Busy, match="Waited 100ms"):
        lease("nightly", wait="100ms", store=url)


def test_a_lease_that_was_taken_away_is_noticed_and_raised_at_the_end(url: str, store: LeaseStore) -> None:
    with pytest.raises(LeaseLost), lease("nightly", ttl="1500ms", store=url) as held:  # noqa: PT012  # at its end
        take_away(store)
        wait_until(lambda: held.lost, what="the loss is noticed")
        with pytest.raises(LeaseLost, match="no longer held"):
            held.check()
    assert store.leases() == []


def test_an_error_of_the_block_is_not_hidden_by_the_loss(url: str, store: LeaseStore) -> None:
    with pytest.raises(KeyError), lease("nightly", store=url):  # noqa: PT012  # from inside
        take_away(store)
        raise KeyError


def test_it_is_renewed_for_as_long_as_the_block_takes(url: str, store: LeaseStore) -> None:
    with lease("nightly", ttl="1500ms", store=url) as held:
        wait_until(lambda: store.leases()[0].renewals >= 4, what="more than a ttl of renewals")
        held.check()


def test_releasing_twice_does_nothing_the_second_time(url: str, store: LeaseStore) -> None:
    held = lease("nightly", store=url)
    held.release()
    assert store.leases() == []
    with lease("nightly", store=url):
        held.release()
        assert len(store.leases()) == 1
    with pytest.raises(LeaseLost, match="it was given back"):
        held.check()


def test_silence_of_the_store_counts_as_loss(url: str, store: LeaseStore) -> None:
    assert store.leases() == []
    held = lease("nightly", ttl="400ms", store=url)
    with locked(url):
        wait_until(lambda: held.lost, what="the loss is noticed", seconds=3)
        with pytest.raises(LeaseLost):
            held.check()
    held.release()  # nobody else took it meanwhile, so it can still be given back


def test_a_store_that_is_gone_at_the_end_does_not_undo_the_work(
    url: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fencepost.stores.sqlite.dialect.BUSY_MS", 50)
    monkeypatch.setattr("fencepost.stores.sqlite.store.BUSY_MS", 50)
    held = lease("nightly", store=url)
    os.rename(url.removeprefix("sqlite:"), url.removeprefix("sqlite:") + ".away")
    with held:
        pass
    assert "could not be given back" in capfd.readouterr().err


def test_an_unreachable_store_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnavailable):
        lease("nightly", store=f"sqlite:{tmp_path}/file/state.db")


def test_several_resources_are_held_all_or_none(url: str, store: LeaseStore) -> None:
    with lease("b", "project:x", "a", store=url) as held:
        assert set(held.resources) == {"lock:a", "lock:b", "project:x"}
        assert try_lease("c", "a", store=url) is None
        with lease("c", store=url):
            pass
    assert store.leases() == []


def test_nothing_to_hold_is_said(url: str) -> None:
    with pytest.raises(Invalid, match="name at least one"):
        lease(store=url)


def test_the_same_holder_in_the_same_process_gets_the_lease_it_has(url: str, store: LeaseStore) -> None:
    first = try_lease("drive", holder="session-1", store=url)
    again = try_lease("drive", holder="session-1", store=url)
    assert first is not None
    assert again is not None
    assert again.fence == first.fence
    assert try_lease("drive", holder="session-2", store=url) is None
    assert try_lease("drive", store=url) is None
    first.release()
    again.check()
    assert len(store.leases()) == 1
    again.release()
    assert store.leases() == []


def test_the_same_holder_gets_a_new_fence_after_a_loss(url: str, store: LeaseStore) -> None:
    first = lease("drive", holder="session-1", ttl="1500ms", store=url)
    take_away(store)
    wait_until(lambda: first.lost, what="the loss is noticed")
    with lease("drive", holder="session-1", store=url) as second:
        assert second.fence > first.fence
        with pytest.raises(LeaseLost):
            first.release()
        second.check()


def test_the_same_holder_is_busy_in_another_process(url: str) -> None:
    with lease("drive", holder="session-1", store=url):
        script = f"import fencepost; print(fencepost.try_lease('drive', holder='session-1', store={url!r}))"
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
        assert told.stdout == "None\n"


def test_a_gate_that_was_named_is_raised_and_opened(url: str, tmp_path: Path) -> None:
    target = f"file:{tmp_path}/report"
    with lease("nightly", gates=(target,), store=url) as held:
        gate = held.gate(target)
        assert {mark.fence for mark in gate.status().marks.values()} == {held.fence}


def test_a_gate_that_was_not_named_is_refused(url: str, tmp_path: Path) -> None:
    with lease("nightly", store=url) as held, pytest.raises(Misconfigured, match="was not named"):
        held.gate(f"file:{tmp_path}/report")


def test_a_replaced_holder_cannot_write_through_its_gate(url: str, store: LeaseStore, tmp_path: Path) -> None:
    target = f"file:{tmp_path}/report"
    old = lease("nightly", gates=(target,), store=url)
    gate = old.gate(target)
    take_away(store)
    with lease("nightly", store=url), pytest.raises(FenceRefused):
        gate.write(old.proof, b"late")  # type: ignore[attr-defined]  # a file gate
    assert not (tmp_path / "report").exists()
    with pytest.raises(LeaseLost):
        old.release()


def test_a_forked_child_neither_holds_nor_gives_back(url: str, store: LeaseStore) -> None:
    with lease("nightly", ttl="1500ms", store=url) as held:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                with held:
                    code = 0 if held.lost else 2
                held.release()
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        (row,) = store.leases()
        wait_until(lambda: store.leases()[0].renewals > row.renewals + 1, what="the parent renews")
        held.check()
    assert store.leases() == []


def test_a_forked_child_that_lives_on_does_not_renew(url: str, store: LeaseStore, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys, fencepost\n"
        f"held = fencepost.lease('nightly', ttl='1500ms', store={url!r})\n"
        "if os.fork() == 0:\n"
        f"    open({str(tmp_path / 'child')!r}, 'w').write(str(os.getpid()) + '\\n')\n"
        "signal.pause()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        path = tmp_path / "child"
        wait_until(lambda: path.exists() and path.read_text().endswith("\n"), what="the child lives")
        parent.kill()
        parent.wait(10)
        with lease("nightly", wait="10s", store=url) as held:
            assert [one.fence for one in store.leases() if not one.lost] == [held.fence]
    finally:
        parent.kill()
        parent.wait(10)
        os.kill(int(path.read_text()), signal.SIGKILL)  # noqa: TID251  # the child that this test started


def test_many_leases_leave_no_descriptors_behind(url: str) -> None:
    with lease("nightly", store=url):
        pass
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with lease("nightly", store=url):
            pass
    assert len(os.listdir("/proc/self/fd")) <= before


def test_a_lease_has_effects_once_under_itself(url: str) -> None:
    effects: list[int] = []

    def send() -> dict[str, int]:
        effects.append(1)
        return {"number": len(effects)}

    def fail() -> None:
        raise TimeoutError("no answer")

    with lease("a", store=url) as held:
        assert [held.once("invoice", send), held.once("invoice", send)] == [{"number": 1}] * 2
        with pytest.raises(TimeoutError):
            held.once("pay", fail)
    with lease("b", store=url) as other:
        assert other.once("invoice", send) == {"number": 1}
        with pytest.raises(InDoubt, match="TimeoutError: no answer"):
            other.once("pay", send)
        assert other.once("pay", send, probe=NotDone) == {"number": 2}
    with pytest.raises(LeaseLost):
        held.once("late", send)

    assert len(effects) == 2
