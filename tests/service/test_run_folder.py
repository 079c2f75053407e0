"""The folder of a run's socket and payload is out of the reach of other users, whatever they put in its way."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fencepost.model.errors import Misconfigured
from fencepost.service.run_folder import PAYLOAD, SOCKET_PATH_MAX, plan_run_folder

ANOTHER = 54_321
NAME = f"fencepost-{os.getuid()}"


def open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def readable(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


def a_link(path: Path) -> None:
    target = path.parent / "elsewhere"
    target.mkdir(0o700)
    path.symlink_to(target)


def a_file(path: Path) -> None:
    path.write_text("")


def another_users(path: Path) -> None:
    path.mkdir(0o700)
    os.chown(path, ANOTHER, ANOTHER)


SQUATS = [open_to_all, readable, a_link, a_file, *([another_users] if os.geteuid() == 0 else [])]  # root alone can give


class Place:
    """A temporary folder and a state of one's own, with short names."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shared, self.state, self.runtime = (folder / name for name in ("t", "s", "r"))
        for one in (self.shared, self.state / "fencepost", self.runtime):
            one.mkdir(0o700, parents=True)
        self.shared.chmod(0o1777)
        monkeypatch.setenv("TMPDIR", str(self.shared))
        monkeypatch.setenv("XDG_STATE_HOME", str(self.state))
        monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)

    def planned(self) -> Path:
        folder = plan_run_folder(f"r{os.urandom(9).hex()}")
        folder.make({PAYLOAD: "{}"})
        assert len(os.fsencode(folder.socket)) <= SOCKET_PATH_MAX
        assert Path(folder.payload).stat().st_mode & 0o777 == 0o600
        folder.remove()
        return Path(folder.path).parent


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with TemporaryDirectory(prefix="fp", dir="/tmp") as folder:  # pytest's own are too long for a socket
        yield Place(Path(folder).resolve(), monkeypatch)


def test_the_users_runtime_folder_comes_first_and_then_the_temporary_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place.planned() == place.shared / NAME
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place.runtime))
    assert place.planned() == place.runtime / "fencepost"
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place.runtime / "gone"))
    assert place.planned() == place.shared / NAME


@pytest.mark.parametrize("squat", SQUATS)
def test_what_another_user_put_there_first_is_not_used(place: Place, squat: Callable[[Path], None]) -> None:
    squat(place.shared / NAME)

    found = place.planned()

    assert not found.is_relative_to(place.shared)
    assert found.lstat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("squat", SQUATS)
def test_the_state_folder_serves_where_all_of_tmp_is_squatted(
    place: Place, squat: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.service.run_folder.TEMPORARY", str(place.shared))
    squat(place.shared / NAME)

    assert place.planned() == place.state / "fencepost" / "run"


def test_a_folder_that_can_be_taken_away_from_above_is_the_last_resort(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.service.run_folder.TEMPORARY", str(place.shared))
    place.shared.chmod(0o777)  # without the sticky bit, as in many containers
    assert place.planned() == place.state / "fencepost" / "run"

    place.state.chmod(0o777)
    assert place.planned() == place.shared / NAME


@pytest.mark.parametrize("squat", SQUATS[-1:])
def test_with_no_place_left_it_says_what_to_do(
    place: Place, squat: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.service.run_folder.TEMPORARY", str(place.shared))
    squat(place.shared / NAME)
    squat(place.state / "fencepost" / "run")

    with pytest.raises(Misconfigured, match="Set XDG_RUNTIME_DIR to a folder of your own"):
        place.planned()


def test_a_runtime_folder_of_another_user_is_not_used(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root who has kept a person's environment: the person could put another folder in its place."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place.runtime))
    if os.geteuid() == 0:
        os.chown(place.runtime, ANOTHER, ANOTHER)
    else:
        place.runtime.chmod(0o777)

    assert place.planned() == place.shared / NAME
