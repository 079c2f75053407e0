"""Scheduled agents before the model gate: a real worker, a real gate, and a provider on loopback."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import claude_agent_sdk
import pytest

from fencepost.host.life_lock import holder_of
from tests.service.test_adoption import go_away, up
from tests.support.ground import send
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
    except OSError as error:
        return 0, str(error)
def work(calls):
    open("env.json", "w").write(json.dumps(dict(os.environ)))
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
def function(run):
    work(run.payload["calls"])
if __name__ == "__main__":
    work(int(sys.argv[1]))
"""
WAYS = ("command", "function", "exec")  # to run an agent before the gate
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


def agents_by(provider: Provider, way: str, calls: int, more: str = "") -> str:
    text = agents(provider, calls, more)
    command = f'command = [{PYTHON}, "agent.py", "{calls}"]'
    return text.replace(command, 'engine = "python"\nfunction = "agent:function"') if way == "function" else text


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


def think(site: Site, provider: Provider, way: str, calls: int, budget: str = "") -> str:
    """Let an agent call its model so often, in one of the ways to run, and return its log once it has ended."""
    if way == "exec":
        told = site.try_fencepost(
            *("exec", "--lock", "z", "--model-gate", "anthropic", "--model-key", "env:PROVIDER_KEY"),
            *("--model-url", provider.url, *(("--budget-usd", budget) if budget else ())),
            *("--", sys.executable, "agent.py", str(calls)),
        )
        return told.stdout + told.stderr
    site.configure(agents_by(provider, way, calls, f'budget_usd = "{budget}"' if budget else ""))
    up(site, 1)
    site.fencepost("run", "thinks", "--payload", json.dumps({"calls": calls}))
    site.until(lambda: site.runs(state="succeeded") or site.runs(state="dead"), seconds=60)
    return site.fencepost("logs", site.runs()[0].id)


def start_thinking(site: Site, provider: Provider, way: str) -> subprocess.Popen[bytes] | None:
    """Let an agent call its model until it is told to stop, in one of the ways to run."""
    if way == "exec":
        words = ("--model-gate", "anthropic", "--model-key", "env:PROVIDER_KEY", "--model-url", provider.url)
        agent = (sys.executable, "agent.py", "-1")
        return site.start(sys.executable, "-m", "fencepost", "exec", "--lock", "z", *words, "--", *agent)
    site.configure(agents_by(provider, way, -1))
    up(site, 1)
    site.fencepost("run", "thinks", "--payload", '{"calls": -1}')
    return None


def gate_now() -> int | None:
    """Return the process of this user's model gate."""
    return holder_of(str(next(Path(os.environ["XDG_RUNTIME_DIR"]).rglob("model*/lock"))))


def end_gate(site: Site, by: signal.Signals) -> int:
    """End the gate under whoever uses it, and return which process it was."""
    gate = gate_now()
    assert gate is not None
    send(gate, by)
    site.until(lambda: gate_now() != gate)
    return gate


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_thinks_with_a_key_that_it_never_sees_and_its_cost_is_recorded(
    site: Site, provider: Provider, way: str
) -> None:
    said = think(site, provider, way, 2)

    assert codes(site) == ["200", "200"], said
    env = json.loads((site.folder / "env.json").read_text())
    assert REAL_KEY not in json.dumps(env)
    assert not {"CLAUDE_CODE_USE_BEDROCK", "OPENAI_API_KEY", "PROVIDER_KEY"} & env.keys()
    assert env["ANTHROPIC_API_KEY"].startswith(f"fencepost-{env['FENCEPOST_RUN_ID']}-")
    assert all(asked["headers"]["x-api-key"] == REAL_KEY for asked in provider.asked)
    if way != "exec":  # which records no cost
        told = shown(site, site.runs()[0].id)
        assert float(told["cost_usd"]) == pytest.approx(2 * (3 * INPUT + 15 * OUTPUT + 0.3 * 200) / 1e6)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_is_ended_at_the_call_that_would_pass_its_budget(site: Site, provider: Provider, way: str) -> None:
    said = think(site, provider, way, 50, "0.05")

    assert "may cost 0.05 USD (budget_usd)" in said
    assert "the model says" in said, "the agent is told in its provider's own words"
    assert codes(site)[-1] == "403"
    assert len(provider.asked) == len(codes(site)) - 1
    if way != "exec":
        assert shown(site, site.runs()[0].id)["reason"] == "budget"


@pytest.mark.parametrize("after", ["goes on trying", "ends as if all were well"])
def test_a_command_is_ended_when_its_budget_is_spent_and_is_no_success(
    site: Site, provider: Provider, after: str
) -> None:
    words = ("--model-gate", "anthropic", "--model-key", "env:PROVIDER_KEY", "--model-url", provider.url)
    agent = (
        f"{sys.executable} agent.py -1 > /dev/null"
        if after == "goes on trying"
        else f"{sys.executable} agent.py 50; true"
    )
    ran = site.try_fencepost("exec", "--lock", "z", *words, "--budget-usd", "0.05", "--", "sh", "-c", agent)

    assert ran.returncode == 1
    assert ran.stderr.count("may cost 0.05 USD (budget_usd)") == 1, "also where it tries again and again"
    assert ("its budget is spent; the run was ended." in ran.stderr) == (after == "goes on trying")
    assert not _alive(site)


