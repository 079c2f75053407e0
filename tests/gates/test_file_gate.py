"""The file gate: only the newest fence writes, whole files only, and a refusal leaves no trace."""

import fcntl
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.gates.file import FileGate
from fencepost.gates.file_target import FOLDER
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FenceRefused, Misconfigured
from fencepost.model.gate import Proof
from tests.gates.proofs import proof


class NetworkDisk:
    """A disk that other machines use too, in a folder that is synced on top."""

    def kind_of(self, _: str, /) -> str | None:
        return "nfs4"

    def is_network(self, kind: str, /) -> bool:
        return kind == "nfs4"

    def is_synced_folder(self, _: str, /) -> str | None:
        return "Dropbox"


def gate_at(path: object, **options: object) -> FileGate:
    return FileGate(str(path), clock=SystemClock(), **options)  # type: ignore[arg-type]


def traces(directory: Path) -> dict[str, object]:
    """Everything that a write could leave behind, except the lock and the time of the folder that it stands in."""
    return {
        str(path.relative_to(directory)): (
            (facts := path.lstat()).st_ino,
            facts.st_mode,
            facts.st_mtime_ns if path.name != FOLDER else None,
            path.read_bytes() if path.is_file() else None,
        )
        for path in [directory, *sorted(directory.rglob("*"))]
        if path.suffix != ".lock"
    }


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.json"


def test_a_holder_writes_more_than_once(out: Path) -> None:
    gate_at(out).write(proof(5), b"first")
    gate_at(out).write(proof(5), b"second")

    assert out.read_bytes() == b"second"


def test_a_newer_fence_writes_without_being_raised_first(out: Path) -> None:
    gate_at(out).write(proof(5), b"old")
    gate_at(out).write(proof(6), b"new")

    with pytest.raises(FenceRefused, match="fence 6"):
        gate_at(out).write(proof(5), b"zombie")
    assert out.read_bytes() == b"new"


def test_a_lower_fence_is_refused_and_nothing_at_all_changes(out: Path) -> None:
    gate_at(out).write(proof(5), b"kept")
    gate_at(out).raise_fence(proof(6))
    before = traces(out.parent)

    with pytest.raises(FenceRefused, match=r"yours is 5.*Nothing was written; stop"):
        gate_at(out).write(proof(5), b"zombie")

    assert traces(out.parent) == before


def test_a_fence_that_is_raised_while_the_data_comes_refuses_the_write_and_leaves_no_trace(out: Path) -> None:
    gate_at(out).write(proof(5), b"kept")
    before: dict[str, object] = {}

    def slow_data() -> Iterator[bytes]:
        yield b"zom"
        gate_at(out).raise_fence(proof(6))
        before.update(traces(out.parent))
        yield b"bie"

    with pytest.raises(FenceRefused):
        gate_at(out).write(proof(5), slow_data())

    drafts = {name for name in before if "/tmp-" in name}
    assert len(drafts) == 1
    assert traces(out.parent) == {name: facts for name, facts in before.items() if name not in drafts}


def test_a_gate_that_comes_up_above_while_the_data_comes_refuses_too(out: Path) -> None:
    def slow_data() -> Iterator[bytes]:
        yield b"zombie"
        gate_at(out.parent).raise_fence(proof(6))

    with pytest.raises(FenceRefused):
        gate_at(out).write(proof(5), slow_data())
    assert not out.exists()


def test_a_raise_fences_before_the_successors_first_write(out: Path) -> None:
    gate_at(out).raise_fence(proof(6))

    with pytest.raises(FenceRefused):
        gate_at(out).write(proof(5), b"zombie")
    assert not out.exists()


def test_a_raise_with_a_lower_fence_is_refused(out: Path) -> None:
    gate_at(out).raise_fence(proof(6))

    with pytest.raises(FenceRefused):
        gate_at(out).raise_fence(proof(5))
    assert gate_at(out).status().marks["default lock:z"].fence == 6


def test_every_resource_of_the_proof_is_checked_and_lifted(out: Path) -> None:
    gate_at(out).write(proof(7, "lock:a", "schedule:s"), b"both")

    for name in ("lock:a", "schedule:s"):
        with pytest.raises(FenceRefused):
            gate_at(out).write(proof(6, name, "lock:new"), b"zombie")
    gate_at(out).write(proof(1, "lock:unrelated"), b"other")


def test_another_stores_mark_refuses_until_a_person_adopts_the_gate(out: Path) -> None:
    gate_at(out).raise_fence(proof(900, store="B"))

    with pytest.raises(FenceRefused, match="fenced by store B on host host-1"):
        gate_at(out).write(proof(5), b"data")
    with pytest.raises(FenceRefused, match="--adopt"):
        gate_at(out).raise_fence(proof(5))

    gate_at(out).raise_fence(proof(5), adopt=True)
    gate_at(out).write(proof(5), b"data")
    with pytest.raises(FenceRefused):
        gate_at(out).write(proof(901, store="B"), b"left behind")


