"""Ask one of the host's own tools, without the start-up cost of subprocess."""

import os
from typing import NamedTuple

from fencepost.model.errors import Misconfigured


class Answer(NamedTuple):
    """What a tool said, and which process said it."""

    pid: int
    code: int
    text: str


def ask(*argv: str) -> Answer:
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
    return Answer(pid, _code(pid), text)


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
