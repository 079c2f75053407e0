"""The gateway between the SDK's real client and servers that others have written, over pipes and over HTTP."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.support.ground import Ground

HERE = Path(__file__).parent
PATIENCE_SECONDS = 90


def run_client(ground: Ground, script: str, *words: str) -> list[dict[str, object]]:
    """Run a client script as the agent of a guarded command and return the lines that it prints."""
    told = ground.run(
        *("exec", "--lock", "z", "--", sys.executable, str(HERE / script), *words), seconds=PATIENCE_SECONDS
    )
    assert told.code == 0, told
    return [json.loads(line) for line in told.out.splitlines()]


def recorded(ground: Ground) -> list[str]:
    told = ground.run("ledger", "list", "--json")
    return sorted(json.loads(line)["key"].split(":")[2] for line in told.out.splitlines())


def test_the_sdks_client_works_with_the_git_server_through_the_gateway(ground: Ground) -> None:
    repository = ground.folder / "repository"
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    subprocess.run(["git", "init", "-q", repository], check=True)
    subprocess.run(["git", "-C", repository, *identity, "commit", "-q", "--allow-empty", "-m", "first"], check=True)

    modern, legacy = run_client(ground, "sdk_client.py", str(repository))

    for session in (modern, legacy):
        assert "nothing to commit" in str(session["status"])
        assert "Created branch" in str(session["branch"])
    assert modern["without_us"] == [modern["tools"], modern["unknown"]] == [legacy["tools"], legacy["unknown"]]
    branches = subprocess.run(["git", "-C", repository, "branch"], capture_output=True, text=True, check=True).stdout
    assert {"one", "two"} <= set(branches.split())
    assert recorded(ground).count("git_create_branch") == 2
    assert "git_status" not in recorded(ground)


def test_the_sdks_client_works_with_a_server_over_http_through_the_gateway(ground: Ground) -> None:
    server = ground.spawn([sys.executable, str(HERE / "http_server.py")])
    try:
        port = ground.wait_for("port", seconds=PATIENCE_SECONDS).strip()
        found = run_client(ground, "sdk_http_client.py", f"http://127.0.0.1:{port}/mcp")
    finally:
        server.kill()
        server.communicate()

    assert [session["add"] for session in found] == ["added one"] * 2
    assert [session["progress"] for session in found] == [[[1, 2], [2, 2]]] * 2
    assert [session["look"] for session in found] == ["one", "one\none"]
    assert recorded(ground) == ["add", "add", "report", "report"]


def test_a_server_that_cannot_be_reached_is_told_and_its_write_is_given_back(ground: Ground) -> None:
    frame = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {}}}
    (ground.folder / "frame").write_text(json.dumps(frame) + "\n")
    line = f"{sys.executable} -m fencepost mcp-gate --url http://127.0.0.1:1/mcp < frame"

    told = ground.run("exec", "--lock", "z", "--", "sh", "-c", line, env={**ground.env, "PATH": os.environ["PATH"]})

    assert "did not answer" in json.loads(told.out)["error"]["message"]
    assert recorded(ground) == []
