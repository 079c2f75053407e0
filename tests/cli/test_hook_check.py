"""`fencepost hook check`: the one contract that stops a tool in Claude Code, Codex and Gemini, and it fails closed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.model.lease_check import MARKS, check_line, denial, quoted
from tests.support.ground import Ground, Told

FENCEPOST = [sys.executable, "-m", "fencepost"]
SH = "/bin/sh"


def inside(ground: Ground, line: str) -> Told:
    """Run a shell line as the agent of a guarded command; `CHECK` stands for the check."""
    check = " ".join([*FENCEPOST, "hook", "check"])
    return ground.run("exec", "--lock", "z", "--", "sh", "-c", line.replace("CHECK", check))


def assert_denied(told: Told) -> None:
    """Hold the check to the contract: exit code 2, nothing on standard output, a plain sentence on standard error."""
    assert told.code == 2, told
    assert told.out == b""
    sentence = told.err.strip().splitlines()[-1]
    assert sentence.startswith("fencepost: ")
    assert sentence.endswith("Stop now.")


@pytest.mark.parametrize(
    "stdin",
    [b"", b'{"tool_name": "Bash"}', b"{", b"\xff\x00", b"[" * 100_000, b"x" * 20_000_000],
    ids=["nothing", "a call", "half", "no text", "deep", "long"],
)
def test_whatever_stands_on_standard_input_a_run_with_its_lease_goes_on_without_a_word(
    ground: Ground, stdin: bytes
) -> None:
    (ground.folder / "input").write_bytes(stdin)

    told = inside(ground, "CHECK < input")

    assert (told.code, told.out) == (0, b"")
    assert "Stop now" not in told.err


def test_a_persons_own_session_is_let_through(ground: Ground) -> None:
    told = ground.run("hook", "check", stdin=b"{}")

    assert (told.code, told.out, told.err) == (0, b"", "")


@pytest.mark.parametrize("mark", MARKS)
def test_any_trace_of_a_run_without_an_answer_is_a_no(ground: Ground, mark: str) -> None:
    assert_denied(ground.run("hook", "check", env={**ground.env, mark: "1"}))


def test_another_runs_key_is_a_no(ground: Ground) -> None:
    assert_denied(inside(ground, "FENCEPOST_RUN_KEY=wrong CHECK"))


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "0<&- 1>&-"])
def test_closed_descriptors_change_nothing(ground: Ground, closed: str) -> None:
    assert inside(ground, f"CHECK {closed}").code == 0
    assert inside(ground, f"FENCEPOST_SOCKET=/nowhere CHECK {closed}").code == 2


def test_a_standard_input_that_stays_open_is_not_waited_for(ground: Ground) -> None:
    reader, writer = os.pipe()
    try:
        program = ground.start("hook", "check", stdin=reader)
        assert program.wait(20) == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_a_program_that_is_broken_denies(ground: Ground) -> None:
    line = (
        "import sys; sys.argv = ['fencepost', 'hook', 'check']\n"
        "import fencepost.cli.main as main; sys.modules['fencepost.cli.hook'] = None; main.run()"
    )
    program = ground.spawn([sys.executable, "-c", line], env={**ground.env, "FENCEPOST_RUN_ID": "r1"})

    assert_denied(ground.told(program))


def shell(line: str, env: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    base = {"PATH": os.environ["PATH"]}
    return subprocess.run(
        [SH, "-c", line], env={**base, **env}, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_installed_line_lets_people_through_even_when_the_program_is_gone(tmp_path: Path) -> None:
    gone = check_line([str(tmp_path / "gone"), "-m", "it's"])

    assert (shell(gone, {}).returncode, shell(gone, {}).stderr) == (0, "")
    ran = shell(gone, {"FENCEPOST_RUN_ID": "r1"})
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "could not be made" in ran.stderr


@pytest.mark.parametrize(
    ("body", "code"), [("exit 0", 0), ("exit 1", 2), ("kill -9 $$", 2), ("echo no >&2; exit 2", 2)]
)
def test_the_installed_line_takes_everything_but_a_yes_for_a_no(tmp_path: Path, body: str, code: int) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!{SH}\n{body}\n")
    program.chmod(0o755)

    ran = shell(check_line([str(program)]), {"FENCEPOST_SOCKET": "x"})

    assert (ran.returncode, ran.stdout) == (code, "")
    assert bool(ran.stderr) == bool(code)
    assert ("could not be made" in ran.stderr) == (code == 2 and "echo" not in body)


@pytest.mark.parametrize("word", ["plain", "", "two words", "it's", "$HOME", "a;b", "`x`", "é", "\n"])
def test_a_word_reaches_a_shell_as_it_is(word: str) -> None:
    assert shell(f"printf %s {quoted(word)}", {}).stdout == word


def test_a_denial_is_one_line_that_no_cli_takes_for_json() -> None:
    said = denial({"FENCEPOST_RUN_ID": '{"a":1}\n', "FENCEPOST_RESOURCE": "lock:z"}, "the lease\nis lost.")

    assert said == 'fencepost: run {"a":1} on lock:z: the lease is lost. Stop now.'
