"""`fencepost service`: the files that managers read, and the care with which they are written."""

import os
import plistlib
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli.main import main
from fencepost.model.errors import Invalid
from fencepost.model.service_unit import Unit, launchd_plist, systemd_unit
from fencepost.operations.os_service import Manager, manager, unit_of
from tests.support.debian import program
from tests.support.site import Site

CONFIG = '[fencepost]\ntimezone = "UTC"\ndrain_timeout = "90s"\n'
FOLDERS = ("plain", 'wi th"quote', "100%h $HOME", "back\\slash", "ümläut")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in (
        "XDG_CONFIG_HOME",
        "FENCEPOST_CONFIG",
        "FENCEPOST_STORE",
        "DBUS_SESSION_BUS_ADDRESS",
        "XDG_RUNTIME_DIR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "fencepost.toml").write_text(CONFIG)
    monkeypatch.chdir(folder)
    return tmp_path


def unit_file(home: Path, name: str = "fencepost") -> Path:
    return home / ".config" / "systemd" / "user" / f"{name}.service"


def test_a_dry_run_prints_absolute_paths_and_writes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["service", "install", "--dry-run", "--workers", "4"]) == 0
    text = capsys.readouterr().out
    assert f'ExecStart="{sys.executable}" "-P" "-m" "fencepost" "up" "--config" "{home}/site/fencepost.toml"' in text
    assert '"--workers" "4"' in text
    assert "TimeoutStopSec=130" in text, "a stop may take longer than the drain"
    for line in (
        "Delegate=yes",
        "KillMode=process",
        "Environment=FENCEPOST_ON_TERM=leave",
        "Restart=on-failure",
        f"WorkingDirectory={home}/site",
    ):
        assert line in text.splitlines()
    assert f'Environment="PATH={os.environ["PATH"]}"' in text
    assert not unit_file(home).exists()


def test_it_is_installed_once_and_renewed_when_it_changes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install = ["service", "install", "--no-start"]
    assert main(install) == 0
    assert main(install) == 0
    assert "is as it should be" in capsys.readouterr().out
    assert main([*install, "--workers", "3"]) == 0
    assert '"--workers" "3"' in unit_file(home).read_text()
    assert unit_file(home).stat().st_mode & 0o077 == 0
    assert [path.name for path in unit_file(home).parent.iterdir()] == ["fencepost.service"]


def test_a_store_that_only_this_shell_knows_is_said_and_not_written_down(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FENCEPOST_STORE", "postgresql://ann:hidden@db/fencepost")
    assert main(["service", "install", "--no-start"]) == 0

    assert "FENCEPOST_STORE is set here, and not in the service" in capsys.readouterr().out
    assert "hidden" not in unit_file(home).read_text()


def test_a_file_of_somebody_else_is_neither_overwritten_nor_removed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unit_file(home).parent.mkdir(parents=True)
    unit_file(home).write_text("[Service]\nExecStart=/bin/true\n")
    assert main(["service", "install", "--no-start"]) == 2
    assert main(["service", "uninstall"]) == 2
    assert "was not written by Fencepost" in capsys.readouterr().err
    assert unit_file(home).read_text() == "[Service]\nExecStart=/bin/true\n"


def test_a_link_is_not_followed(home: Path) -> None:
    target = home / "elsewhere"
    unit_file(home).parent.mkdir(parents=True)
    assert main(["service", "install", "--no-start", "--name", "other"]) == 0
    shutil.copy(unit_file(home, "fencepost-other"), target)
    unit_file(home).symlink_to(target)
    before = target.read_text()
    assert main(["service", "install", "--no-start"]) == 2
    assert target.read_text() == before


def test_a_configuration_that_is_wrong_is_not_installed(home: Path) -> None:
    (home / "site" / "fencepost.toml").write_text("[fencepost]\nnonsense = 1\n")
    assert main(["service", "install", "--no-start"]) == 2
    assert not unit_file(home).exists()


def test_without_a_manager_the_file_is_there_and_the_person_hears_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["service", "install"]) == 1
    said = capsys.readouterr().out
    assert "could not be started" in said
    assert "enable-linger" in said
    assert main(["service", "status"]) == 1
    assert "not running" in capsys.readouterr().out
    assert main(["service", "uninstall"]) == 0
    assert main(["service", "uninstall"]) == 0
    assert not unit_file(home).exists()


