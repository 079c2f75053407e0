"""What one real CLI goes through: all that the tests then look at, in one go, because its starts take seconds."""

import json
import signal
import subprocess
from typing import Any, NamedTuple

from tests.agents.ground import PATIENCE_SECONDS, Ground
from tests.agents.model.script import BOTCH
from tests.agents.model.server import Request

FAULTS = ("401", "429", "500", "cut")
MAIN_FAULTS = ("401",)
# Tools; aider only edits.
CAN_CALL = ("claude", "codex", "gemini", "opencode", "qwen", "copilot", "goose", "cline", "continue")
MUTE = ("continue",)  # until their end, so that none can be seen to stand still
RESUMES = ("claude", "codex", "gemini", "opencode", "qwen", "copilot", "goose")  # its session, after a drain
TTL = "60s"  # long enough for a busy machine; adopting waits for no lease to run out
PATIENT = '"280s"'  # how long a run may last that ends by itself
# What a CLI gets that goes on trying: so long, and what its first run took so often, which ran alone.
SILENT_SECONDS_MIN, SILENT_TIMES = 60, 8
# After these the CLI goes on trying for minutes, and our own limit ends it.
GOES_ON = {
    **dict.fromkeys(("gemini", "qwen", "copilot", "aider"), ("429", "500")),
    **dict.fromkeys(("opencode", "continue"), ("429", "500", "cut")),
    "claude": ("429",),
}
IMPATIENT = ("401", "500", "cut")  # here it may give up by itself soon, if it can be told to


def asked_of(ground: Ground, name: str) -> list[Request]:
    """Return what the model was asked in a run; several CLIs may have it at once."""
    return ground.model.asked_for(f"to be {name} by {ground.cli.name}.")


class Story(NamedTuple):
    """What became of each run, and what was seen on the way."""

    ground: Ground
    runs: dict[str, dict[str, Any]]  # as `show` tells them
    drained: dict[str, Any] = {}  # noqa: RUF012  # never changed; the run when its worker has left
    before: frozenset[int] = frozenset()  # the agent's processes before its worker was killed
    after: frozenset[int] = frozenset()  # and with the next worker
    left: tuple[int, ...] = ()  # processes of a cancelled run


def tell(ground: Ground, *, whole: bool) -> Story:
    """Let the CLI work, be refused, be left by its worker and be interrupted; and for the whole story fail in every way."""
    calls = ground.cli.preset in CAN_CALL
    ground.configure("".join(_agents(ground, PATIENT)))  # all of them: a worker learns of projects when it starts
    _up(ground)
    ground.start_run("works")
    ground.wait_for("works")  # alone: at their first start some unpack themselves, or set up a database
    ground.configure("".join(_agents(ground, _silent(ground))))
    names = ["works", *(f"fault-{one}" for one in (FAULTS if whole else MAIN_FAULTS))]
    names += [
        *(["slow"] if whole and ground.cli.preset not in MUTE else []),
        *(["cancelled"] if calls and whole else []),
    ]
    names += ["notes" if calls else "botched"] if whole else []
    for name in names[1:]:
        ground.start_run(name)
    left = _cancel(ground) if calls and whole else ()
    told = None if whole else _leave_and_drain(ground)  # beside the others: it waits for nothing
    runs = {name: ground.wait_for(name) for name in names}
    told = told or _leave_and_drain(ground)
    return told._replace(runs={**runs, **told.runs}, left=left)


def _agents(ground: Ground, silent: str) -> list[str]:
    described = [ground.describe("works", "please WRITE")]
    for fault in FAULTS:
        env = ground.settings.impatient if fault in IMPATIENT else {}
        again = {"max_attempts": "2", "backoff": '"10ms"'} if fault == "401" else {}
        limit = silent if fault in GOES_ON.get(ground.cli.preset, ()) else PATIENT
        prompt = f"please FAULT-{fault.upper()}, to be fault-{fault} by {ground.cli.name}."
        described.append(ground.describe(f"fault-{fault}", prompt, env=env, timeout=limit, **again))
    if ground.cli.preset not in MUTE:
        described.append(ground.describe("slow", "please FAULT-SLOW", stall_timeout='"10s"', timeout=PATIENT))
    return [*described, *_working(ground)]


