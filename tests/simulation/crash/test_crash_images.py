"""The power goes at every sync of a busy minute; what is found afterwards opens, with everything that was acknowledged."""

# ruff: noqa: T201  # the figures belong into the report

from collections import Counter
from collections.abc import Callable
from functools import partialmethod
from pathlib import Path
from typing import TypeVar

import pytest

from fencepost.stores.sqlite.dialect import SqliteDialect, SqliteTransaction
from fencepost.stores.sqlite.store import Opening
from tests.simulation.crash.check import faults_of
from tests.simulation.crash.images import WAYS, Image, images
from tests.simulation.crash.recorder import Tape, recording
from tests.simulation.crash.workload import Fact, Workload

ROUNDS = 6  # sixty-odd commits
T = TypeVar("T")


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tape, list[Fact]]:
    return play(tmp_path_factory.mktemp("store") / "state.db", rounds=ROUNDS)


def play(path: Path, *, rounds: int, checkpoint_every: int = 40) -> tuple[Tape, list[Fact]]:
    with recording() as tape:
        workload = Workload(str(path), tape, checkpoint_every=checkpoint_every)
        workload.run(rounds)
    return tape, workload.facts


def test_every_image_opens_with_all_that_was_acknowledged(told: tuple[Tape, list[Fact]], tmp_path: Path) -> None:
    tape, facts = told
    ways: Counter[str] = Counter()
    for number, image in enumerate(images(tape.steps)):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert faults_of(image, facts, str(folder)) == [], (
            f"a crash at step {image.step} of {len(tape.steps)}, {image.way}"
        )
        ways[image.way] += 1
    syncs = sum(step.kind == "sync" for step in tape.steps)
    print(f"{sum(ways.values())} crash images at {syncs} syncs, {len(facts)} acknowledged facts: {dict(ways)}")
    assert {"synced", *WAYS} == set(ways)
    assert any(step.kind == "write" and step.file == "state.db" for step in tape.steps), "nothing was moved to the file"
    assert {"state.db", "state.db-wal", "state.db.fence"} <= {step.file for step in tape.steps if step.kind == "sync"}


def test_a_sync_that_is_left_out_is_noticed(told: tuple[Tape, list[Fact]], tmp_path: Path) -> None:
    """Show that images can tell: forget every sync of the log, and something acknowledged is missing."""
    tape, facts = told
    lazy = [one._replace(kind="") if one.kind == "sync" and one.file.endswith("-wal") else one for one in tape.steps]
    every = list(images(lazy, ways=("dropped",)))
    assert faults_of(every[len(every) // 2], facts, str(tmp_path)) != []


def test_a_store_that_leaves_syncing_to_chance_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product itself with synchronous = OFF, as a throwaway store has it."""
    monkeypatch.setattr(Opening, "__init__", partialmethod(Opening.__init__, throwaway=True))
    tape, facts = play(tmp_path / "state.db", rounds=2)

    assert not any(step.kind == "sync" and step.file.endswith("-wal") for step in tape.steps)
    assert first_fault(tape, facts, tmp_path) is not None


def test_an_acknowledgement_before_the_commit_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The product itself, which says that it is done and commits a moment later."""
    monkeypatch.setattr(SqliteDialect, "_transact", hasty)
    tape, facts = play(tmp_path / "state.db", rounds=2)

    assert any(step.kind == "sync" and step.file.endswith("-wal") for step in tape.steps)
    assert first_fault(tape, facts, tmp_path) is not None


def hasty(dialect: SqliteDialect, begin: Callable[[], object], work: Callable[[SqliteTransaction], T]) -> T:
    """Do the work, and leave its commit to whoever comes next."""
    connection = dialect._connection
    if connection.in_transaction:
        connection.execute("COMMIT")
    begin()
    return work(SqliteTransaction(connection, dialect._copy, dialect.store_id))


def first_fault(tape: Tape, facts: list[Fact], folder: Path) -> str | None:
    """Return what is wrong with the first image that is."""
    for number, image in enumerate(images(tape.steps, ways=("dropped",))):
        place = folder / str(number)
        place.mkdir()
        for fault in faults_of(image, facts, str(place)):
            return fault
    return None


def test_a_copy_of_the_fence_that_is_not_synced_first_is_noticed(told: tuple[Tape, list[Fact]], tmp_path: Path) -> None:
    """The copy is what keeps fences from coming again when the file is replaced by an older one."""
    tape, facts = told
    every = list(images(tape.steps, ways=("dropped",)))
    old, new = every[len(every) // 2], every[-1]
    mixed = old.files | {name: content for name, content in new.files.items() if name.endswith(".fence")}
    fences = [fact._replace(step=0) for fact in facts if fact.what == "fence"]
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    assert faults_of(Image(0, "restored", mixed), fences, str(tmp_path / "with")) == []
    assert faults_of(Image(0, "restored", old.files), fences, str(tmp_path / "without")) != []