def test_the_manager_is_told_to_reload_enable_and_start(tmp_path: Path) -> None:
    told: list[tuple[str, ...]] = []

    def tell(*words: str) -> tuple[int, str]:
        told.append(words)
        return 0, ""

    assert Manager("systemd", str(tmp_path), tell).start("night") == []
    assert [words[2:] for words in told] == [
        ("daemon-reload",),
        ("enable", "fencepost-night.service"),
        ("restart", "fencepost-night.service"),
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, folder: str) -> None:
    analyze = program("systemd-analyze", packages=["systemd"])
    place = tmp_path / folder
    place.mkdir()
    config = place / "fencepost.toml"
    config.write_text(CONFIG)
    unit = unit_of("x", {"PATH": f"/usr/bin:{place}"}, config=str(config), words=(), drain_seconds=60)
    path = tmp_path / "fencepost-x.service"
    path.write_text(systemd_unit(unit))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime), "SYSTEMD_LOG_LEVEL": "warning"}
    ran = subprocess.run(
        [analyze, "--user", "verify", "--man=no", str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    ours = [line for line in (ran.stdout + ran.stderr).splitlines() if "fencepost" in line]
    assert ours == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_property_list_says_the_same(folder: str) -> None:
    unit = Unit("x", ("/py", "-m", "fencepost", f"/{folder}"), f"/{folder}", {"PATH": f"/bin:/{folder}"}, 60, "/log")
    found = plistlib.loads(launchd_plist(unit).encode())
    assert found["Label"] == "dev.fencepost.x"
    assert found["ProgramArguments"][-1] == found["WorkingDirectory"] == f"/{folder}"
    assert found["EnvironmentVariables"]["PATH"].endswith(folder)
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["ExitTimeOut"] == 100


def test_launchd_has_its_own_place(tmp_path: Path) -> None:
    found = manager({"HOME": str(tmp_path)}, "darwin")
    assert found.path("x") == f"{tmp_path}/Library/LaunchAgents/dev.fencepost.x.plist"


def test_control_characters_cannot_smuggle_lines_into_a_unit() -> None:
    unit = Unit("x", ("/py", "a\nExecStartPre=/bin/evil"), "/", {}, 60)
    with pytest.raises(Invalid):
        systemd_unit(unit)


def test_what_the_unit_records_starts_the_daemon_and_a_stop_ends_it_cleanly(site: Site) -> None:
    """As the manager does: its environment is the unit's alone, and SIGTERM goes to the main process."""
    site.configure('[agents.a]\ncommand = ["true"]\n')
    words = ["service", "install", "--dry-run", "--workers", "1"]
    lines = site.fencepost(*words).splitlines()

    def said(key: str) -> list[str]:
        return [line.partition("=")[2] for line in lines if line.startswith(f"{key}=")]

    recorded = dict(shlex.split(one)[0].split("=", 1) for one in said("Environment"))
    outside = {"HOME": str(site.folder), "XDG_STATE_HOME": str(site.folder / "state")}  # a user manager has these
    with (site.folder / "service.log").open("wb") as log:
        daemon = subprocess.Popen(
            shlex.split(said("ExecStart")[0]),
            cwd=said("WorkingDirectory")[0],
            env={**outside, **recorded},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        site.until(lambda: "room for 1 runs" in (site.folder / "service.log").read_text())
        site.fencepost("run", "a", "--wait")
        daemon.terminate()
        assert daemon.wait(60) == 0
    finally:
        daemon.kill()
        daemon.wait()
