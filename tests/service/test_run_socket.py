"""The run socket: what the agent may ask, who else may not, and that nobody can starve the renewal through it."""

import json
import signal
import socket
import sys
import time

import pytest

from fencepost.service.answers import LEDGER_VERBS
from tests.support.ground import Ground, send, until

CHECK = f"{sys.executable} -m fencepost gate check"
AGENT = ["sh", "-c", 'echo "$FENCEPOST_SOCKET $FENCEPOST_RUN_KEY" > up; until [ -e enough ]; do sleep 0.02; done']


class Run:
    """One run with an open ear."""

    def __init__(self, ground: Ground, *, ttl: str = "30s") -> None:
        self.ground = ground
        self.holder = ground.start("exec", "--lock", "z", "--ttl", ttl, "--", *AGENT)
        self.path, self.key = ground.wait_for("up").split()

    def call(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(10)
        connection.connect(self.path)
        return connection

    def ask(self, data: bytes) -> bytes:
        with self.call() as connection:
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except (BrokenPipeError, OSError):
                pass  # it was refused while we spoke
            try:
                return connection.makefile("rb").read()
            except ConnectionResetError:
                return b""

    def check(self, **fields: str) -> dict[str, object]:
        return self.tell("check", **fields)

    def tell(self, verb: str, **fields: str) -> dict[str, object]:
        answer = self.ask(json.dumps({"key": self.key, "verb": verb, **fields}).encode() + b"\n")
        found: dict[str, object] = json.loads(answer)
        return found

    def finish(self) -> None:
        (self.ground.folder / "enough").touch()
        assert self.ground.told(self.holder).code == 0


def test_the_agent_is_told_that_it_may_go_on(ground: Ground) -> None:
    told = ground.run("exec", "--lock", "z", "--", "sh", "-c", CHECK)
    assert told.code == 0, told


def test_after_the_loss_it_is_told_no(ground: Ground) -> None:
    script = f"echo > up; while {CHECK}; do :; done; {CHECK}; echo $? > code"
    holder = ground.start("exec", "--lock", "z", "--ttl", "8s", "--", "sh", "-c", script)
    ground.wait_for("up")
    send(ground.guard_of(holder), signal.SIGSTOP)  # so that the agent lives long enough to ask
    assert ground.run("lease", "break", "lock:z").code == 0
    assert ground.wait_for("code") == "77"
    told = ground.told(holder)
    assert told.code == 76, told
    assert "the lease of this run is lost: stop." in told.err


def test_after_the_loss_every_verb_is_refused(ground: Ground) -> None:
    run = Run(ground, ttl="8s")
    for verb in LEDGER_VERBS[:2]:
        assert run.tell(verb, entry="k", call="c", answer="1")["ok"] is True
    send(ground.guard_of(run.holder), signal.SIGSTOP)  # so that somebody is there to ask
    assert ground.run("lease", "break", "lock:z").code == 0
    until(lambda: run.check()["ok"] is False, "the supervisor has heard of it")

    for verb in ("check", "gate", *LEDGER_VERBS):
        told = run.tell(verb, entry="k", call="c", seen="c", answer="2", gate="file:/x")
        assert (told["ok"], told["code"]) == (False, "lease_lost"), verb
    ground.told(run.holder)


def test_an_answer_of_64_kilobytes_comes_back_whatever_is_in_it(ground: Ground) -> None:
    run = Run(ground)
    answer = json.dumps('"\\' * 16_000)

    run.tell("ledger_begin", entry="k", call="c")
    assert run.tell("ledger_complete", entry="k", call="c", answer=answer) == {"ok": True}

    assert run.tell("ledger_begin", entry="k", call="d") == {"ok": True, "verdict": "answered", "answer": answer}
    assert run.tell("ledger_complete", entry="k", call="d", answer="x" * 65_537)["code"] == "invalid"
    run.finish()


def test_a_run_reaches_no_other_runs_ledger(ground: Ground) -> None:
    run = Run(ground)

    for scope in ("run:other", "*", ""):
        assert run.tell("ledger_begin", entry="k", call="c", scope=scope)["code"] == "invalid"
    assert run.tell("ledger_begin", entry="k" * 600, call="c")["code"] == "invalid"
    assert run.tell("ledger_begin", entry="k", call="c" * 100)["code"] == "invalid"
    run.finish()


def test_a_frozen_supervisor_means_refused_and_soon(ground: Ground) -> None:
    script = f"echo > up; until [ -e frozen ]; do sleep 0.02; done; {CHECK}; echo $? > code"
    holder = ground.start("exec", "--lock", "z", "--ttl", "60s", "--", "sh", "-c", script)
    ground.wait_for("up")
    send(holder.pid, signal.SIGSTOP)
    before = time.perf_counter()
    (ground.folder / "frozen").touch()
    assert ground.wait_for("code") == "77"
    assert time.perf_counter() - before < 8
    send(holder.pid, signal.SIGCONT)
    assert ground.told(holder).code == 0


def test_only_the_runs_own_key_opens_it(ground: Ground) -> None:
    run = Run(ground)
    assert run.check()["ok"] is True
    for key in ("", "x", run.key[:-1], run.key.upper()):
        assert run.check(key=key)["code"] == ("unauthorised" if key != run.key else None)
    assert json.loads(run.ask(b'{"verb":"check"}\n'))["ok"] is False
    run.finish()


def test_the_socket_is_for_this_user_alone(ground: Ground) -> None:
    told = ground.run("exec", "--", "sh", "-c", 'stat -c %a "$(dirname "$FENCEPOST_SOCKET")"')
    assert told.out == b"700\n"


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"garbage\n", b"[]\n", b'"text"\n', b"null\n", b'{"key":1}\n', b'{"key":"\\ud800","verb":"check"}\n', b"\xff\xfe\n", b"x" * 1_000_000, b"{" * 60_000 + b"\n"],
)  # fmt: skip
def test_garbage_gets_a_no_or_nothing(ground: Ground, data: bytes) -> None:
    run = Run(ground)
    answer = run.ask(data)
    assert answer == b"" or json.loads(answer)["ok"] is False
    assert run.check()["ok"] is True
    run.finish()


def test_two_hundred_callers_half_of_them_mute_cannot_starve_the_renewal(ground: Ground) -> None:
    run = Run(ground, ttl="3s")
    mute = []
    for number in range(200):
        connection = run.call()
        mute.append(connection)
        if number % 2:
            connection.sendall(b'{"key": "half a requ')
        elif number % 5 == 0:
            assert run.check()["ok"] is True
    until(lambda: ground.leases()[0]["renewals"] >= 2, "it renews")
    assert run.check()["ok"] is True
    for connection in mute:
        connection.close()
    run.finish()


def test_callers_who_never_read_their_answer_do_no_harm(ground: Ground) -> None:
    run = Run(ground, ttl="3s")
    for _ in range(100):
        with run.call() as connection:
            connection.sendall(json.dumps({"key": run.key, "verb": "check"}).encode() + b"\n")
    until(lambda: ground.leases()[0]["renewals"] >= 2, "it renews")
    assert run.check()["ok"] is True
    run.finish()
