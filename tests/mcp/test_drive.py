"""Sessions that drive: several MCP servers in one directory keep its schedules going, one at a time, without a daemon."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import claude_agent_sdk
import pytest

from tests.support.ground import children, send
from tests.support.messages_api import messages_api
from tests.support.site import Site

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
TAKEOVER_SECONDS = 5.0
BEATS = """
[agents.beat]
command = ["sh", "-c", "echo beat >> beats"]

[schedules.every-second]
agent = "beat"
cron = "* * * * * *"
timezone = "UTC"
overlap = "queue"
"""
LONG = """
[agents.long]
command = ["sh", "-c", "echo $$ > long; until [ -e go ]; do sleep 0.1; done"]
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    made.configure(BEATS + LONG)
    yield made
    made.close()


def session(site: Site, **env: str) -> "subprocess.Popen[bytes]":
    """Start an MCP server as a coding session does, which speaks to it through a pipe."""
    with (site.folder / "sessions.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "fencepost", "mcp", "--drive"],
            cwd=site.folder,
            env={**site.environment(), **env},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )


def driver(site: Site) -> int | None:
    """Return the process that drives, if one does."""
    held = [lease for lease in site.leases() if "scheduler:default" in lease.resources]
    assert len(held) <= 1
    return held[0].supervisor.pid if held else None


def driving(site: Site, sessions: "list[subprocess.Popen[bytes]]") -> "subprocess.Popen[bytes] | None":
    found = driver(site)
    return next((one for one in sessions if found in children(one.pid)), None)


def beats(site: Site) -> int:
    path = site.folder / "beats"
    return len(path.read_text().split()) if path.exists() else 0


def until_more_beats(site: Site, number: int) -> None:
    """Wait until the schedule has gone on."""
    seen = beats(site)
    site.until(lambda: beats(site) >= seen + number)


def test_of_several_sessions_one_drives_and_another_takes_over_when_it_is_killed(site: Site) -> None:
    sessions = [session(site) for _ in range(3)]
    try:
        site.until(lambda: beats(site) >= 2, seconds=60)
        while len(sessions) > 1:
            first = driving(site, sessions)
            assert first is not None
            sessions.remove(first)
            began = time.monotonic()  # noqa: TID251  # real processes take real time
            first.kill()
            first.communicate()
            site.until(lambda: driving(site, sessions) is not None, seconds=30)
            took = time.monotonic() - began  # noqa: TID251
            assert took < TAKEOVER_SECONDS, f"another session drives after {took:.1f} s"
            until_more_beats(site, 1)
        sessions.append(session(site))  # one that was killed comes back, and waits its turn
        kept = driver(site)
        until_more_beats(site, 3)
        assert driver(site) == kept
    finally:
        for one in sessions:
            one.kill()
            one.communicate()
    site.until(lambda: driver(site) is None, seconds=40)
    proof = json.loads(site.fencepost("prove", "--json").splitlines()[-1])
    assert (proof["missing"], proof["doubled"]) == (0, 0)


def test_an_agent_outlives_the_session_that_started_it_and_the_next_session_adopts_it(site: Site) -> None:
    first = session(site)
    try:
        site.fencepost("run", "long")
        site.until(lambda: (site.folder / "long").exists() and (site.folder / "long").read_text().strip(), seconds=60)
        pid = int((site.folder / "long").read_text())
    finally:
        first.kill()
        first.communicate()
    second = session(site)
    try:
        site.until(lambda: "adopted" in (site.folder / "sessions.log").read_text(), seconds=40)
        assert os.path.exists(f"/proc/{pid}")
        (site.folder / "go").touch()
        site.until(lambda: [run for run in site.runs(state="succeeded") if run.agent == "long"])
    finally:
        second.kill()
        second.communicate()


def test_a_run_drives_nothing(site: Site) -> None:
    inside = session(site, FENCEPOST_RUN_ID="r1", FENCEPOST_SOCKET="/nowhere", FENCEPOST_RUN_KEY="k")
    site.until(lambda: "drives no schedules" in (site.folder / "sessions.log").read_text())
    assert children(inside.pid) == []
    inside.kill()
    inside.communicate()


def test_real_sessions_of_claude_code_in_one_directory_hand_the_driving_on(site: Site) -> None:
    """Three of them work on something; the one that drives is killed, another drives within five seconds; the killed one
    is resumed and waits its turn, which comes when the others are killed."""
    words = ["-P", "-m", "fencepost", "mcp", "--drive"]
    server = {"mcpServers": {"fencepost": {"command": sys.executable, "args": words}}}
    (site.folder / "mcp.json").write_text(json.dumps(server))
    with messages_api() as api:
        env = {**site.environment(), **api.environment, "IS_SANDBOX": "1", "MCP_TIMEOUT": "90000"}  # a busy machine
        claudes = {name: _claude(site, env, "--session-id", name) for name in (str(uuid4()) for _ in range(3))}
        try:
            for _ in range(3):
                site.until(lambda: driver(site) is not None, seconds=60)
                site.until(lambda: all(_has_server(one.pid) for one in claudes.values()), seconds=120)
                before = driver(site)
                first = next(name for name, one in claudes.items() if _is_below(before, one.pid))
                began = time.monotonic()  # noqa: TID251  # real processes take real time
                claudes[first].kill()
                claudes[first].wait(20)
                site.until(lambda: driver(site) not in (None, before), seconds=30)  # noqa: B023  # asked at once
                took = time.monotonic() - began  # noqa: TID251
                assert any(_is_below(driver(site), one.pid) for name, one in claudes.items() if name != first)
                assert took < TAKEOVER_SECONDS
                claudes[first] = _claude(site, env, "--resume", first)
        finally:
            for one in claudes.values():
                send(one.pid, signal.SIGKILL) if one.poll() is None else None
                one.wait(20)


def _claude(site: Site, env: dict[str, str], *session: str) -> "subprocess.Popen[bytes]":
    command = [str(CLAUDE), "-p", "STAY", *session, "--mcp-config", "mcp.json", "--dangerously-skip-permissions"]
    return subprocess.Popen(
        command,
        cwd=site.folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _has_server(pid: int) -> bool:
    return any(children(one) for one in children(pid))


def _is_below(pid: int | None, ancestor: int) -> bool:
    while pid and pid != 1:
        if pid == ancestor:
            return True
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return False
