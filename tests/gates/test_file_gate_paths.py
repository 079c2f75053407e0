"""Where a file gate lets a write land: at its target or below it, whatever is swapped in on the way."""

import itertools
import os
import threading
from pathlib import Path

import pytest

from fencepost.gates.file import FileGate
from fencepost.gates.file_target import FOLDER
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FencepostError, FenceRefused, Invalid, Misconfigured
from tests.gates.proofs import proof

SWAP_ROUNDS = 2_000
SWAP_RESTS = (0.0, 0.0, 0.0, 0.002)


def gate_at(path: object) -> FileGate:
    return FileGate(str(path), clock=SystemClock())


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    (site / "sub").mkdir(parents=True)
    return site


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    outside.mkdir()
    return outside


def test_a_directory_gate_guards_everything_below_it(site: Path) -> None:
    gate_at(site).raise_fence(proof(5))

    gate_at(site).write(proof(5), b"below", beneath="sub/a")
    assert (site / "sub" / "a").read_bytes() == b"below"
    with pytest.raises(FenceRefused):
        gate_at(site).write(proof(4), b"zombie", beneath="sub/b")
    assert not (site / "sub" / FOLDER).exists()


def test_a_file_is_also_guarded_by_every_gated_directory_above_it(site: Path) -> None:
    gate_at(site).raise_fence(proof(5))

    with pytest.raises(FenceRefused, match=f"file:{site}/ has seen fence 5"):
        gate_at(site / "sub" / "a").write(proof(4), b"zombie")
    gate_at(site / "sub" / "a").write(proof(6), b"newer")
    with pytest.raises(FenceRefused):
        gate_at(site).write(proof(5), b"zombie", beneath="other")


def test_below_a_gated_directory_a_files_own_marks_count_too(site: Path) -> None:
    gate_at(site).raise_fence(proof(5))
    gate_at(site / "sub" / "a").raise_fence(proof(7))

    with pytest.raises(FenceRefused):
        gate_at(site).write(proof(6), b"zombie", beneath="sub/a")
    gate_at(site).write(proof(6), b"fine", beneath="sub/b")
    assert gate_at(site / "sub" / "a").status().marks["default lock:z"].fence == 7


def test_a_check_tells_what_a_write_would_meet(site: Path) -> None:
    gate_at(site).raise_fence(proof(5))

    gate_at(site).check(proof(5))
    gate_at(site / "sub" / "a").check(proof(5))
    for refused in (gate_at(site), gate_at(site / "sub" / "a")):
        with pytest.raises(FenceRefused):
            refused.check(proof(4))


@pytest.mark.parametrize("beneath", ["../escape", "sub/../../escape", "/etc/escape", "..", "sub/..", ".", "", "sub/a/"])
def test_a_name_that_leads_out_of_the_directory_or_to_no_file_is_refused(site: Path, beneath: str) -> None:
    with pytest.raises(Invalid):
        gate_at(site).write(proof(5), b"data", beneath=beneath)

    assert not (site.parent / "escape").exists()


def test_a_file_gate_has_nothing_below_it(site: Path) -> None:
    with pytest.raises(Invalid, match="is one file"):
        gate_at(site / "a").write(proof(5), b"data", beneath="b")


@pytest.mark.parametrize("beneath", [f"{FOLDER}/.dir.fence", f"sub/{FOLDER}/x", ".Fencepost/x", FOLDER])
def test_the_marks_cannot_be_written_through_the_gate(site: Path, beneath: str) -> None:
    gate_at(site).raise_fence(proof(5))

    with pytest.raises(Invalid, match="keeps its marks"):
        gate_at(site).write(proof(5), b"{}", beneath=beneath)
    with pytest.raises(Invalid, match="keeps its marks"):
        gate_at(site / beneath).write(proof(5), b"{}")


@pytest.mark.parametrize("name", ["new\nline", "nul\0", "\x7f", "not-utf8-\udcff"])
def test_a_name_that_cannot_be_shown_on_one_line_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Invalid):
        gate_at(f"{tmp_path}/{name}")


def test_a_symlink_as_the_target_is_not_followed(site: Path, outside: Path) -> None:
    (outside / "precious").write_bytes(b"kept")
    (site / "link").symlink_to(outside / "precious")
    (site / "dangling").symlink_to(outside / "new")

    for name in ("link", "dangling"):
        with pytest.raises(Misconfigured, match="is a symlink"):
            gate_at(site / name).write(proof(5), b"data")
        with pytest.raises(Misconfigured, match="is a symlink"):
            gate_at(site).write(proof(5), b"data", beneath=name)
    assert (outside / "precious").read_bytes() == b"kept"
    assert not (outside / "new").exists()


