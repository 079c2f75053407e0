"""What a person sees on a terminal of 80 columns, where a pipe would get whole lines."""

import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

from fencepost.model.own_program import own_program

COLUMNS = {"COLUMNS": "80", "NO_COLOR": "1"}


def on_a_terminal(
    *words: str, cwd: Path | str | None = None, env: Mapping[str, str] | None = None, errors: bool = False
) -> str:
    """Run a command that succeeds, and return what it showed; its standard error as well, if that is asked for."""
    ours, theirs = pty.openpty()
    environ = {**(os.environ if env is None else env), **COLUMNS}
    subprocess.run(
        [*own_program(), *words],
        stdout=theirs,
        stderr=theirs if errors else None,
        cwd=cwd,
        env=environ,
        check=True,
        timeout=60,
    )
    os.close(theirs)
    seen = b""
    with suppress(OSError):  # nobody writes any more
        while part := os.read(ours, 65_536):
            seen += part
    os.close(ours)
    return seen.decode().replace("\r\n", "\n")


@contextmanager
def as_if_on_a_terminal() -> Iterator[None]:
    """Let this process take its standard output for a terminal."""
    with patch.dict(os.environ, COLUMNS), patch.object(sys.stdout, "isatty", lambda: True):
        yield