BROKEN = [
    b"",
    b"{",
    b"[]",
    b'{"format": 1}',
    b'{"format": 2, "marks": {}}',
    b'{"format": 1, "marks": {"default lock:z": {}}}',
    b'{"format": 1, "marks": {"default lock:z": {"fence": "5", "store": "", "host": "", "run_id": "", "at_us": 1}}}',
]


@pytest.mark.parametrize("content", BROKEN)
def test_broken_marks_let_nobody_pass_until_adopted_and_then_nobody_older(out: Path, content: bytes) -> None:
    gate_at(out).write(proof(5), b"kept")
    marks = out.parent / FOLDER / "out.json.fence"
    marks.write_bytes(content)

    for attempt in (gate_at(out).raise_fence, lambda shown: gate_at(out).write(shown, b"data")):
        with pytest.raises(Misconfigured, match=r"out\.json\.fence cannot be read.*gate raise --adopt file:"):
            attempt(proof(9))
    assert marks.read_bytes() == content

    gate_at(out).raise_fence(proof(9), adopt=True)
    assert marks.with_suffix(".broken").read_bytes() == content
    for name in ("lock:z", "lock:other"):
        with pytest.raises(FenceRefused):
            gate_at(out).write(proof(8, name), b"zombie")
    gate_at(out).write(proof(9), b"new")


def test_a_planted_pipe_or_symlink_in_place_of_the_marks_lets_nobody_pass(out: Path) -> None:
    gate_at(out).write(proof(5), b"kept")
    marks = out.parent / FOLDER / "out.json.fence"
    for plant in (os.mkfifo, lambda path: path.symlink_to(out)):
        marks.unlink()
        plant(marks)
        with pytest.raises(Misconfigured, match="cannot be read"):
            gate_at(out).write(proof(9), b"data")


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    for attempt in (
        lambda: gate_at(tmp_path / "no" / "out").write(proof(5), b"data"),
        lambda: gate_at(tmp_path / "no" / "out").raise_fence(proof(5)),
        lambda: gate_at(f"{tmp_path}/no/").raise_fence(proof(5)),
    ):
        with pytest.raises(Misconfigured, match=f"there is no directory {tmp_path}/no"):
            attempt()


def test_a_lock_on_a_file_that_was_deleted_meanwhile_does_not_count(out: Path) -> None:
    gate_at(out).write(proof(5), b"first")
    lock = out.parent / FOLDER / "out.json.lock"
    holder = lock.open()
    fcntl.flock(holder, fcntl.LOCK_EX)

    class Deleting(SystemClock):
        def sleep(self, seconds: float) -> None:
            lock.unlink(missing_ok=True)
            holder.close()
            super().sleep(seconds)

    FileGate(str(out), clock=Deleting()).write(proof(5), b"second")

    assert out.read_bytes() == b"second"
    assert lock.exists(), "the write was done under a new lock"


def test_the_mode_of_an_existing_file_is_kept(out: Path) -> None:
    out.write_bytes(b"old")
    out.chmod(0o640)

    gate_at(out).write(proof(5), b"new")

    assert stat.S_IMODE(out.stat().st_mode) == 0o640


def test_a_new_file_has_the_mode_that_the_umask_gives(out: Path) -> None:
    plain = out.with_name("plain")
    plain.write_bytes(b"")

    gate_at(out).write(proof(5), b"new")

    assert out.stat().st_mode == plain.stat().st_mode


def test_marks_and_locks_are_private_whatever_the_umask(out: Path) -> None:
    before = os.umask(0)
    try:
        gate_at(out).write(proof(5), b"new")
    finally:
        os.umask(before)

    folder = out.parent / FOLDER
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_hard_link_keeps_the_old_content(out: Path) -> None:
    out.write_bytes(b"old")
    link = out.with_name("link")
    link.hardlink_to(out)

    gate_at(out).write(proof(5), b"new")

    assert (out.read_bytes(), link.read_bytes()) == (b"new", b"old")


def test_git_does_not_see_the_marks(out: Path) -> None:
    gate_at(out).write(proof(5), b"new")

    assert (out.parent / FOLDER / ".gitignore").read_text() == "*\n"


@pytest.mark.parametrize("name", [".dir", "x" * 255, "ünïcode näme", "tmp-x", "-n"])
def test_odd_names_have_gates_of_their_own(tmp_path: Path, name: str) -> None:
    gate_at(tmp_path / name).write(proof(5), b"data")
    gate_at(tmp_path / "neighbour").write(proof(4), b"data")

    with pytest.raises(FenceRefused):
        gate_at(tmp_path / name).write(proof(4), b"zombie")


def test_the_data_may_be_a_stream_or_chunks(out: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"streamed")

    with source.open("rb") as stream:
        assert gate_at(out).write(proof(5), stream) == 8
    assert out.read_bytes() == b"streamed"
    assert gate_at(out).write(proof(5), [b"in ", b"", b"chunks"]) == 9
    assert out.read_bytes() == b"in chunks"


