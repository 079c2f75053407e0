"""`fencepost mcp-gate` as a program: between a real agent's end and a real server, under real leases."""

import json
import signal
import sys
from pathlib import Path

import pytest

from tests.mcp.wire import PATIENCE_SECONDS, SERVER, Wire, effects
from tests.support.ground import Ground, children, send
from tests.support.scratch import wait_until

GATE = ["mcp-gate", "--name", "files"]
FENCEPOST = [sys.executable, "-m", "fencepost"]


def inside(ground: Ground, *options: str) -> Wire:
    """Start a gateway as the agent of a guarded command."""
    words = ["exec", "--lock", "z", "--", *FENCEPOST, *GATE, *options, "--", *SERVER]
    return Wire(ground.start(*words, stdin=-1))


def outside(ground: Ground, *options: str) -> Wire:
    return Wire(ground.start(*GATE, *options, "--", *SERVER, stdin=-1))


def test_everything_that_calls_no_tool_passes_and_means_what_it_meant(ground: Ground) -> None:
    wire = inside(ground)
    odd = b'  {"jsonrpc": "2.0",\t"id":"\\u00e9", "method": "x/unknown", "params": {"z": 1.0, "a": [1e5, null]}}\r\n'
    silent = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}\n'

    wire.write(silent)
    wire.write(b"\n")
    wire.write(odd)

    assert json.loads(wire.read())["result"]["echo"]["params"] == {"z": 1.0, "a": [1e5, None]}
    heard = (ground.folder / "heard").read_bytes().splitlines()
    assert [json.loads(line) for line in heard] == [json.loads(silent), json.loads(odd)]
    assert wire.close() == 0


def test_what_the_server_prints_passes_as_it_is_and_so_does_its_standard_error(ground: Ground) -> None:
    wire = inside(ground)
    wire.ask("tools/list")

    wire.send("tools/call", {"name": "shout"})

    assert wire.read() == b"listen!\n"
    assert json.loads(wire.read())["id"] == 2
    wire.close()
    assert wire.process.stderr is not None
    assert b"the server has started" in wire.process.stderr.read()


def test_a_write_is_recorded_before_the_agent_has_its_answer_and_a_reading_tool_is_not(ground: Ground) -> None:
    wire = inside(ground)
    wire.ask("tools/list")

    assert wire.call("add", "one") == (False, "added one as 1")
    assert wire.call("look") == (False, "one\n")

    told = ground.run("ledger", "list", "--json")
    (entry,) = [json.loads(line) for line in told.out.splitlines()]
    assert entry["key"].startswith("mcp:files:add:")
    assert (entry["state"], entry["answer"]["result"]["content"][0]["text"]) == ("completed", "added one as 1")
    assert wire.close() == 0


def test_outside_of_a_run_tools_are_refused_unless_people_are_let_through(ground: Ground) -> None:
    closed, open_ = outside(ground), outside(ground, "--allow-outside")

    failed, why = closed.call("look")
    assert failed
    assert "--allow-outside" in why
    assert open_.call("add", "one") == (False, "added one as 1")
    assert closed.close() == open_.close() == 0
    assert effects(ground.folder) == ["one"]


