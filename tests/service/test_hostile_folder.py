"""Modules that lie in the working folder never run in our place, whichever way a program of ours is started."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx

from fencepost.engines.claude import MCP_FILE, SETTINGS_FILE, settings_files
from fencepost.gates.git.receive_hooks import install
from fencepost.model.agent_hook_settings import BY_TURN, CLIS, SessionHold, script, wanted
from fencepost.model.own_program import own_program
from fencepost.operations.os_service import unit_of
from tests.support.receiver import receiver
from tests.support.site import Site, greeted

SHADOWED = ("fencepost", "json", "select", "http", "socket", "subprocess", "asyncio", "tempfile", "typing", "apsw")
CONSOLE = str(Path(sys.executable).parent / "fencepost")
WORK = """
def note(ctx):
    open("noted", "a").write(ctx.agent + "\\n")
"""
CONFIG = """
http_allow = ["127.0.0.1"]
[agents.child]
engine = "python"
function = "work:note"
[agents.lane]
engine = "python"
function = "work:note"
in_process = true
[agents.far]
engine = "http"
url = "http://127.0.0.1:{port}/run"
[agents.broken]
command = ["false"]
[notifications.desk]
kind = "webhook"
url = "http://127.0.0.1:{port}/notice"
secret = "file:{folder}/secret"
on = ["dead"]
"""


def lay_traps(folder: Path) -> Callable[[], list[str]]:
    """Put a module of each name there that tells when it is run; return how to ask which were."""
    told = folder / "trapped"
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(f"open({str(told)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit(0)\n")
    return lambda: told.read_text().split() if told.exists() else []


def in_folder(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), **env}
    return subprocess.run(
        words, cwd=folder, env=kept, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_trap_bites_who_looks_in_the_working_folder(tmp_path: Path) -> None:
    trapped = lay_traps(tmp_path)

    in_folder(tmp_path, sys.executable, "-m", "fencepost", "version")

    assert trapped() == ["fencepost"]


def test_up_and_its_helpers_run_their_own_modules_and_functions_still_run_the_users(site: Site) -> None:
    (site.folder / "work.py").write_text(WORK)
    with receiver() as desk:
        (site.folder / "secret").write_text("a secret of at least sixteen bytes")
        site.configure(CONFIG.format(port=desk.port, folder=site.folder))
        trapped = lay_traps(site.folder)
        site.start(CONSOLE, "up", "--port", "0", "--workers", "2")
        port, _ = greeted(site)

        for name, code in (("child", 0), ("lane", 0), ("far", 0), ("broken", 1)):
            ran = in_folder(site.folder, CONSOLE, "run", name, "--wait")
            assert ran.returncode == code, ran.stderr
        assert httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        site.until(lambda: {"/run", "/notice"} <= {one.path for one in desk.heard})

    assert (site.folder / "noted").read_text().split() == ["child", "lane"]
    assert trapped() == []


def test_the_demo_runs_its_own_modules(tmp_path: Path) -> None:
    trapped = lay_traps(tmp_path)

    ran = in_folder(tmp_path, CONSOLE, "demo")

    assert (ran.returncode, trapped()) == (0, []), ran.stderr


def check_lines() -> dict[str, str]:
    """Return every shell line that asks for the check before a tool, by who calls it."""
    run = json.loads(settings_files({})[SETTINGS_FILE])["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    lines = {"a run's settings": run}
    for name, cli in CLIS.items():
        for words in (own_program(), (CONSOLE,)):
            who = f"{name} by {os.path.basename(words[0])}"
            if cli.is_script:
                lines[who] = script(words)
            else:
                lines[who] = wanted(cli, words)[cli.before_tool]["hooks"][0]["command"]
    return lines


def says_no(ran: subprocess.CompletedProcess[str]) -> bool:
    """Tell whether a check refused, by its exit code or, as a script does, in JSON."""
    return ran.returncode == 2 or (ran.returncode == 0 and '"cancel": true' in ran.stdout)


def test_a_check_in_a_hostile_project_answers_no(tmp_path: Path) -> None:
    trapped = lay_traps(tmp_path)

    for name, line in check_lines().items():
        ran = in_folder(tmp_path, "/bin/sh", "-c", line, FENCEPOST_SOCKET="/nowhere", FENCEPOST_RUN_ID="r")
        assert (name, says_no(ran), trapped()) == (name, True, []), ran.stderr


def test_a_sessions_hooks_and_the_gateway_run_their_own_modules(tmp_path: Path) -> None:
    trapped = lay_traps(tmp_path)
    server = json.loads(settings_files({"mcp_servers": {"one": {"command": "true"}}})[MCP_FILE])["mcpServers"]["one"]

    in_folder(tmp_path, server["command"], *server["args"])
    for cli in CLIS.values():
        for hold in (BY_TURN, SessionHold(turn=False), SessionHold(strict=True)):
            for group in wanted(cli, own_program(), hold).values():
                for handler in group["hooks"]:
                    in_folder(tmp_path, "/bin/sh", "-c", handler["command"])

    assert trapped() == []


def test_a_service_runs_its_own_modules(tmp_path: Path) -> None:
    trapped = lay_traps(tmp_path)
    config = str(tmp_path / "fencepost.toml")
    unit = unit_of("default", {}, config=config, words=("--help",), drain_seconds=1)

    ran = in_folder(tmp_path, *unit.argv)

    assert (ran.returncode, trapped()) == (0, []), ran.stderr


def test_the_hooks_of_a_git_server_run_their_own_modules(tmp_path: Path) -> None:
    server, clone = tmp_path / "server.git", tmp_path / "clone"
    for words in (["init", "-q", "--bare", str(server)], ["init", "-q", str(clone)]):
        subprocess.run(["git", *words], check=True)
    install(str(server))
    trapped = lay_traps(server)
    person = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", *person, "commit", "-q", "--allow-empty", "-m", "first"], cwd=clone, check=True)

    ran = in_folder(clone, "git", "push", str(server), "HEAD:refs/heads/main")

    assert (ran.returncode, trapped()) == (0, []), ran.stderr
