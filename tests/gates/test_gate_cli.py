"""`fencepost gate`: what it says, what it returns, and whom it asks first."""

import io
import json
import socketserver
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from fencepost.cli.gate import COMMANDS
from fencepost.cli.main import main

PROOF = ["--resource", "lock:z", "--fence", "5"]


@pytest.fixture(autouse=True)
def outside_of_any_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("RESOURCE", "FENCE", "TENANT", "STORE_ID", "RUN_ID", "SOCKET", "RUN_KEY"):
        monkeypatch.delenv(f"FENCEPOST_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.json"


def gate(*arguments: str, data: bytes = b"") -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))
        return main(["gate", *arguments])


def write(path: object, *arguments: str, data: bytes = b"data") -> int:
    return gate("write-file", str(path), *arguments, data=data)


def test_write_file_puts_stdin_in_place_and_says_nothing(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert write("out.json", *PROOF) == 0

    assert out.read_bytes() == b"data"
    assert capsys.readouterr() == ("", "")


def test_a_stale_fence_exits_77_with_a_sentence(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert gate("raise", f"file:{out}", "--resource", "lock:z", "--fence", "6") == 0
    capsys.readouterr()

    assert write(out, *PROOF) == 77

    assert capsys.readouterr().err == (
        f"fencepost: file:{out} has seen fence 6 for lock:z, yours is 5: a newer run has started. "
        "Nothing was written; stop.\n"
    )


def test_resources_and_fence_come_from_the_environment(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_RESOURCE", "schedule:s project:p")
    monkeypatch.setenv("FENCEPOST_FENCE", "5")
    assert write(out) == 0

    for name in ("schedule:s", "project:p"):
        assert write(out, "--resource", name, "--fence", "4") == 77


def test_explicit_flags_win_over_the_environment(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_RESOURCE", "lock:env")
    monkeypatch.setenv("FENCEPOST_FENCE", "9")
    assert write(out, "--resource", "lock:flag", "--fence", "5") == 0

    assert write(out, "--resource", "lock:flag", "--fence", "4") == 77
    assert write(out, "--resource", "lock:env", "--fence", "4") == 0


def test_the_marks_say_whose_they_are(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"TENANT": "red", "STORE_ID": "store-a", "RUN_ID": "run-1"}.items():
        monkeypatch.setenv(f"FENCEPOST_{name}", value)
    assert gate("raise", f"file:{out}", *PROOF, "--json") == 0
    shown = json.loads(capsys.readouterr().out)

    assert shown["target"] == f"file:{out}"
    assert shown["warnings"] == []
    [mark] = shown["marks"]
    assert mark["host"]
    assert mark["at"].endswith("Z")
    assert {key: mark[key] for key in ("tenant", "resource", "fence", "store", "run_id")} == {
        "tenant": "red",
        "resource": "lock:z",
        "fence": 5,
        "store": "store-a",
        "run_id": "run-1",
    }


def test_a_moved_store_needs_adopt(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_STORE_ID", "old")
    assert gate("raise", f"file:{out}", "--resource", "lock:z", "--fence", "9") == 0
    monkeypatch.setenv("FENCEPOST_STORE_ID", "new")

    assert write(out, *PROOF) == 77
    assert gate("raise", f"file:{out}", *PROOF) == 77
    assert gate("raise", f"file:{out}", *PROOF, "--adopt") == 0
    assert write(out, *PROOF) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["write-file", "out"], "there is no resource: run this below 'fencepost exec'"),
        (["write-file", "out", "--resource", "lock:z"], "there is no fence"),
        (["write-file", "out", "--resource", "z", "--fence", "5"], "is no resource; write kind:name"),
        (["write-file", "out", "--resource", "lock:z", "--fence", "0"], "is no fence"),
        (["write-file", "out", "--resource", "lock:z", "--fence", "\N{ARABIC-INDIC DIGIT FIVE}"], "is no fence"),
        (["write-file", "out", "--resource", "lock:z", "--fence", "9" * 30], "is no fence"),
        (["write-file", "", *PROOF], "is no path"),
        (["raise", "out.json", *PROOF], "write kind:where, for example file:out.json"),
        (["raise", "ftp:out.json", *PROOF], "is no gate"),
        (["check", *PROOF], "outside of a run there is only a target to check"),
        (["frobnicate"], "there is no command 'frobnicate'"),
    ],
)
def test_bad_usage_exits_2_with_a_sentence_and_writes_nothing(
    arguments: list[str], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate(*arguments) == 2

    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unusable_gate_exits_78(tmp_path: Path) -> None:
    assert write(tmp_path / "missing" / "out", *PROOF) == 78


def test_status_lists_every_target_and_does_not_stop_at_a_broken_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate("raise", "file:a", *PROOF, "--quiet") == 0
    assert capsys.readouterr().out == ""

    assert gate("status", "file:missing/x", "file:a", "file:b", "--json") == 78

    shown = capsys.readouterr()
    assert [json.loads(line)["target"] for line in shown.out.splitlines()] == [
        f"file:{tmp_path}/a",
        f"file:{tmp_path}/b",
    ]
    assert "there is no directory" in shown.err


def test_status_is_readable_without_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate("raise", "file:a", *PROOF)
    gate("status", "file:a", "file:b")

    said, line, none = capsys.readouterr().out.splitlines()
    assert said == f"file:{tmp_path}/a is at fence 5"
    assert line.startswith(f"file:{tmp_path}/a  lock:z  fence 5  at 20")
    assert none == f"file:{tmp_path}/b  no fence seen yet"


def test_a_raise_warns_where_the_gate_is_weak(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o777)
    assert gate("raise", "file:a", *PROOF) == 0
    assert "warning: " in capsys.readouterr().err

    assert gate("raise", "file:a", *PROOF, "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_check_compares_the_mark_and_writes_nothing(out: Path) -> None:
    assert gate("check", f"file:{out}", *PROOF) == 0
    assert not (out.parent / ".fencepost").exists()

    gate("raise", f"file:{out}", "--resource", "lock:z", "--fence", "6")
    assert gate("check", f"file:{out}", *PROOF) == 77


@pytest.mark.parametrize("arguments", [["--help"], ["write-file", "--help"], ["raise", "--help"]])
def test_help_says_what_there_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = gate(*arguments)
    except SystemExit as leaving:
        code = int(leaving.code or 0)

    assert code == 0
    text = capsys.readouterr().out
    assert "fencepost gate" in text
    if arguments[-1:] == ["--help"] and len(arguments) == 1:
        assert all(name in text for name in COMMANDS)


class Supervisor:
    """Answers like the supervisor of a run, and remembers what it was asked."""

    def __init__(self, path: str, answer: dict[str, object]) -> None:
        self.asked: list[dict[str, object]] = []
        supervisor = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                supervisor.asked.append(json.loads(self.rfile.readline()))
                self.wfile.write(json.dumps(supervisor.answer).encode() + b"\n")

        self.answer = answer
        self.server = socketserver.UnixStreamServer(path, Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        for name, value in {"SOCKET": path, "RUN_KEY": "k", "RESOURCE": "lock:z", "FENCE": "5"}.items():
            monkeypatch.setenv(f"FENCEPOST_{name}", value)
        supervisor = Supervisor(path, {"ok": True})
        yield supervisor
        supervisor.close()


def test_inside_a_run_the_supervisor_is_asked_for_the_canonical_target_first(out: Path, supervisor: Supervisor) -> None:
    assert write("./out.json") == 0

    assert supervisor.asked == [{"key": "k", "verb": "gate", "gate": f"file:{out}"}]
    assert out.read_bytes() == b"data"


def test_an_undeclared_target_exits_78_and_names_the_flag(
    out: Path, supervisor: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = f"this run did not declare file:{out}; add --gate file:{out} to fencepost exec"
    supervisor.answer = {"ok": False, "code": "undeclared", "message": sentence}

    assert write(out) == 78

    assert capsys.readouterr().err == f"fencepost: {sentence}\n"
    assert list(out.parent.iterdir()) == []


def test_no_answer_means_refused(out: Path, supervisor: Supervisor) -> None:
    supervisor.close()

    assert write(out) == 77
    assert gate("check") == 77
    assert gate("raise", f"file:{out}") == 77
    assert list(out.parent.iterdir()) == []


def test_after_the_supervisors_yes_the_mark_still_decides(out: Path, supervisor: Supervisor) -> None:
    gate("raise", f"file:{out}", "--resource", "lock:z", "--fence", "6")

    assert write(out) == 77
    assert [question["verb"] for question in supervisor.asked] == ["gate", "refused"], "and the supervisor counts it"


def test_an_explicit_fence_does_not_ask(out: Path, supervisor: Supervisor) -> None:
    assert write(out, "--fence", "6") == 0

    assert supervisor.asked == []


def test_check_inside_a_run_asks_about_the_lease_and_with_a_target_looks_at_the_mark(
    out: Path, supervisor: Supervisor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gate("check", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "target": None, "fence": 5}
    gate("raise", f"file:{out}", "--resource", "lock:z", "--fence", "6")
    assert gate("check", f"file:{out}") == 77

    assert [question["verb"] for question in supervisor.asked] == ["check", "check"]
