"""The first crontab line works: it finds Fencepost, its command and its folder with cron's own PATH."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.ground import Ground


def test_a_printed_line_runs_under_cron_s_own_environment(ground: Ground) -> None:
    words = ["--cron", "*/15 * * * *", "--lock", "digest", "--"]
    told = ground.run("crontab", *words, "sh", "-c", "fencepost --help > helped; echo 100% > said")
    assert told.code == 0, told
    times, command = told.out.decode().rstrip("\n").split("  ", 1)
    assert times == "*/15 * * * *"

    cron = {"PATH": "/usr/bin:/bin", "HOME": ground.path("."), "XDG_STATE_HOME": ground.path("state")}
    subprocess.run(["/bin/sh", "-c", command.replace("\\%", "%")], env=cron, cwd="/", check=True, timeout=60)
    assert Path(ground.path("said")).read_text() == "100%\n"
    assert "usage" in Path(ground.path("helped")).read_text()


@pytest.mark.parametrize("option", ["--tick", "--cron"])
def test_with_a_zone_the_line_claims_its_ticks_and_names_the_store(ground: Ground, option: str) -> None:
    words = [option, "*/45 * * * *", "--timezone", "UTC", "--lock", "digest", "--store", "git+file:///srv/x.git"]
    told = ground.run("crontab", *words, "--", "true")

    store, line = told.out.decode().splitlines()
    assert store == "FENCEPOST_STORE=git+file:///srv/x.git"
    assert f"{os.path.dirname(sys.executable)}/fencepost exec --tick '*/45 * * * *' --timezone UTC" in line
    assert line.endswith(f"-- {shutil.which('true')}")
    assert "45m apart, then 15m" in told.err


def test_a_password_and_a_command_that_is_not_there_are_refused(ground: Ground) -> None:
    words = ["crontab", "--cron", "@daily", "--lock", "z"]

    assert ground.run(*words, "--store", "postgresql://me:hush@db/x", "--", "true").code == 2
    assert "was not found on PATH" in ground.run(*words, "--", "no-such-program").err
    told = ground.run(*words, "--store", "git+file:///srv/x.git", "--", "./no-such-program")
    assert "'./no-such-program' is no program here" in told.err
    assert told.out == b"", "half of it would be put into a crontab"
