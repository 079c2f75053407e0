"""What one real CLI goes through before the model gate and a git gate: led by our recipe alone, poor, and frozen."""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.host.clock import SystemClock
from tests.agents.ground import PATIENCE_SECONDS, Ground
from tests.agents.model.server import Request
from tests.agents.story import CAN_CALL, PATIENT
from tests.support.ground import children, freeze, send
from tests.support.repository import git

REAL_KEY = "sk-that-no-agent-ever-sees"
REAL_NAME = "KEY_OF_THE_PROVIDER"
# What would lead past the gate, and is asked for all the same.
DECOYS = {
    "OPENAI_API_KEY": "sk-decoy",
    "ANTHROPIC_API_KEY": "sk-decoy",
    "GEMINI_API_KEY": "sk-decoy",
    "CLAUDE_CODE_USE_BEDROCK": "1",
    "CLAUDE_CODE_USE_VERTEX": "1",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9",
    "COPILOT_PROVIDER_API_KEY": "sk-decoy",
    "OPENAI_HOST": "http://127.0.0.1:9",
}
TTL_SECONDS = 20
HEARING_SECONDS = 30.0  # for an agent to be told that it may not think, and to say so
REFUSED = "the lease of this run is lost"
# A worker on another machine, as far as the first one can tell: with processes of its own.
ELSEWHERE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
SUCCESSOR = "git commit -qm newer --allow-empty && git push -q origin HEAD:main"


class Gated(NamedTuple):
    """What became of each run, and what was seen on the way."""

    ground: Ground
    runs: dict[str, dict[str, Any]]  # as `show` tells them
    asked_late: int = 0  # how often the model was asked by the one that woke up
    landed: str = ""  # where the branch was before it woke up
    late: str = ""  # and afterwards
    heard: str = ""  # what it said when it was awake again


def tell_gated(ground: Ground) -> Gated:
    """Let the CLI work and push through its gates, be refused for its budget, and wake up after its lease."""
    calls = ground.cli.preset in CAN_CALL
    ground.variables = {REAL_NAME: REAL_KEY, **DECOYS}
    names = ["ship", "poor", *(["dozer"] if calls else [])]
    for name in names:
        _remote(ground, name)
    successor = _successor() if calls else ""
    ground.configure("".join(_gate(ground, name) for name in names) + _agents(ground, names) + successor)
    ground.up("--workers", "2", "--ttl", f"{TTL_SECONDS}s", command="worker")
    runs = {}
    for name in names[:2]:  # one after the other: at their first start some unpack themselves, or set up a database
        ground.start_run(name)
        runs[name] = ground.wait_for(name)
    told = Gated(ground, runs)
    return _wake_up_late(told) if calls else told


def _agents(ground: Ground, names: list[str]) -> str:
    provider, model = ground.settings.gate
    quiet = {name: value for name, value in ground.settings.env.items() if name not in DECOYS and "KEY" not in name}
    quiet = {name: value for name, value in quiet.items() if "://" not in value}
    args = ground.settings.args if ground.settings.led is None else ground.settings.led
    ground.settings = ground.settings._replace(env=quiet, args=args)  # no address and no key: those come by the recipe
    keys = {
        "model_gate": f'"{provider}"',
        "model_key": f'"env:{REAL_NAME}"',
        "model_url": f'"{ground.model.url}"',
        **({} if "--model" in ground.settings.args else {"model": f'"{model}"'}),
        "pass_env": json.dumps([REAL_NAME, *DECOYS]),
        "timeout": PATIENT,
    }
    words = {"ship": "please SHIP", "poor": "please WRITE", "dozer": "please DOZE"}
    return "".join(
        ground.describe(
            name,
            f"{words[name]}, to be {name} by {ground.cli.name}.",
            env={},
            **{**keys, "gates": f'["{name}"]', **({"budget_usd": '"0.000001"'} if name == "poor" else {})},
        )
        for name in names
    )


def _successor() -> str:
    """Describe a plain command that waits for what the dozer holds, and pushes to the same branch."""
    command = json.dumps(["sh", "-c", SUCCESSOR])
    keyed = "".join(
        f'[schedules.nightly-{name}]\nagent = "{name}"\ncron = "@yearly"\nconcurrency_key = "site"\n'
        for name in ("dozer", "newer")
    )
    newer = (
        f'[projects.newer]\npath = "newer"\n[agents.newer]\nproject = "newer"\ncommand = {command}\ngates = ["dozer"]\n'
    )
    return newer + keyed


