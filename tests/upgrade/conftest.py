"""The program of an earlier day, unpacked: the real one, that speaks to the store as it did then."""

import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.grounds import durable_server, durable_url
from tests.support.site import Site

HERE = Path(__file__).parent
PACKED = OLDEST, ENDING, GUARDING = tuple(HERE / f"schema-{number}.tar.xz" for number in ("0003", "0028", "0046"))


class OldSite(Site):
    """The same folder and the same store, and another `fencepost`."""

    of_today = False

    def __init__(self, site: Site, source: Path, *, has_web: bool = False) -> None:
        super().__init__(site.folder, site.store)
        self._source = source
        self._has_web = has_web

    def up(self, *words: str, command: str = "up", web: bool = False) -> "subprocess.Popen[bytes]":
        return super().up(*words, command=command, web=web or not self._has_web)  # the oldest knows of no --no-web

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "PYTHONPATH": str(self._source)}

    def python(self, *words: str) -> str:
        """Run Python with the old program."""
        ran = subprocess.run(
            [sys.executable, *words],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The oldest program that must still be able to work."""
    return unpacked(OLDEST, tmp_path_factory.mktemp("old"))


@pytest.fixture(scope="session")
def previous_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The last program whose agents ended with their worker."""
    return unpacked(ENDING, tmp_path_factory.mktemp("previous"))


@pytest.fixture(scope="session")
def guarding_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of a later day, whose guards outlive their worker."""
    return unpacked(GUARDING, tmp_path_factory.mktemp("guarding"))


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a program, and return where Python finds it."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / "src"


@pytest.fixture(params=["sqlite", "postgresql"])
def now(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """The program of today, with a store of either kind."""
    url = None if request.param == "sqlite" else request.getfixturevalue("durable_url")
    (tmp_path / "home").mkdir()
    site = Site(tmp_path / "home", url)
    yield site
    site.close()


@pytest.fixture
def then(now: Site, source: Path) -> Iterator[OldSite]:
    """The program of then, at the same place."""
    yield from opened(OldSite(now, source), source)


@pytest.fixture
def before(now: Site, previous_source: Path) -> Iterator[OldSite]:
    """The program whose agents ended with their worker, at the same place."""
    yield from opened(OldSite(now, previous_source, has_web=True), previous_source)


@pytest.fixture
def guarding(now: Site, guarding_source: Path) -> Iterator[OldSite]:
    """The program whose guards outlive their worker, at the same place."""
    yield from opened(OldSite(now, guarding_source, has_web=True), guarding_source)


def opened(old: OldSite, source: Path) -> Iterator[OldSite]:
    """Make sure that it is another program, and end what it has started."""
    where = old.python("-c", "import fencepost; print(fencepost.__file__)").strip()
    assert where.startswith(str(source) + os.sep)
    yield old
    old.close()


__all__ = ["durable_server", "durable_url"]
