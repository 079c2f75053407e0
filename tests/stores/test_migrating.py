"""A store that is in use is brought up step by step: others go on in between, and what is cut off goes on where it was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.model.errors import StoreUnavailable
from fencepost.stores import sql
from fencepost.stores.postgres.store import migrate_store as migrate_postgres
from fencepost.stores.schema import unheard

OLD = 46
NUMBERS = [number for number, _ in sql.migrations(str(sql.__file__).replace("sql.py", "sqlite/store.py"))]
BROKEN = 9999

real = sql.migrations


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Make a store as a program of old left it."""
    lite = request.param == "sqlite"
    found = f"sqlite:{tmp_path}/state.db" if lite else str(request.getfixturevalue("postgres_url"))
    with monkeypatch.context() as patched:
        _with_migrations(patched, lambda file: [one for one in real(file) if one[0] <= OLD])
        assert migrate(found) == (0, OLD)
    return found


def test_each_migration_is_a_step_of_its_own_that_is_told(url: str) -> None:
    told: list[tuple[int, int]] = []
    assert migrate(url, lambda at, newest: told.append((at, newest))) == (OLD, NUMBERS[-1])
    assert told == [(number, NUMBERS[-1]) for number in NUMBERS if OLD < number < NUMBERS[-1]]
    assert migrate(url) == (NUMBERS[-1], NUMBERS[-1])


def test_a_migration_that_is_cut_off_goes_on_where_it_was(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        _with_migrations(patched, lambda file: [*real(file), (BROKEN, "SELECT nonsense FROM nowhere")])
        with pytest.raises(StoreUnavailable):
            migrate(url)
    assert migrate(url) == (NUMBERS[-1], NUMBERS[-1])


def test_whoever_comes_between_two_steps_may_carry_out_the_rest(url: str) -> None:
    steps: list[tuple[int, int]] = []

    def another(at: int, newest: int) -> None:
        steps.append((at, newest))
        assert migrate(url) == (at, newest)

    assert migrate(url, another) == (OLD, NUMBERS[-1])
    assert len(steps) == 1


def migrate(url: str, progress: Callable[[int, int], None] = unheard) -> tuple[int, int]:
    if url.startswith("sqlite:"):
        return wiring.migrate_store(url, progress)
    return migrate_postgres(url, new_id="many", allow_lossy=True, progress=progress)


def _with_migrations(patched: pytest.MonkeyPatch, found: Callable[[str], list[tuple[int, str]]]) -> None:
    patched.setattr(sql, "migrations", found)
    patched.setattr(sql, "newest_migration", lambda file: found(file)[-1][0])