def _gate(ground: Ground, name: str) -> str:
    return f'[gates.{name}]\nkind = "git"\nurl = "{ground.folder}/{name}.git"\nbranch = "main"\n'


def _remote(ground: Ground, name: str) -> None:
    place, remote = ground.make(name), ground.folder / f"{name}.git"
    git(ground.folder, "init", "--quiet", "--bare", "-b", "main", str(remote))
    for key, value in (("user.name", "agent"), ("user.email", "agent@example.org")):  # Gemini's git knows no home
        git(place, "config", key, value)
    git(place, "remote", "add", "origin", str(remote))
    git(place, "push", "--quiet", "origin", "HEAD:main")


def branch(ground: Ground, name: str) -> str:
    """Return where the gated branch of an agent's remote is."""
    return git(ground.folder / f"{name}.git", "rev-parse", "main")


def _wake_up_late(told: Gated) -> Gated:
    """Freeze an agent with all that watches it, let the next holder of its key push, and wake up the agent alone."""
    ground = told.ground
    ground.start_run("nightly-dozer")
    ground.until_there("dozer", "asleep")
    agent, watching = ground.agents_alive("dozer"), _watching(ground)
    over_ns = freeze(ground.store, *watching, *agent) + TTL_SECONDS * 10**9
    git(ground.folder, "clone", "--quiet", f"{ground.folder}/dozer.git", str(ground.folder / "newer"))
    worker = (sys.executable, "-m", "fencepost", "worker", "--ttl", f"{TTL_SECONDS}s")
    elsewhere = ground.start(*ELSEWHERE, *worker)
    ground.start_run("nightly-newer")
    told.runs["newer"] = ground.wait_for("newer")
    elsewhere.kill()
    ground.until(lambda: SystemClock().awake_ns() > over_ns, seconds=PATIENCE_SECONDS)  # nobody may have renewed since
    landed, asked = branch(ground, "dozer"), len(_asked(ground))
    (ground.folder / "dozer" / "awake").touch()
    shells = [pid for pid in agent if b"until [ -e awake" in _file(pid, "cmdline")]
    _send(signal.SIGCONT, *shells, *[pid for shell in shells for pid in _below(shell)])
    ground.until_there("dozer", "pushed")
    heard = _wake_and_listen(ground, agent)
    told = told._replace(
        asked_late=len(_asked(ground)) - asked, landed=landed, late=branch(ground, "dozer"), heard=heard
    )
    _send(signal.SIGCONT, *watching)
    return told._replace(runs={**told.runs, "dozer": ground.wait_for("dozer")})


def _wake_and_listen(ground: Ground, agent: list[int]) -> str:
    """Wake the agent and return what it says until it was refused, has ended, or has had its time.

    Its guard is frozen, and writes down nothing any more when it wakes: another run has its lease. So we read its pipes.
    """
    main = min((pid for pid in agent if _file(pid, "stat")), key=_began)  # its last `sleep` has ended meanwhile
    ends = [os.open(f"/proc/{main}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK) for number in (1, 2)]
    heard = bytearray()

    def is_over() -> bool:
        for end in ends:
            with suppress(BlockingIOError):
                heard.extend(os.read(end, 1_000_000))
        awake = any(_file(pid, "cmdline") for pid in agent)
        return REFUSED.encode() in heard or not awake or time.monotonic() > woken + HEARING_SECONDS  # noqa: TID251

    _send(signal.SIGCONT, *agent)
    woken = time.monotonic()  # noqa: TID251  # real processes take real time
    ground.until(is_over, seconds=PATIENCE_SECONDS)
    for end in ends:
        os.close(end)
    return heard.decode(errors="replace")


def _asked(ground: Ground) -> list[Request]:
    return ground.model.asked_for(f"to be dozer by {ground.cli.name}.")


def _watching(ground: Ground) -> list[int]:
    """Return what would end the agent: its worker and its guard; not the model gate, which stays awake."""
    ours = [
        pid
        for pid in ground.left_alive()
        if b"fencepost" in (said := _file(pid, "cmdline")) and b"model_gate" not in said
    ]
    return [pid for pid in ours if pid not in ground.agents_alive("dozer")]


def _below(pid: int) -> list[int]:
    found = children(pid)
    return [*found, *(one for child in found for one in _below(child))]


def _began(pid: int) -> int:
    """Return when a process was started, in ticks of the kernel's clock."""
    return int(_file(pid, "stat").rpartition(b")")[2].split()[19])


def _send(number: signal.Signals, *pids: int) -> None:
    for pid in pids:
        send(pid, number)


def _file(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
