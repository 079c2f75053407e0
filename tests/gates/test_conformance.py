"""What every kind of gate keeps, whatever its target: one suite, real targets."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.model.errors import FencepostError, FenceRefused, GateUnreachable
from fencepost.model.gate import FENCE_MAX, Mark, RefusedByMark
from tests.gates.frozen import frozen_in_the_middle
from tests.gates.harness import HARNESSES, Harness
from tests.gates.proofs import proof
from tests.support.scratch import wait_until

PATIENCE_SECONDS = 60.0


@pytest.fixture(params=HARNESSES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def harness(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Harness]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fencepost.gates.sql.open_database.WAIT_SECONDS", 2)
    for name in [name for name in os.environ if name.startswith("FENCEPOST_") and "TEST" not in name]:
        monkeypatch.delenv(name)
    with HARNESSES[kind](tmp_path, request.getfixturevalue) as made:
        yield made


def mark(harness: Harness, resource: str = "lock:z") -> Mark:
    return harness.gate().status().marks[f"default {resource}"]


def facts(harness: Harness) -> tuple[object, ...]:
    """All that a write could change: the payload, and every mark."""
    return harness.content(), harness.gate().status().marks


def test_a_raise_lifts_the_mark_and_says_whose_it_is(harness: Harness) -> None:
    assert harness.gate().status().marks == {}

    harness.gate().raise_fence(proof(5))

    assert mark(harness)[:4] == (5, "A", "host-1", "run-5")
    assert mark(harness).at_us > 0
    assert harness.content() is None


def test_a_holder_writes_more_than_once(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))
    harness.write(proof(5), "first")
    harness.write(proof(5), "second")

    assert harness.content() == "second"


def test_a_newer_fence_passes_and_lifts_the_mark(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))
    if not harness.write_lifts:
        harness.gate().raise_fence(proof(6))
    harness.write(proof(6), "newer")

    assert mark(harness).fence == 6
    with pytest.raises(FenceRefused):
        harness.write(proof(5), "zombie")
    assert harness.content() == "newer"


def test_a_stale_fence_is_refused_and_nothing_changes(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))
    harness.write(proof(5), "kept")
    harness.gate().raise_fence(proof(6))
    before = facts(harness)

    attempts: list[Callable[[], object]] = [
        lambda: harness.write(proof(5), "zombie"),
        lambda: harness.gate().raise_fence(proof(5)),
        lambda: harness.gate().check(proof(5)),
    ]
    for attempt in attempts:
        with pytest.raises(RefusedByMark, match=r"has seen fence 6 for lock:z, yours is 5.*stop"):
            attempt()

    assert facts(harness) == before


def test_a_raise_counts_before_the_successors_first_write(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))
    harness.gate().raise_fence(proof(6))

    with pytest.raises(FenceRefused):
        harness.write(proof(5), "zombie")
    assert harness.content() is None


def test_a_check_tells_what_a_write_would_meet_and_changes_nothing(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))
    before = facts(harness)

    harness.gate().check(proof(5))
    harness.gate().check(proof(7))
    with pytest.raises(FenceRefused):
        harness.gate().check(proof(4))

    assert facts(harness) == before


def test_another_run_with_the_same_fence_is_refused(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))
    before = facts(harness)

    attempts: list[Callable[[], object]] = [
        lambda: harness.write(proof(5, run="run-twin"), "twin"),
        lambda: harness.gate().raise_fence(proof(5, run="run-twin")),
    ]
    for attempt in attempts:
        with pytest.raises(FenceRefused, match="run run-5 has the same"):
            attempt()
    assert facts(harness) == before


def test_another_stores_mark_refuses_until_a_person_adopts_the_gate(harness: Harness) -> None:
    harness.gate().raise_fence(proof(900, store="B"))
    before = facts(harness)

    attempts: list[Callable[[], object]] = [
        lambda: harness.write(proof(5), "data"),
        lambda: harness.gate().raise_fence(proof(5)),
    ]
    for attempt in attempts:
        with pytest.raises(FenceRefused, match=r"fenced by store B on host host-1.*--adopt"):
            attempt()
    assert facts(harness) == before

    harness.gate().raise_fence(proof(5), adopt=True)
    harness.write(proof(5), "moved")
    with pytest.raises(FenceRefused):
        harness.write(proof(901, store="B"), "left behind")
    assert harness.content() == "moved"
    assert mark(harness).fence == 5


def test_adopting_does_not_let_a_stale_fence_of_the_same_store_pass(harness: Harness) -> None:
    harness.gate().raise_fence(proof(6))

    with pytest.raises(FenceRefused):
        harness.gate().raise_fence(proof(5), adopt=True)


def test_the_refusal_carries_the_mark_so_that_a_store_that_went_back_is_told(harness: Harness) -> None:
    harness.gate().raise_fence(proof(900))

    with pytest.raises(RefusedByMark) as refused:
        harness.gate().raise_fence(proof(5))

    assert (refused.value.key, refused.value.mark.fence, refused.value.mark.store) == ("default lock:z", 900, "A")


def test_every_resource_of_the_proof_is_checked_and_lifted(harness: Harness) -> None:
    harness.gate().raise_fence(proof(7, "lock:a", "schedule:s"))
    harness.write(proof(7, "lock:a", "schedule:s"), "both")

    for name in ("lock:a", "schedule:s"):
        with pytest.raises(FenceRefused):
            harness.write(proof(6, "lock:new", name), "zombie")
    assert harness.content() == "both"
    assert "default lock:new" not in harness.gate().status().marks, "a refused write lifts nothing"


def test_unrelated_resources_do_not_fence_one_another(harness: Harness) -> None:
    harness.gate().raise_fence(proof(7, "lock:a"))
    harness.gate().raise_fence(proof(3, "lock:b"))
    harness.write(proof(3, "lock:b"), "other")

    assert harness.content() == "other"


def test_tenants_do_not_fence_one_another(harness: Harness) -> None:
    harness.gate().raise_fence(proof(7))
    harness.gate().raise_fence(proof(3)._replace(tenant="red"))
    harness.write(proof(3)._replace(tenant="red"), "theirs")

    assert harness.content() == "theirs"


def test_a_proof_for_no_resource_proves_nothing(harness: Harness) -> None:
    harness.gate().raise_fence(proof(5))

    with pytest.raises(FenceRefused, match="no resource"):
        harness.write(proof(5)._replace(resources=()), "data")


def test_hostile_names_are_only_names(harness: Harness) -> None:
    names = ("lock:x'; DROP TABLE fencepost_fence; --", "lock:../../etc", "lock:-rf", 'lock:"quoted"', "lock:ünï")
    harness.gate().raise_fence(proof(5, *names))

    assert {f"default {name}" for name in names} <= harness.gate().status().marks.keys()
    for name in names:
        with pytest.raises(FenceRefused):
            harness.write(proof(4, name), "zombie")


def test_the_greatest_fence_passes_and_fits(harness: Harness) -> None:
    harness.gate().raise_fence(proof(FENCE_MAX))
    harness.write(proof(FENCE_MAX), "last")

    assert (harness.content(), mark(harness).fence) == ("last", FENCE_MAX)


@pytest.mark.parametrize("fence", [FENCE_MAX + 1, 2**63 - 1])
def test_a_number_that_no_store_gives_out_shuts_nobody_out(harness: Harness, fence: int) -> None:
    harness.gate().raise_fence(proof(5))
    before = facts(harness)

    attempts: list[Callable[[], object]] = [
        lambda: harness.write(proof(fence), "made up"),
        lambda: harness.gate().raise_fence(proof(fence)),
        lambda: harness.gate().check(proof(fence)),
    ]
    for attempt in attempts:
        with pytest.raises(FencepostError):
            attempt()

    assert facts(harness) == before
    harness.write(proof(5), "kept")


def test_the_store_can_be_lifted_above_every_mark_or_a_person_puts_the_mark_right(harness: Harness) -> None:
    harness.gate().raise_fence(proof(FENCE_MAX, run=""))

    with pytest.raises(FenceRefused, match=r"which no store has given out.*--adopt"):
        harness.gate().raise_fence(proof(6))
    harness.gate().raise_fence(proof(6), adopt=True)
    harness.write(proof(6), "mine again")

    assert (harness.content(), mark(harness).fence) == ("mine again", 6)
    with pytest.raises(FenceRefused):
        harness.gate().raise_fence(proof(5), adopt=True)


def test_once_a_raise_has_returned_a_write_that_was_on_its_way_has_no_effect(harness: Harness) -> None:
    """The raise waits for the write, or the write is refused; there is no third order."""
    harness.gate().raise_fence(proof(5))
    at_return: list[str | None] = []
    raising = threading.Thread(target=_raise_patiently, args=(harness, at_return))

    def meanwhile() -> None:
        raising.start()
        raising.join(timeout=1.0)

    with suppress(FencepostError):
        harness.write(proof(5), "late", meanwhile)
    raising.join(timeout=PATIENCE_SECONDS)

    assert at_return == [harness.content()], "what was there when the raise returned is there for good"


def _raise_patiently(harness: Harness, at_return: list[str | None]) -> None:
    def raised() -> bool:
        with suppress(GateUnreachable):  # held by the write that is under way
            harness.gate().raise_fence(proof(6))
            at_return.append(harness.content())
        return bool(at_return)

    wait_until(raised, what="the gate is raised", seconds=PATIENCE_SECONDS)


def test_a_writer_frozen_between_its_check_and_its_write_cannot_write_after_the_successor_started(
    kind: str, harness: Harness
) -> None:
    harness.gate().raise_fence(proof(5))

    frozen_in_the_middle(kind, harness, old=proof(5), new=proof(6))


def test_the_command_line_raises_checks_shows_and_refuses(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    shown = ["--resource", "lock:z", "--fence"]
    assert main(["gate", "raise", harness.target, *shown, "6"]) == 0
    assert main(["gate", "check", harness.target, *shown, "6"]) == 0
    assert main(["gate", "status", harness.target]) == 0
    assert "lock:z  fence 6" in capsys.readouterr().out

    assert main(["gate", "check", harness.target, *shown, "5"]) == 77
    assert main(["gate", "raise", harness.target, *shown, "5"]) == 77
    assert "a newer run has started" in capsys.readouterr().err


def test_a_shell_writes_through_it_and_a_stale_one_gets_77(harness: Harness, tmp_path: Path) -> None:
    harness.gate().raise_fence(proof(5, store=None))

    assert _shell(harness.command("written"), tmp_path, fence=5) == 0
    assert harness.content() == "written"
    harness.gate().raise_fence(proof(6, store=None))
    assert _shell(harness.command("zombie"), tmp_path, fence=5) == 77
    assert harness.content() == "written"


def _shell(command: str, folder: Path, *, fence: int) -> int:
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "FENCEPOST_RESOURCE": "lock:z",
        "FENCEPOST_FENCE": str(fence),
    }
    return subprocess.run(["sh", "-c", command], cwd=folder, env=env, timeout=PATIENCE_SECONDS, check=False).returncode
