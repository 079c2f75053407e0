"""A person's agent session holds its project: from its first hook to its last, or to the death of its process."""

import json
import os
import signal
import sys
import textwrap
from pathlib import Path
from threading import Event

import pytest

from tests.support.ground import Ground, Program, send
from tests.support.scratch import wait_until

PATIENCE_SECONDS = 30.0
# An agent CLI: calls its hooks through a shell, as they all do, when it is told to on standard input.
AGENT = textwrap.dedent("""\
    import subprocess, sys
    for line in sys.stdin:
        hook, _, told = line.rstrip("\\n").partition(" ")
        hook = hook.replace("\\u00a0", " ")
        ran = subprocess.run(["sh", "-c", f"{sys.executable} -m fencepost hook {hook}; code=$?; exit $code"],
                             input=told, capture_output=True, text=True)
        print(repr((ran.returncode, ran.stdout, ran.stderr)), flush=True)
""")


class Agent:
    """A session's process in our hands."""

    def __init__(self, ground: Ground, name: str, **env: str) -> None:
        self.name = name
        self.ground = ground
        self.folder = ground.folder / "project"
        self.folder.mkdir(exist_ok=True)
        self.process: Program = ground.spawn(
            [sys.executable, "-c", AGENT], stdin=-1, cwd=self.folder, env={**ground.env, "CLAUDECODE": "1", **env}
        )

    def hook(self, name: str, told: str | None = None) -> str:
        text = told if told is not None else json.dumps({"session_id": self.name, "cwd": str(self.folder)})
        code, out, err = self._called(name, text)
        assert (code, err) == (0, ""), (code, err)
        return out

    def call(self, words: str, told: str) -> tuple[int, str]:
        """Call a hook that may say no, and return its code and what it said."""
        code, _, err = self._called(words.replace(" ", "\u00a0"), told)
        return code, err

    def _called(self, name: str, text: str) -> tuple[int, str, str]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{name} {text}\n".encode())
        self.process.stdin.flush()
        code, out, err = eval(self.process.stdout.readline())  # what our own script printed
        return int(code), str(out), str(err)

    def leave(self) -> None:
        self.process.kill()
        self.process.communicate()


def holders(ground: Ground) -> list[int]:
    return [lease["pid"] for lease in ground.leases() if lease["resource"].startswith("project:")]


def until_held(ground: Ground, number: int) -> None:
    wait_until(lambda: len(holders(ground)) == number, what=f"{number} hold it", seconds=PATIENCE_SECONDS)


def run_in_project(ground: Ground, *options: str) -> int:
    return ground.run("exec", "--project", "project", *options, "--", "true", seconds=PATIENCE_SECONDS * 2).code


def test_a_session_holds_its_project_until_it_says_good_bye(any_ground: Ground) -> None:
    agent = Agent(any_ground, "s1")

    assert agent.hook("session-start") == ""
    until_held(any_ground, 1)
    assert run_in_project(any_ground) == 75
    assert "claude session" in any_ground.run("exec", "--project", "project", "--", "true").err
    assert agent.hook("session-start") == "", "a session that is compacted or resumed begins again, and changes nothing"
    until_held(any_ground, 1)
    agent.hook("session-end")

    until_held(any_ground, 0)
    assert run_in_project(any_ground) == 0
    agent.leave()


def test_a_session_whose_process_dies_gives_its_project_back(any_ground: Ground) -> None:
    agent = Agent(any_ground, "s1")
    agent.hook("session-start")
    until_held(any_ground, 1)

    agent.leave()

    assert run_in_project(any_ground, "--wait=30s") == 0
    assert list((any_ground.folder / "state/fencepost/sessions").glob("*.json")) == []


def test_a_keeper_that_is_killed_frees_the_project_and_the_next_hook_starts_another(ground: Ground) -> None:
    agent = Agent(ground, "s1")
    agent.hook("session-start")
    until_held(ground, 1)
    (keeper,) = holders(ground)

    send(keeper, signal.SIGKILL)
    assert run_in_project(ground, "--wait=30s") == 0
    agent.hook("session-start")

    until_held(ground, 1)
    assert holders(ground) != [keeper]
    agent.leave()
    until_held(ground, 0)


