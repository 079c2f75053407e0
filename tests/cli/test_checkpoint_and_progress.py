"""`fencepost checkpoint` and `progress`: what an agent says to its supervisor, and only from inside a run."""

import io
import json
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import main as door
from tests.support.ground import Ground


class Supervisor:
    """Answers on a run socket, and remembers what it was asked."""

    def __init__(self, path: str) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: dict[str, Any] = {"ok": True}
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(path)
        self._server.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection, connection.makefile("rwb") as stream:
                self.asked.append(json.loads(stream.readline()))
                stream.write(json.dumps(self.answer).encode() + b"\n")

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(10)


@pytest.fixture
def supervisor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    path = str(tmp_path / "s")
    found = Supervisor(path)
    monkeypatch.setenv("FENCEPOST_SOCKET", path)
    monkeypatch.setenv("FENCEPOST_RUN_KEY", "secret")
    yield found
    found.close()


@pytest.fixture(autouse=True)
def _outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_SOCKET", raising=False)


def say(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    class Stdin:
        buffer = io.BytesIO(data)

    monkeypatch.setattr("sys.stdin", Stdin)


def test_progress_reaches_the_supervisor_with_the_runs_key(supervisor: Supervisor) -> None:
    assert door.main(["progress", "read", "400 files"]) == 0
    assert supervisor.asked == [{"key": "secret", "verb": "progress", "content": "read 400 files"}]


def test_a_checkpoint_is_kept_as_it_came(supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch) -> None:
    say(monkeypatch, b'{"page": 17, "who": "Zo\xc3\xab"}\n')

    assert door.main(["checkpoint", "set"]) == 0
    assert supervisor.asked == [{"key": "secret", "verb": "checkpoint_set", "content": '{"page": 17, "who": "Zoë"}'}]


def test_get_prints_the_checkpoint_or_nothing(supervisor: Supervisor, capsys: pytest.CaptureFixture[str]) -> None:
    supervisor.answer = {"ok": True, "content": '{"page":17}'}
    assert door.main(["checkpoint", "get"]) == 0
    assert capsys.readouterr().out == '{"page":17}\n'

    supervisor.answer = {"ok": True, "content": None}
    assert door.main(["checkpoint", "get"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"{page: 17}", "no JSON: Expecting property name"),
        (b"", "no JSON: Expecting value"),
        (b"\xff\xfe", "not UTF-8"),
        (b"NaN", "NaN is no JSON value"),
        (b"[" * 60_000, "no JSON"),
        (b'"' + b"x" * 65_536 + b'"', "longer than 64 KB"),
    ],
)
def test_what_nobody_could_read_back_is_refused_before_it_is_sent(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], data: bytes, why: str
) -> None:
    say(monkeypatch, data)

    assert door.main(["checkpoint", "set"]) == 2
    assert why in capsys.readouterr().err
    assert supervisor.asked == []


def test_a_lost_lease_is_77(supervisor: Supervisor) -> None:
    supervisor.answer = {"ok": False, "code": "lease_lost", "message": "the lease of this run is lost: stop."}

    assert door.main(["progress"]) == 77


@pytest.mark.parametrize("words", [["progress"], ["checkpoint", "get"], ["checkpoint", "set"]])
def test_outside_of_a_run_there_is_nobody_to_ask(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert door.main(words) == 2
    assert "FENCEPOST_SOCKET" in capsys.readouterr().err


def test_a_guarded_command_keeps_a_checkpoint_for_its_own_time(ground: Ground) -> None:
    us = f"{sys.executable} -m fencepost"
    inside = f"{us} checkpoint get; {us} progress half && echo 5 | {us} checkpoint set && {us} checkpoint get"
    for _ in range(2):  # the next run is another one, and finds nothing
        told = ground.run("exec", "--lock", "z", "--", "sh", "-c", inside)
        assert (told.code, told.out) == (0, b"5\n"), told