def test_a_symlink_below_the_directory_is_not_followed(site: Path, outside: Path) -> None:
    (site / "link").symlink_to(outside)

    with pytest.raises(Misconfigured, match="symlink, which a gate never follows"):
        gate_at(site).write(proof(5), b"data", beneath="link/a")
    assert list(outside.iterdir()) == []


def test_a_directory_that_became_a_symlink_after_the_gate_was_opened_is_not_followed(site: Path, outside: Path) -> None:
    gate = gate_at(site / "sub" / "a")
    (site / "sub").rmdir()
    (site / "sub").symlink_to(outside)

    with pytest.raises(Misconfigured, match="symlink"):
        gate.write(proof(5), b"data")
    with pytest.raises(Misconfigured, match="symlink"):
        gate.raise_fence(proof(5))
    assert list(outside.iterdir()) == []


def test_a_folder_of_marks_that_is_a_symlink_is_not_trusted(site: Path, outside: Path) -> None:
    (site / FOLDER).symlink_to(outside)

    for attempt in (gate_at(site).raise_fence, lambda shown: gate_at(site / "a").write(shown, b"data")):
        with pytest.raises(Misconfigured, match="cannot be trusted"):
            attempt(proof(5))
    assert list(outside.iterdir()) == []


def test_a_lock_file_that_is_a_symlink_is_not_followed(site: Path, outside: Path) -> None:
    gate_at(site / "a").write(proof(5), b"data")
    (site / FOLDER / "a.lock").unlink()
    (site / FOLDER / "a.lock").symlink_to(outside / "planted")

    with pytest.raises(Misconfigured, match="cannot write"):
        gate_at(site / "a").write(proof(5), b"data")
    assert list(outside.iterdir()) == []


def test_pipes_directories_and_devices_are_refused(site: Path) -> None:
    os.mkfifo(site / "pipe")

    with pytest.raises(Misconfigured, match="a pipe, a socket or a device"):
        gate_at(site / "pipe").write(proof(5), b"data")
    with pytest.raises(Misconfigured, match="is a directory"):
        gate_at(site).write(proof(5), b"data", beneath="sub")
    with pytest.raises(Invalid, match="is a directory"):
        gate_at(site / "sub").write(proof(5), b"data")
    assert not (site / FOLDER).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_where_everybody_may_write_another_users_marks_are_not_believed(site: Path) -> None:
    site.chmod(0o1777)
    gate_at(site).raise_fence(proof(9))
    os.chown(site / FOLDER, 1234, 1234)

    gate_at(site / "sub" / "a").write(proof(5), b"data")
    with pytest.raises(Misconfigured, match="belongs to another user"):
        gate_at(site).raise_fence(proof(10))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of another user")
def test_root_keeps_owner_and_group_of_what_it_replaces(site: Path) -> None:
    (site / "a").write_bytes(b"old")
    os.chown(site / "a", 1234, 4321)

    gate_at(site / "a").write(proof(5), b"new")

    facts = (site / "a").stat()
    assert (facts.st_uid, facts.st_gid) == (1234, 4321)


def test_no_swap_of_a_directory_for_a_symlink_leads_a_write_outside(site: Path, outside: Path) -> None:
    gate = gate_at(site)
    gate.raise_fence(proof(5))
    (site / "evil").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        for rest in itertools.cycle(SWAP_RESTS):  # without rests, a writer may always meet the same one
            os.rename(site / "sub", site / "kept")
            os.rename(site / "evil", site / "sub")
            done.wait(rest)
            os.rename(site / "sub", site / "evil")
            os.rename(site / "kept", site / "sub")
            if done.wait(rest):
                return

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        written = sum(_is_written(gate) for _ in range(SWAP_ROUNDS))
    finally:
        done.set()
        swapper.join()

    assert list(outside.iterdir()) == []
    assert 0 < written < SWAP_ROUNDS, "some writes met the directory, some the symlink"


def _is_written(gate: FileGate) -> bool:
    try:
        gate.write(proof(5), b"data", beneath="sub/a")
    except FencepostError:
        return False
    return True
