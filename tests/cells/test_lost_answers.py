"""Answers that never came: a machine finds out by reading whether its swap was carried out, on every kind of store."""

from collections.abc import Callable, Collection
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from fencepost.model.cell import patience
from fencepost.model.errors import LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.lease import Granted, Refused
from fencepost.ports.cells import Answer, Cells, Read, SwapOutcome
from tests.cells.grounds import Machine, Machines, pass_time
from tests.support.redis import RedisServer
from tests.support.s3 import CREDENTIALS, S3Server

TTL = 30.0
ROUNDS = 8


class Unreliable:
    """Cells whose next swaps go wrong in a certain way."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.facts = cells.facts
        self.trouble: list[Callable[..., SwapOutcome]] = []

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        if self.trouble:
            return self.trouble.pop(0)(name, tag, document, seconds)
        return self._cells.swap(name, tag, document, seconds=seconds)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        return self._cells.read(names, seconds=seconds)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._cells, name)

    def unheard(self, name: str, tag: str | None, document: bytes | None, seconds: float) -> SwapOutcome:
        """Carry it out and lose the answer."""
        self._cells.swap(name, tag, document, seconds=seconds)
        return SwapOutcome(None, Answer.UNKNOWN)

    def repeated(self, name: str, tag: str | None, document: bytes | None, seconds: float) -> SwapOutcome:
        """Carry it out twice, as a library that tries again by itself: the second one is a conflict with the first."""
        self._cells.swap(name, tag, document, seconds=seconds)
        return self._cells.swap(name, tag, document, seconds=seconds)

    def dropped(self, *_: object) -> SwapOutcome:
        """Lose the request."""
        return SwapOutcome(None, Answer.UNKNOWN)


@pytest.fixture
def link(machines: Machines) -> Unreliable:
    return Unreliable(machines.ground.cells())


@pytest.fixture
def a(machines: Machines, link: Unreliable) -> Machine:
    return machines("a", cells=link)


@pytest.fixture
def b(machines: Machines) -> Machine:
    return machines("b")


@pytest.mark.parametrize("how", ["unheard", "repeated", "dropped"])
def test_a_grant_a_renewal_and_an_end_are_known_by_reading(a: Machine, b: Machine, link: Unreliable, how: str) -> None:
    wrong = getattr(link, how)
    link.trouble = [wrong]
    lease = a.granted()
    assert isinstance(b.store.acquire(b.claim()), Refused)

    link.trouble = [wrong]
    a.store.renew(lease)
    link.trouble = [wrong]
    a.store.release(lease, clean=True)
    b.granted()


def test_a_store_that_swallows_every_swap_is_unavailable_and_costs_no_lease(a: Machine, link: Unreliable) -> None:
    lease = a.granted()
    link.trouble = [link.dropped] * 20
    with pytest.raises(StoreUnavailable):
        a.store.renew(lease)

    link.trouble = []
    a.store.renew(lease)


def test_a_grant_that_landed_unheard_is_found_by_asking_again(a: Machine, b: Machine, link: Unreliable) -> None:
    claim = a.claim()
    link.trouble = [link.dropped] * 4 + [link.unheard]
    first = a.store.acquire(claim)
    again = a.store.acquire(claim)

    assert isinstance(first, Granted)
    assert isinstance(again, Granted)
    assert again.lease.fence == first.lease.fence
    assert isinstance(b.store.acquire(b.claim()), Refused)


def test_of_two_with_equal_sightings_one_takes_over(machines: Machines) -> None:
    holder, takers = machines("holder"), [machines("b"), machines("c")]
    fences = [holder.granted().fence]
    for _ in range(ROUNDS):
        for taker in takers:
            assert isinstance(taker.store.acquire(taker.claim()), Refused)
        pass_time(patience(TTL), *takers)
        answers = race(takers)
        granted = [one for one in answers if isinstance(one, Granted)]
        assert len(granted) == 1, answers
        fences.append(granted[0].lease.fence)

    assert fences == sorted(set(fences))


def race(takers: list[Machine]) -> list[object]:
    together = Barrier(len(takers))
    answers: list[object] = []

    def take(machine: Machine) -> None:
        claim = machine.claim()
        together.wait()
        try:
            answers.append(machine.store.acquire(claim))
        except LeaseLost as error:
            answers.append(error)

    threads = [Thread(target=take, args=(machine,)) for machine in takers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def test_a_bucket_that_ignores_conditions_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from fencepost.cells.probe import probe  # noqa: PLC0415
    from fencepost.wiring.cell_stores import open_cells  # noqa: PLC0415

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with S3Server.running("careless") as server:
        cells = open_cells(f"s3://{server.new_bucket()}/x?endpoint_url={server.endpoint}")
        with pytest.raises(Misconfigured, match="cannot keep leases: it creates a cell that is there already"):
            probe(cells)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "words"),
    [("maxmemory 100mb\nmaxmemory-policy allkeys-lru\n", "may evict leases"), ("appendonly no\n", "")],
)
def test_a_redis_that_forgets_is_refused_or_warned_about(settings: str, words: str) -> None:
    from fencepost.cells.probe import probe  # noqa: PLC0415
    from fencepost.wiring.cell_stores import open_cells  # noqa: PLC0415

    with RedisServer.running(settings) as server:
        cells = open_cells(server.url)
        if words:
            with pytest.raises(Misconfigured, match=words):
                probe(cells)
        else:
            assert "append-only" in probe(cells)[0]
        cells.close()


def test_a_remote_that_refuses_the_refs_is_told_by_the_probe(tmp_path: Path) -> None:
    import subprocess  # noqa: PLC0415

    from fencepost.cells.probe import probe  # noqa: PLC0415
    from fencepost.operations.gate_kinds import open_gate  # noqa: PLC0415
    from fencepost.wiring.cell_stores import open_cells  # noqa: PLC0415

    path = tmp_path / "site.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    hook = path / "hooks" / "update"
    hook.write_text('#!/bin/sh\ncase "$1" in refs/heads/*) exit 0;; esac\necho "only branches here" >&2\nexit 1\n')
    hook.chmod(0o755)
    cells = open_cells(f"git+file://{path}")
    try:
        with pytest.raises(Misconfigured, match="only branches here"):
            probe(cells)
    finally:
        cells.close()
    with pytest.raises(Misconfigured, match="only branches here"):
        open_gate(f"git:{path}#branch=main").probe()  # type: ignore[attr-defined]  # of its own kind
