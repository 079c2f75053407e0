import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fencepost.host import identity
from fencepost.host.identity import this_host

MACHINE = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """What this machine's files say, instead of the real ones; the state folder stays real."""
    if sys.platform != "linux":
        pytest.skip("these files exist on Linux only")
    contents = {"/proc/sys/kernel/random/boot_id": "boot-1"}
    read = identity._read

    def read_made_up(path: str) -> str:
        return read(path) if path.startswith(str(tmp_path)) else contents.get(path, "")

    monkeypatch.setattr(identity, "_read", read_made_up)
    monkeypatch.setattr(identity, "_in_container", lambda: False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return contents


def test_a_host_is_the_same_whenever_asked() -> None:
    here = this_host()

    assert here == this_host()
    assert here.name == os.uname().nodename
    assert here.machine
    assert here.boot


def test_the_machine_id_is_taken_from_the_first_file_that_has_one(files: dict[str, str]) -> None:
    files["/etc/machine-id"] = "uninitialized"
    files["/var/lib/dbus/machine-id"] = MACHINE

    assert this_host().machine == MACHINE


def test_a_machine_without_an_id_is_given_one_that_stays(files: dict[str, str], tmp_path: Path) -> None:
    files["/etc/machine-id"] = ""
    kept = tmp_path / "fencepost" / "machine-id"

    assert this_host().machine == this_host().machine == kept.read_text().strip()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert list(kept.parent.iterdir()) == [kept]


def test_all_who_ask_at_once_get_the_same_id(files: dict[str, str]) -> None:
    assert files
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: this_host().machine, range(32)))) == 1


def test_an_id_that_was_half_written_is_replaced(files: dict[str, str], tmp_path: Path) -> None:
    assert files
    kept = tmp_path / "fencepost" / "machine-id"
    kept.parent.mkdir()
    kept.write_text("")

    assert this_host().machine == this_host().machine == kept.read_text().strip()


def test_with_nowhere_to_keep_an_id_the_boot_stands_for_the_machine(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert files
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")

    assert this_host().machine == "boot-boot-1"


def test_two_hosts_that_run_containers_of_one_image_are_two_machines(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity, "_in_container", lambda: True)
    files["/etc/machine-id"] = MACHINE
    here = this_host()
    files["/proc/sys/kernel/random/boot_id"] = "boot-2"

    assert this_host().machine != here.machine


def test_without_a_boot_id_every_boot_looks_the_same(files: dict[str, str]) -> None:
    files.clear()
    files["/etc/machine-id"] = MACHINE

    assert this_host().boot == f"machine-{MACHINE}"
