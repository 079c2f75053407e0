"""An agent without privileges finds no secret with the worker, its guard or its helpers; what it leaves is still ended."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import powerless
from tests.support.site import Site, greeted

CANARY = "canary-of-another-tenant"
# Looks at every process of this user that is one of ours, and at the agent itself.
SNOOP = """
import json, os, pathlib
def read(path):
    try:
        return path.read_bytes().replace(b"\\0", b" ").decode(errors="replace")
    except OSError:
        return ""
entries = [entry for entry in pathlib.Path("/proc").iterdir() if entry.name.isdigit()]
seen = {entry.name: [read(entry / "cmdline"), read(entry / "environ")] for entry in entries}
chain, pid = [], str(os.getpid())
while pid != "1" and pid in seen:
    chain.append(pid)
    pid = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
pathlib.Path("seen.json").write_text(json.dumps({"seen": seen, "chain": chain}))
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="where there is no /proc, doctor says so")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("HARBOR_KEY", CANARY)
    made = Site(tmp_path)
    try:
        yield made
    finally:
        made.close()


def test_an_agent_reads_no_variable_of_the_worker_its_guard_or_its_helpers(site: Site) -> None:
    (site.folder / "snoop.py").write_text(SNOOP)
    site.configure(f'[agents.snoop]\ncommand = ["{sys.executable}", "snoop.py"]\nenv = {{ SITE = "{site.folder}" }}\n')
    worker = site.start(*powerless.fencepost("up", "--workers", "1", "--port", "0"))
    greeted(site)
    site.fencepost("run", "snoop", "--wait")

    found = json.loads((site.folder / "seen.json").read_text())
    chain = found["chain"]
    assert str(worker.pid) in chain, "it saw who started it"
    assert len(chain) >= 4, "the agent, its guard, their helper, the worker"
    web = [pid for pid, (line, _) in found["seen"].items() if f"--parent {worker.pid}" in line]
    assert len(web) == 1, "the web door is there too"
    assert "FENCEPOST_RUN_ID" in found["seen"][chain[0]][1], "it can read what is open to its user"
    for pid in (*chain[1 : chain.index(str(worker.pid)) + 1], *web):
        assert found["seen"][pid][1] == "", found["seen"][pid][0]
    assert not [line for line, environ in found["seen"].values() if CANARY in environ and "fencepost" in line]


def test_doctor_says_that_variables_are_safe_without_privileges_and_that_root_reads_all(site: Site) -> None:
    def told(*words: str) -> dict[str, str]:
        ran = subprocess.run(
            [*words, "--json"], cwd=site.folder, env=site.environment(), capture_output=True, text=True, check=False
        )
        rows = [json.loads(line) for line in ran.stdout.splitlines()]
        return next(row for row in rows if row["check"] == "secrets")

    site.configure("")
    assert told(*powerless.fencepost("doctor"))["status"] == "ok"
    if os.geteuid() == 0:
        assert "root" in told(sys.executable, "-m", "fencepost", "doctor")["message"]


def test_what_a_killed_worker_left_is_found_and_ended_without_privileges(site: Site) -> None:
    script = "setsid sh -c 'echo $$ > orphan; exec sleep 1000' & echo $$ > agent; exec sleep 1000"
    site.configure(f'[agents.long]\ncommand = ["sh", "-c", "{script}"]\n')
    first = site.start(*powerless.fencepost("up", "--workers", "1", "--no-web"))
    site.fencepost("run", "long")
    orphan, agent = site.folder / "orphan", site.folder / "agent"
    site.until(lambda: orphan.exists() and orphan.read_text().strip() and agent.exists() and agent.read_text().strip())
    pids = [int(orphan.read_text()), int(agent.read_text())]
    ours = [pid for pid in (first.pid, *_below(first.pid)) if pid not in pids]  # all that could end it, the guard last
    for number in (signal.SIGSTOP, signal.SIGKILL):  # frozen first: none shall see another one die
        for pid in reversed(ours):
            os.kill(pid, number)  # noqa: TID251  # a process of this test's own
    first.wait(10)
    assert _lives(pids[0]), "the agent dies with its guard, and only a successor can end what it detached"

    site.start(*powerless.fencepost("up", "--workers", "1", "--no-web"))
    site.until(lambda: not any(_lives(pid) for pid in pids))


def _below(root: int) -> list[int]:
    """Return the processes below one."""
    rows = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            rows[int(entry.name)] = int(fields[1])
    found = [root]
    for one in found:
        found += [pid for pid, parent in rows.items() if parent == one]
    return found[1:]


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