@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_what_a_command_left_behind_cannot_think_without_its_supervisor(
    site: Site, provider: Provider, how: str
) -> None:
    words = ("--model-gate", "anthropic", "--model-key", "env:PROVIDER_KEY", "--model-url", provider.url, "--ttl", "2s")
    agent = (sys.executable, "agent.py", "-1")
    supervisor = site.start(sys.executable, "-m", "fencepost", "exec", "--lock", "z", *words, "--", *agent)
    site.until(lambda: codes(site), seconds=60)
    env = json.loads((site.folder / "env.json").read_text())
    strayed = {name: value for name, value in env.items() if not name.startswith("FENCEPOST_")}

    supervisor.send_signal(signal.SIGSTOP if how == "frozen" else signal.SIGKILL)

    def is_refused() -> bool:
        ran = subprocess.run([*agent[:-1], "1"], cwd=site.folder, env=strayed, capture_output=True, check=False)
        return ran.returncode == 1

    site.until(is_refused, seconds=30)
    assert codes(site)[-1] == "403"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--model-gate", "nobody"), "one of anthropic, openai, gemini"),
        (("--budget-usd", "1"), "add --model-gate"),
        (("--model-gate", "anthropic", "--model-key", "env:NOT_THERE"), "NOT_THERE"),
    ],
)
def test_a_command_that_asks_wrongly_is_told_and_not_started(site: Site, words: tuple[str, ...], told: str) -> None:
    ran = site.try_fencepost("exec", "--lock", "z", *words, "--", sys.executable, "agent.py", "1")

    assert ran.returncode not in (0, 1)
    assert told in " ".join(ran.stderr.split())
    assert codes(site) == []


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


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("way", WAYS)
def test_an_agent_thinks_on_when_the_gate_itself_was_ended(
    site: Site, provider: Provider, way: str, by: signal.Signals
) -> None:
    ran = start_thinking(site, provider, way)
    site.until(lambda: codes(site), seconds=60)

    first = end_gate(site, by)
    thought = codes(site).count("200")
    site.until(lambda: codes(site).count("200") > thought + 3, seconds=60)
    assert gate_now() not in (None, first)
    (site.folder / "go").touch()

    if way == "exec":
        assert ran is not None
        assert ran.wait(60) == 0
        return
    site.until(lambda: site.runs(state="succeeded"), seconds=60)
    (run,) = site.runs()
    assert run.attempt == 1
    whole = codes(site).count("200") * 0.01056
    assert whole <= float(shown(site, run.id)["cost_usd"]) + 0.011  # a call that was cut off costs what it may have


def test_a_gate_that_died_with_its_worker_comes_back_with_the_next_one(site: Site, provider: Provider) -> None:
    site.configure(agents(provider, -1))
    worker = up(site, 1)
    site.fencepost("run", "thinks")
    site.until(lambda: codes(site), seconds=60)

    go_away(worker, "killed")
    end_gate(site, signal.SIGKILL)
    thought = codes(site).count("200")
    up(site, 1)
    site.until(lambda: codes(site).count("200") > thought + 3, seconds=60)
    (site.folder / "go").touch()
    site.until(lambda: site.runs(state="succeeded"), seconds=60)

    assert site.runs()[0].attempt == 1


def test_what_was_spent_is_not_forgotten_with_the_gate(site: Site, provider: Provider) -> None:
    site.configure(agents(provider, -1, 'budget_usd = "0.20"'))
    up(site, 1)
    site.fencepost("run", "thinks")
    for _ in range(3):
        thought = codes(site).count("200")
        site.until(lambda: codes(site).count("200") > thought + 2, seconds=60)  # noqa: B023  # it is asked at once
        end_gate(site, signal.SIGKILL)
    site.until(lambda: site.runs(state="dead"), seconds=60)

    told = shown(site, site.runs()[0].id)
    assert told["reason"] == "budget"
    assert 0.20 - 0.02 < float(told["cost_usd"]) <= 0.20
    assert codes(site).count("200") * 0.01056 <= 0.20


def test_a_run_that_was_lost_while_the_gate_was_gone_gets_no_pass_again(site: Site, provider: Provider) -> None:
    site.configure(agents(provider, -1))
    worker = up(site, 1, ttl="6s")
    site.fencepost("run", "thinks")
    site.until(lambda: codes(site), seconds=60)
    env = json.loads((site.folder / "env.json").read_text())
    strayed = {name: value for name, value in env.items() if not name.startswith("FENCEPOST_")}

    go_away(worker, "killed")
    end_gate(site, signal.SIGKILL)
    site.until(lambda: not _alive(site), seconds=30)
    think(site, provider, "exec", 1)  # which brings the gate back
    ran = subprocess.run(
        [sys.executable, "agent.py", "1"], cwd=site.folder, env=strayed, capture_output=True, check=False
    )

    assert codes(site)[-2:] == ["200", "403"]
    assert b"the lease of this run is lost" in ran.stdout


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


def test_a_cli_that_would_go_around_the_gate_is_not_started(site: Site, provider: Provider) -> None:
    text = agents(provider, 1).replace(
        f'command = [{PYTHON}, "agent.py", "1"]', 'engine = "cli"\npreset = "cline"\nprompt = "hi"'
    )
    site.configure(text)
    up(site, 1)
    site.fencepost("run", "thinks")
    site.until(lambda: site.runs(state="dead"), seconds=60)

    (run,) = site.runs()
    assert run.reason == "misconfigured"
    assert "would go around the model gate" in site.fencepost("logs", run.id)


@pytest.mark.parametrize(
    ("name", "told"), [("cline", "let a worker run it, not exec"), ("cn", "would go around the model gate")]
)
def test_a_command_that_would_go_around_the_gate_is_not_started(site: Site, name: str, told: str) -> None:
    (site.folder / name).symlink_to("/bin/true")
    words = ("--model-gate", "openai", "--model-key", "env:PROVIDER_KEY")

    ran = site.try_fencepost("exec", "--lock", "z", *words, "--", f"{site.folder}/{name}")

    assert ran.returncode == 78
    assert told in " ".join(ran.stderr.split())


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