def _silent(ground: Ground) -> str:
    """Return the limit of a CLI that goes on trying: enough for a first try on a machine as busy as this one is."""
    works = ground.run_of("works")
    assert works.ended_us is not None
    assert works.started_us is not None
    return f'"{SILENT_SECONDS_MIN + SILENT_TIMES * (works.ended_us - works.started_us) // 1_000_000}s"'


def _working(ground: Ground) -> list[str]:
    preset = ground.cli.preset
    waits = "WAIT" if preset in CAN_CALL else "WRITE and FAULT-HELD"  # for its tool, or for its model
    words = {"adopted": waits, "drained": "STAY" if preset in RESUMES else waits}
    described = [
        ground.describe(name, f"please {word}, to be {name} by {ground.cli.name}.") for name, word in words.items()
    ]
    if preset not in CAN_CALL:
        args = json.dumps([*ground.settings.args, "--edit-format", "diff", "--file", "README"])
        return [*described, ground.describe("botched", BOTCH, args=args)]
    keys, env = ground.noting()
    cancelled = ground.describe("cancelled", f"please STAY, to be cancelled by {ground.cli.name}.")
    return [ground.describe("notes", "please NOTE", env=env, **keys), cancelled, *described]


def _begun(ground: Ground, name: str) -> None:
    """Wait until an agent is in the middle of its work."""
    if ground.cli.preset in CAN_CALL:
        ground.until_there(name, "draft")
    else:
        ground.until(lambda: bool(asked_of(ground, name)), seconds=PATIENCE_SECONDS)


def _let_go(ground: Ground, name: str) -> None:
    """Let an agent's tool, or its model, come to an end."""
    (ground.folder / name / "enough").touch()
    ground.model.released.append(f"to be {name} by {ground.cli.name}.")


def _cancel(ground: Ground) -> tuple[int, ...]:
    ground.until_there("cancelled", "draft")
    ground.fencepost("cancel", ground.run_of("cancelled").id)
    ground.wait_for("cancelled")
    return tuple(ground.agents_alive("cancelled"))


def _up(ground: Ground) -> subprocess.Popen[bytes]:
    return ground.up("--no-apply", "--workers", "4", "--ttl", TTL)


def _leave_and_drain(ground: Ground) -> Story:
    """Kill the daemon of two nightly agents at work; let its successor adopt both, see one to its end, and drain the other."""
    names = ("adopted", "drained")
    ground.configure("".join([*_agents(ground, PATIENT), *map(_nightly, names)]))
    for name in names:
        _begun(ground, name)
    before = frozenset(ground.agents_alive("adopted"))
    (first,) = ground.daemons()
    first.kill()
    first.wait(10)
    second = _up(ground)
    ground.until(lambda: "adopted" in ground.said(), seconds=PATIENCE_SECONDS)
    after = frozenset(ground.agents_alive("adopted"))
    _let_go(ground, "adopted")
    told = Story(ground, {"adopted": ground.wait_for("adopted")}, before=before, after=after)
    second.send_signal(signal.SIGTERM)
    if ground.cli.preset not in RESUMES:  # the drain waits for it
        _let_go(ground, "drained")
    assert second.wait(60) == 0
    (between,) = ground.rows("show", ground.run_of("drained").id)
    if ground.cli.preset in RESUMES:
        _up(ground)
    return told._replace(runs={**told.runs, "drained": ground.wait_for("drained")}, drained=between)


def _nightly(name: str) -> str:
    """Describe a schedule whose next tick comes soon, and which then waits for no other."""
    return f'[schedules.nightly-{name}]\nagent = "{name}"\ncron = "*/5 * * * * *"\nonce = true\n'