def test_an_agent_that_was_frozen_beyond_its_lease_calls_no_tool_when_it_wakes(ground: Ground) -> None:
    """The gateway and its server slipped out of the tree, so that only the question to the supervisor stops them."""
    old = ground.start(
        *("exec", "--lock", "z", "--ttl", "5s", "--"), *("sh", "-c", "env > env.draft; mv env.draft env; sleep 600")
    )
    seen = dict(line.partition("=")[::2] for line in ground.wait_for("env").splitlines())
    env = {**ground.env, **{name: value for name, value in seen.items() if name.startswith("FENCEPOST_")}}
    del env["FENCEPOST_RUN_ID"]  # so that nobody finds it by this
    zombie = Wire(ground.start(*GATE, "--", *SERVER, stdin=-1, env=env))
    assert zombie.call("add", "before") == (False, "added before as 1")
    guard = ground.guard_of(old)
    ground.freeze(old.pid, guard, *children(guard), zombie.process.pid)

    new = ground.run(
        *("exec", "--lock", "z", "--wait=60s", "--", "sh", "-c", "echo successor >> effects"),
        seconds=PATIENCE_SECONDS * 2,
    )
    assert new.code == 0, new
    send(zombie.process.pid, signal.SIGCONT)

    for tool in ("add", "look"):
        failed, why = zombie.call(tool, "zombie")
        assert failed
        assert "does not answer" in why
    hook = ground.run("hook", "check", stdin=b'{"tool_name": "Bash"}', env=env)
    assert (hook.code, hook.out) == (2, b"")
    assert "Stop now." in hook.err
    assert effects(ground.folder) == ["before", "successor"]
    send(old.pid, signal.SIGCONT)
    assert ground.told(old, seconds=PATIENCE_SECONDS * 2).code == 76
    zombie.close()


def test_when_the_server_dies_at_a_write_the_gateway_ends_like_it_and_the_write_is_in_doubt(ground: Ground) -> None:
    wire = inside(ground)

    wire.send("tools/call", {"name": "die", "arguments": {"line": "one"}})

    assert wire.read() == b""
    assert wire.process.wait(PATIENCE_SECONDS) == 3
    (entry,) = [json.loads(line) for line in ground.run("ledger", "list", "--json").out.splitlines()]
    assert (entry["state"], entry["doubt"]) == ("ambiguous", "the server ended before the answer came")


def test_a_signal_ends_the_server_too(ground: Ground) -> None:
    wire = outside(ground, "--allow-outside")
    wire.ask("tools/list")
    (server,) = children(wire.process.pid)

    wire.process.terminate()

    assert wire.process.wait(PATIENCE_SECONDS) == 0
    wait_until(lambda: not Path(f"/proc/{server}").exists(), what="the server is gone", seconds=PATIENCE_SECONDS)


def test_a_server_that_does_not_read_and_does_not_end_is_ended_with_the_agent(ground: Ground) -> None:
    stuck = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    wire = Wire(ground.start(*GATE, "--allow-outside", "--", *stuck, stdin=-1))
    assert wire.read() == b"ready\n"
    wire.write(b"x" * 65_536 + b"\n")  # as much as a pipe holds, so that the gateway is at it
    wire.process.send_signal(signal.SIGTERM)

    assert wire.process.wait(PATIENCE_SECONDS) == 0


def test_a_message_without_end_is_not_held_in_memory(ground: Ground) -> None:
    wire = outside(ground, "--allow-outside")
    chunk = b"x" * 1_048_576
    with pytest.raises(BrokenPipeError):  # noqa: PT012  # whichever write meets the closed pipe
        for _ in range(100):
            wire.write(chunk)

    assert wire.process.wait(PATIENCE_SECONDS) == 0
    assert wire.process.stderr is not None
    assert b"is not passed on" in wire.process.stderr.read()
    assert not (ground.folder / "heard").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name one server"),
        (("--url", "ftp://x", "--allow-outside"), "is no URL of a server"),
        (("--url", "http://x/", "--", "cat"), "name one server"),
        (("--write", "a", "--read", "a", "--", "cat"), "is named by --write and by --read"),
        (("--key-args", "a", "--", "cat"), "--key-args is TOOL=NAME,NAME"),
        (("--url", "http://x/", "--header", "A=env:NOT_SET_HERE"), "NOT_SET_HERE is not set"),
    ],
)
def test_a_command_line_that_cannot_work_says_why(ground: Ground, words: tuple[str, ...], says: str) -> None:
    told = ground.run("mcp-gate", *words)

    assert told.code == 2
    assert says in told.err


def test_a_server_that_cannot_be_started_ends_as_a_shell_would(ground: Ground) -> None:
    assert ground.run("mcp-gate", "--", "no-such-server").code == 127
    assert ground.run("mcp-gate", "--", str(ground.folder)).code == 126