def test_a_second_session_is_told_and_waits_in_line(any_ground: Ground) -> None:
    first, second = Agent(any_ground, "s1"), Agent(any_ground, "s2")
    first.hook("session-start")
    until_held(any_ground, 1)

    said = second.hook("session-start")

    assert "is at work in this project" in said
    assert "claude session" in said
    until_held(any_ground, 1)
    (before,) = holders(any_ground)
    first.hook("session-end")
    wait_until(lambda: holders(any_ground) not in ([], [before]), what="the second has it", seconds=PATIENCE_SECONDS)
    for agent in (first, second):
        agent.leave()
    until_held(any_ground, 0)


def test_inside_a_run_a_session_holds_nothing_of_its_own(ground: Ground) -> None:
    agent = Agent(ground, "s1", FENCEPOST_RUN_ID="r1")

    assert agent.hook("session-start") == ""

    assert not (ground.folder / "state" / "fencepost" / "state.db").exists(), "not even a store was made"
    agent.leave()


@pytest.mark.parametrize(
    "told", ["", "{", "[]", '{"session_id": 3, "cwd": "relative"}', '{"session_id": "\\u0000 x", "cwd": "/no/such"}']
)
def test_whatever_a_hook_is_told_the_session_holds_the_folder_that_it_is_in(ground: Ground, told: str) -> None:
    agent = Agent(ground, "s1")

    assert agent.hook("session-start", told) == ""

    until_held(ground, 1)
    agent.hook("session-end", told)
    until_held(ground, 0)
    agent.leave()


def test_the_keeper_is_out_of_the_sessions_terminal_and_pipes(ground: Ground) -> None:
    agent = Agent(ground, "s1")
    agent.hook("session-start")
    until_held(ground, 1)
    (keeper,) = holders(ground)

    assert os.getsid(keeper) == keeper
    if Path("/proc/self/fd").exists():
        kept = {os.readlink(f"/proc/{keeper}/fd/{number}") for number in (0, 1, 2)}
        wait_until(
            lambda: {os.readlink(f"/proc/{keeper}/fd/{number}") for number in (0, 1, 2)} == {"/dev/null"},
            what=f"its standard descriptors lead nowhere, not to {kept}",
        )
    agent.leave()
    until_held(ground, 0)


def turn_of(agent: Agent, **more: str) -> str:
    told = {"session_id": agent.name, "cwd": str(agent.folder), **more}
    return agent.hook("turn-start", json.dumps(told))


def test_a_session_holds_its_project_from_a_prompt_to_the_end_of_that_turn(any_ground: Ground) -> None:
    agent = Agent(any_ground, "s1")

    for _ in range(2):
        assert turn_of(agent) == ""
        until_held(any_ground, 1)
        assert run_in_project(any_ground) == 75
        agent.hook("turn-end")
        until_held(any_ground, 0)
        assert run_in_project(any_ground) == 0, "a session that is left open overnight blocks nobody"
    agent.leave()


def test_an_interrupted_turn_is_over_when_nothing_is_heard_of_it_any_more(ground: Ground) -> None:
    ground.env["FENCEPOST_QUIET_SECONDS"] = "3"
    agent = Agent(ground, "s1")
    transcript = ground.folder / "transcript.jsonl"
    turn_of(agent, transcript_path=str(transcript))
    until_held(ground, 1)
    for _ in range(8):  # it works, and says nothing to us
        transcript.write_text("a line")
        assert len(holders(ground)) == 1
        Event().wait(0.5)

    until_held(ground, 0)
    turn_of(agent, transcript_path=str(transcript))
    until_held(ground, 1)
    agent.leave()


def strictly(agent: Agent, wait: str) -> tuple[int, str]:
    """Call the hook that stands before a tool, and return what it comes to."""
    told = json.dumps({"session_id": agent.name, "cwd": str(agent.folder)})
    return agent.call(f"turn-check --wait {wait}", told)


def test_strictly_a_session_that_came_second_is_refused_or_waits_its_turn(ground: Ground) -> None:
    first, second = Agent(ground, "s1"), Agent(ground, "s2")
    turn_of(first)
    until_held(ground, 1)
    turn_of(second)

    assert strictly(first, "5s") == (0, "")
    code, said = strictly(second, "1s")
    assert code == 2
    assert "this session has not the turn in its project" in said
    assert "claude session" in said

    first.hook("turn-end")
    assert strictly(second, "20s") == (0, "")
    for agent in (first, second):
        agent.leave()