def test_data_that_breaks_off_leaves_the_old_content_and_no_draft(out: Path) -> None:
    gate_at(out).write(proof(5), b"kept")
    before = traces(out.parent)

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError(5, "Input/output error")

    with pytest.raises(Misconfigured, match="Input/output error"):
        gate_at(out).write(proof(5), broken())
    assert traces(out.parent) == before


def test_the_canonical_target_is_the_real_directory_and_the_name(tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)

    assert gate_at(tmp_path / "link" / "out").target == f"file:{real}/out"
    assert gate_at(f"/{tmp_path}/real/../link/out").target == f"file:{real}/out"
    assert gate_at(tmp_path / "link").target == f"file:{real}/"
    assert gate_at(f"{tmp_path}/new/").target == f"file:{tmp_path}/new/"


def test_a_network_file_system_is_refused_before_anything_is_made(out: Path) -> None:
    gate = gate_at(out, disk=NetworkDisk)

    for attempt in (lambda: gate.raise_fence(proof(5)), lambda: gate.write(proof(5), b"data")):
        with pytest.raises(Misconfigured, match="network file system"):
            attempt()
    assert list(out.parent.iterdir()) == []
    assert len(gate.status().warnings) == 2


def test_status_tells_the_marks_and_makes_nothing(out: Path) -> None:
    assert gate_at(out).status().marks == {}
    assert list(out.parent.iterdir()) == []

    gate_at(out).raise_fence(proof(5))

    status = gate_at(out).status()
    assert status.target == f"file:{out}"
    assert (status.marks["default lock:z"].fence, status.marks["default lock:z"].store) == (5, "A")


def test_status_warns_where_others_may_write_past_the_gate(out: Path) -> None:
    out.parent.chmod(0o777)

    assert gate_at(out).status().warnings == (f"others may write in {out.parent}, past the gate.",)


def test_drafts_of_dead_writers_are_swept_at_the_next_raise_and_those_of_live_ones_are_not(out: Path) -> None:
    gate_at(out).write(proof(5), b"first")
    abandoned = out.parent / FOLDER / ("tmp-" + "0" * 32)
    abandoned.write_bytes(b"half")

    def slow_data() -> Iterator[bytes]:
        yield b"new"
        gate_at(out).raise_fence(proof(5))

    gate_at(out).write(proof(5), slow_data())

    assert out.read_bytes() == b"new"
    assert not abandoned.exists()


def test_of_two_writers_at_once_the_higher_fence_has_the_last_word(out: Path) -> None:
    for round_number in range(200):
        fences = (2 * round_number + 1, 2 * round_number + 2)
        start = threading.Barrier(2)
        threads = [threading.Thread(target=_write_or_be_refused, args=(out, fence, start)) for fence in fences]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert out.read_bytes() == b"%d" % fences[1]


def _write_or_be_refused(out: Path, fence: int, start: threading.Barrier) -> None:
    start.wait()
    with suppress(FenceRefused):  # the other one was quicker, and is newer
        gate_at(out).write(proof(fence), b"%d" % fence)


def test_of_two_thousand_stale_writes_none_passes(out: Path) -> None:
    gate = gate_at(out)
    gate.write(proof(10_000), b"kept")
    before = traces(out.parent)

    for fence in range(8_000, 10_000):
        with pytest.raises(FenceRefused):
            gate.write(proof(fence), b"zombie")

    assert traces(out.parent) == before


SHOWN = st.tuples(
    st.sampled_from(["write", "raise", "below"]), st.sampled_from(["lock:a", "lock:b"]), st.integers(1, 6)
)


@settings(deadline=None, max_examples=40)
@given(shown=st.lists(SHOWN, max_size=8))
def test_whatever_the_order_the_content_is_of_the_last_fence_that_was_not_stale(
    tmp_path_factory: pytest.TempPathFactory, shown: list[tuple[str, str, int]]
) -> None:
    directory = tmp_path_factory.mktemp("any-order")
    gate_at(directory).raise_fence(proof(1, "lock:a", "lock:b"))
    highest: dict[str, int] = {}
    content = None
    for verb, name, fence in shown:
        passes = fence >= highest.get(name, 0)
        assert _passed(directory, verb, proof(fence, name)) == passes
        if passes:
            highest[name] = fence
            content = b"%d" % fence if verb != "raise" else content
    assert content == ((directory / "out").read_bytes() if (directory / "out").exists() else None)


def _passed(directory: Path, verb: str, shown: Proof) -> bool:
    try:
        if verb == "write":
            gate_at(directory / "out").write(shown, b"%d" % shown.fence)
        elif verb == "below":
            gate_at(directory).write(shown, b"%d" % shown.fence, beneath="out")
        else:
            gate_at(directory).raise_fence(shown)
    except FenceRefused:
        return False
    return True
