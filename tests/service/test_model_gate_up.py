"""Scheduled agents before the model gate: a real worker, a real gate, and a provider on loopback."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import claude_agent_sdk
import pytest

from tests.service.test_adoption import go_away, up
from tests.support.messages_api import messages_api
from tests.support.model_provider import INPUT, OUTPUT, REAL_KEY, Provider, model_provider
from tests.support.site import Site

CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"

# An agent as any SDK would be: it goes by the variables of its environment, and says what it hears.
AGENT = """
import json, os, sys, time, urllib.request, urllib.error
def call():
    body = {"model": "claude-sonnet-4-5", "max_tokens": 1000, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(),
        {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
open("env.json", "w").write(json.dumps(dict(os.environ)))
calls = int(sys.argv[1])
done = 0
while calls < 0 or done < calls:
    code, said = call()
    with open("codes", "a") as file:
        file.write(f"{code}\\n")
    if code != 200:
        print("the model says", said)
        if calls >= 0:
            sys.exit(1)
    done += 1
    if os.path.exists("go"):
        break
    time.sleep(0.1)
"""
PYTHON = json.dumps(sys.executable)


def agents(provider: Provider, calls: int, more: str = "") -> str:
    return f"""
[agents.thinks]
command = [{PYTHON}, "agent.py", "{calls}"]
model_gate = "anthropic"
model_key = "env:PROVIDER_KEY"
model_url = "{provider.url}"
pass_env = ["PROVIDER_KEY", "CLAUDE_CODE_USE_BEDROCK", "OPENAI_API_KEY"]
{more}
"""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with model_provider() as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.setenv("PROVIDER_KEY", REAL_KEY)
    monkeypatch.setenv("CLAUDE_CODE_USE_BEDROCK", "1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-another-provider")
    with TemporaryDirectory(prefix="fp", dir="/tmp") as runtime:  # a gate of its own: sockets have short names
        monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
        made = Site(tmp_path)
        (made.folder / "agent.py").write_text(AGENT)
        yield made
        made.close()


def codes(site: Site) -> list[str]:
    path = site.folder / "codes"
    return path.read_text().split() if path.exists() else []


def shown(site: Site, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(site.fencepost("show", run_id, "--json"))
    return found


def test_an_agent_thinks_with_a_key_that_it_never_sees_and_its_cost_is_recorded(site: Site, provider: Provider) -> None:
    site.configure(agents(provider, 2))
    up(site, 1)
    site.fencepost("run", "thinks")
    site.until(lambda: site.runs(state="succeeded"), seconds=60)

    (run,) = site.runs()
    env = json.loads((site.folder / "env.json").read_text())
    assert codes(site) == ["200", "200"]
    assert REAL_KEY not in json.dumps(env)
    assert not {"CLAUDE_CODE_USE_BEDROCK", "OPENAI_API_KEY", "PROVIDER_KEY"} & env.keys()
    assert env["ANTHROPIC_API_KEY"].startswith(f"fencepost-{run.id}-")
    assert all(asked["headers"]["x-api-key"] == REAL_KEY for asked in provider.asked)
    told = shown(site, run.id)
    assert float(told["cost_usd"]) == pytest.approx(2 * (3 * INPUT + 15 * OUTPUT + 0.3 * 200) / 1e6)


def test_a_run_is_ended_at_the_call_that_would_pass_its_budget(site: Site, provider: Provider) -> None:
    site.configure(agents(provider, 50, 'budget_usd = "0.05"'))
    up(site, 1)
    site.fencepost("run", "thinks")
    site.until(lambda: site.runs(state="dead"), seconds=60)

    (run,) = site.runs()
    assert shown(site, run.id)["reason"] == "budget"
    said = site.fencepost("logs", run.id)
    assert "may cost 0.05 USD (budget_usd)" in said
    assert "the model says" in said, "the agent is told in its provider's own words"
    assert codes(site)[-1] == "403"
    assert len(provider.asked) == len(codes(site)) - 1


@pytest.mark.parametrize("how", ["killed", "left"])
def test_an_agent_thinks_on_while_its_worker_is_restarted(site: Site, provider: Provider, how: str) -> None:
    site.configure(agents(provider, -1))
    worker = up(site, 1, leaves=how == "left")
    site.fencepost("run", "thinks")
    site.until(lambda: codes(site), seconds=60)

    go_away(worker, how)
    without = len(codes(site))
    site.until(lambda: len(codes(site)) > without + 3)
    up(site, 1)
    site.until(lambda: "adopted" in site.said())
    adopted = len(codes(site))
    site.until(lambda: len(codes(site)) > adopted + 3)
    (site.folder / "go").touch()
    site.until(lambda: site.runs(state="succeeded"), seconds=60)

    assert set(codes(site)) == {"200"}
    (run,) = site.runs()
    assert run.attempt == 1
    assert float(shown(site, run.id)["cost_usd"]) == pytest.approx(len(codes(site)) * 0.01056)


def test_a_process_that_slipped_out_of_a_lost_run_cannot_think(site: Site, provider: Provider) -> None:
    site.configure(agents(provider, -1))
    worker = up(site, 1, ttl="6s")
    site.fencepost("run", "thinks")
    site.until(lambda: codes(site), seconds=60)
    env = json.loads((site.folder / "env.json").read_text())
    inside = {name for name in env if name.startswith("FENCEPOST_")}
    strayed = {name: value for name, value in env.items() if name not in inside}

    go_away(worker, "killed")  # nobody renews: the lease runs out
    site.until(lambda: not _alive(site), seconds=30)
    ran = subprocess.run(
        [sys.executable, "agent.py", "1"], cwd=site.folder, env=strayed, capture_output=True, check=False
    )

    assert ran.returncode == 1
    assert b"the lease of this run is lost" in ran.stdout
    assert codes(site)[-1] == "403"


@pytest.mark.parametrize("budget", ["1", "0.0001"])
def test_the_real_claude_code_thinks_through_the_gate_and_shows_why_it_may_not(site: Site, budget: str) -> None:
    (site.folder / "bin").mkdir()
    (site.folder / "bin" / "claude").symlink_to(CLAUDE)
    with messages_api() as api:
        env = {name: value for name, value in api.environment.items() if not name.startswith("ANTHROPIC")}
        path = f"{site.folder}/bin:{os.environ['PATH']}"
        site.configure(f"""
[agents.thinks]
engine = "claude"
prompt = "WRITE"
tools = ["Bash"]
model = "claude-sonnet-4-5"
model_gate = "anthropic"
model_key = "env:PROVIDER_KEY"
model_url = "{api.url}"
budget_usd = "{budget}"
env = {json.dumps({**env, "PATH": path}).replace('": "', '" = "')}
""")
        up(site, 1)
        site.fencepost("run", "thinks")
        site.until(lambda: [run for run in site.runs() if run.state in ("succeeded", "dead")], seconds=90)

    (run,) = site.runs()
    told = shown(site, run.id)
    if budget == "1":
        assert (told["state"], told["summary"]) == ("succeeded", "done"), told
        assert (site.folder / "written").exists()
    else:
        assert told["reason"] == "budget"
        assert "may cost 0.0001 USD (budget_usd)" in told["summary"]
        assert api.asked == []


def _alive(site: Site) -> bool:
    return any(
        b"agent.py" in path.read_bytes() and str(site.folder) in os.readlink(path.parent / "cwd")
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _is_there(path)
    )


def _is_there(path: Path) -> bool:
    try:
        os.readlink(path.parent / "cwd")
        path.read_bytes()
    except OSError:
        return False
    return True
