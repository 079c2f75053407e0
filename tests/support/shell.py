"""An interactive shell on a terminal of its own, into which a test types."""

import os
import pty
import select
import signal
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support import debian

PATIENCE_SECONDS = 30.0
START = {
    "bash": (["--norc", "--noprofile", "-i"], 'eval "$(fencepost completion bash)"'),
    "zsh": (["-f", "-i"], 'autoload -Uz compinit && compinit -u -D; eval "$(fencepost completion zsh)"'),
    "fish": (["--no-config", "-i"], "fencepost completion fish | source"),
}
TO_THE_START = "\x01"  # Ctrl-A, in all three


class Shell:
    """Types keys, and learns by a program of the test's own what stood on the line when Return was pressed."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str]) -> None:
        path = debian.program(name)
        words, setup = START[name]
        self._said = folder / "said"
        self._said.touch()
        teller = folder / "tell"
        teller.write_text(f'#!/bin/sh\necho "$*" >> {self._said}\n')
        teller.chmod(0o755)
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(folder)
            os.execve(path, [name, *words], {**environment, "TERM": "dumb", "PS1": "$ "})
        self._seen = b""
        self._type(f"{setup}; ./tell ready\r")
        self._told()

    def completed(self, typed: str) -> str:
        """Type the beginning of a line and a Tab; return what stands on the line then."""
        self._type(f"{typed}\t")
        self._type(f"{TO_THE_START}./tell ")
        self._type("\r")
        return self._told()

    def close(self) -> None:
        """Hang up."""
        os.close(self._terminal)
        os.kill(self._pid, signal.SIGKILL)  # noqa: TID251  # our own child, not waited for yet
        os.waitpid(self._pid, 0)

    def _type(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def _told(self) -> str:
        """Wait for one more line, and keep reading the terminal meanwhile: a shell whose terminal is full stands still."""
        count = len(self._lines())
        give_up = time.monotonic() + PATIENCE_SECONDS  # noqa: TID251  # a real program takes real time
        while len(self._lines()) == count:
            assert time.monotonic() < give_up, f"nothing was told; the terminal showed {self._seen!r}"  # noqa: TID251
            if select.select([self._terminal], [], [], 0.05)[0]:
                self._seen += os.read(self._terminal, 65_536)
        return self._lines()[-1]

    def _lines(self) -> list[str]:
        return self._said.read_text().splitlines()
