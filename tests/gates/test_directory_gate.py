"""Publishing a directory: readers see the old one or the new one, whoever dies in between; nothing leads out of it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.gates.directory import DirectoryGate
from fencepost.host.clock import SystemClock
from fencepost.model.errors import FenceRefused, Invalid, Misconfigured
from tests.gates.proofs import proof

ROOT = Path(__file__).parents[2]


def gate_at(path: object) -> DirectoryGate:
    return DirectoryGate(str(path), clock=SystemClock())


@pytest.fixture
def build(tmp_path: Path) -> Path:
    made = tmp_path / "build"
    (made / "sub").mkdir(parents=True)
    (made / "index.html").write_text("new")
    (made / "sub" / "page.html").write_text("page")
    (made / "sub" / "home").symlink_to("../index.html")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    return made


def generations(site: Path) -> list[str]:
    return sorted(os.listdir(site.parent / f".{site.name}.generations"))


def test_a_whole_directory_is_published_with_modes_and_inner_links(tmp_path: Path, build: Path) -> None:
    site = tmp_path / "site"

    assert gate_at(site).publish(proof(1), str(build)) == len("new") + len("page") + len("#!/bin/sh\n")

    assert (site / "index.html").read_text() == (site / "sub" / "home").read_text() == "new"
    assert os.access(site / "run.sh", os.X_OK)
    assert site.is_symlink()


def test_a_reader_with_an_open_directory_keeps_the_generation_that_it_has(tmp_path: Path, build: Path) -> None:
    site = tmp_path / "site"
    gate_at(site).publish(proof(1), str(build))
    reader = os.open(site, os.O_RDONLY | os.O_DIRECTORY)
    (build / "index.html").write_text("newer")
    gate_at(site).publish(proof(1), str(build))

    with os.fdopen(os.open("index.html", os.O_RDONLY, dir_fd=reader)) as file:
        assert file.read() == "new"
    os.close(reader)
    assert (site / "index.html").read_text() == "newer"


def test_old_generations_are_cleared_away(tmp_path: Path, build: Path) -> None:
    site = tmp_path / "site"
    for number in range(5):
        (build / "index.html").write_text(str(number))
        gate_at(site).publish(proof(1), str(build))

    assert len(generations(site)) == 2
    assert (site / "index.html").read_text() == "4"


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (lambda build: (build / "out").symlink_to("/etc/passwd"), "out of the directory"),
        (lambda build: (build / "sub" / "out").symlink_to("../../secret"), "out of the directory"),
        (lambda build: os.mkfifo(build / "pipe"), "a pipe, a socket or a device"),
    ],
)
def test_what_leads_out_of_the_directory_is_not_published(
    tmp_path: Path, build: Path, plant: Callable[[Path], object], words: str
) -> None:
    plant(build)
    with pytest.raises(Misconfigured, match=words):
        gate_at(tmp_path / "site").publish(proof(1), str(build))

    assert not (tmp_path / "site").exists()
    assert generations(tmp_path / "site") == []


def test_a_name_that_is_something_else_is_left_alone(tmp_path: Path, build: Path) -> None:
    site = tmp_path / "site"
    plants: list[Callable[[], object]] = [site.mkdir, site.touch, lambda: site.symlink_to("/etc")]
    for plant in plants:
        plant()
        before = site.lstat()
        with pytest.raises(Misconfigured):
            gate_at(site).publish(proof(1), str(build))
        assert site.lstat() == before
        site.rmdir() if site.is_dir() and not site.is_symlink() else site.unlink()


def test_a_source_that_would_contain_its_own_copy_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="build it elsewhere"):
        gate_at(tmp_path / "site").publish(proof(1), str(tmp_path))
    with pytest.raises(Misconfigured, match="No such file"):
        gate_at(tmp_path / "site").publish(proof(1), str(tmp_path / "missing"))


@pytest.mark.parametrize("path", ["", "/", ".", "..", "x/..", "a\nb"])
def test_a_path_without_a_name_is_refused(path: str) -> None:
    with pytest.raises(Invalid):
        gate_at(path)


def test_marks_of_another_gate_are_not_published(tmp_path: Path, build: Path) -> None:
    (build / ".fencepost").mkdir()
    (build / ".fencepost" / "x.fence").write_text("{}")

    gate_at(tmp_path / "site").publish(proof(1), str(build))

    assert not (tmp_path / "site" / ".fencepost").exists()


def test_killed_at_any_call_it_leaves_one_whole_generation_and_a_free_way_for_its_successor(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "tests.gates.directory_victim", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, check=True, timeout=300)
    folders = sorted(tmp_path.iterdir(), key=lambda path: int(path.name))
    assert len(folders) > 15, "it was killed at many calls"
    seen = set()
    for folder in folders:
        site = folder / "site"
        content = (site / "a.txt").read_text()
        assert (site / "sub" / "b.txt").read_text() == content
        seen.add(content)
        gate_at(site).raise_fence(proof(3))
        with pytest.raises(FenceRefused):
            gate_at(site).publish(proof(2), str(folder / "build-new"))
        gate_at(site).publish(proof(3), str(folder / "build-new"))
        assert (site / "a.txt").read_text() == "new"
        left = [name for name in generations(site) if not name.startswith("g-")]
        assert left == [], "what the dead left was cleared away"
        assert len(generations(site)) == 2
    assert seen == {"old", "new"}
