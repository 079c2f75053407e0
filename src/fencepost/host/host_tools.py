"""Ask one of the host's own tools, without the start-up cost of subprocess."""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from fencepost.model.errors import Misconfigured


class ToolAnswer(NamedTuple):
    """What a tool said, and which process said it."""

    pid: int
    code: int
    text: str


def ask(*argv: str) -> ToolAnswer:
    """Run a tool to its end and return what it printed, the same whatever the user's language and time zone."""
    reading, writing = os.pipe()
    try:
        pid = _spawn(argv, writing)
    except FileNotFoundError as error:
        os.close(reading)
        raise Misconfigured(f"'{argv[0]}' was not found on PATH; install it or add its folder to PATH") from error
    finally:
        os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    return ToolAnswer(pid, _code(pid), text)


def _spawn(argv: tuple[str, ...], writing: int) -> int:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 1),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    return os.posix_spawnp(argv[0], argv, environment, file_actions=actions)


def _code(pid: int) -> int:
    try:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    except ChildProcessError:  # a parent that reaps every child was faster; the text is complete all the same
        return 0


class Ran(NamedTuple):
    """How a program ended, and what it said."""

    code: int
    out: bytes
    err: str


# A parent that ignores SIGCHLD never learns how a child ended, and Python then says 0: the shell tells it in words.
_TELL = '"$@"; code=$?; echo "exit $code" >&2; exit $code'
_LAST_WORDS_SECONDS = 1.0


def run_bounded(argv: Sequence[str], *, cwd: str, env: Mapping[str, str], stdin: bytes = b"", seconds: float) -> Ran:
    """Run a program for so long at most, without a terminal; raise TimeoutError after ending it and all its children."""
    import subprocess

    process = subprocess.Popen(
        ["/bin/sh", "-c", _TELL, "sh", *argv],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # noqa: TID251  # our own child, which was not waited for yet
        with suppress(subprocess.TimeoutExpired):  # a grandchild in a session of its own may hold the pipes open
            process.communicate(timeout=_LAST_WORDS_SECONDS)
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    said, _, told = err.decode(errors="replace").rstrip("\n").rpartition("\n")
    words = told.split()
    if len(words) != 2 or words[0] != "exit":  # noqa: PLR2004  # the two words that the shell says last
        return Ran(-1, out, f"{said}\n{told}".strip())
    return Ran(int(words[1]), out, said.strip())
