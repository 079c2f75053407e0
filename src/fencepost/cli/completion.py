"""`fencepost completion SHELL`: print what a shell needs to complete commands, options and names.

What it prints is short and always the same: at each Tab the shell asks the installed program, so that the answer is never
older than the program. Commands that run from crontabs pay nothing for it.
"""

from __future__ import annotations

import os
import sys

from fencepost.model.errors import FencepostError
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

SHELLS = ("bash", "zsh", "fish")
EXAMPLES = """\
  eval "$(fencepost completion bash)"                     in ~/.bashrc
  eval "$(fencepost completion zsh)"                      in ~/.zshrc
  fencepost completion fish > ~/.config/fish/completions/fencepost.fish
"""


def main(argv: list[str]) -> int:
    """Print the script of a shell, or answer what that script asks."""
    if argv[:1] == ["words"]:
        return answer(argv[1:])
    # A shell's start waits for this, so that a parser is built only for what is no shell.
    shell = argv[0] if len(argv) == 1 and argv[0] in SHELLS else parser().parse_args(argv).shell
    with open(os.path.join(os.path.dirname(__file__), "shells", f"fencepost.{shell}"), encoding="utf-8") as script:
        print(script.read(), end="")
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    from fencepost.cli import options

    made = options.parser(
        "completion",
        "Print a script that lets a shell complete commands, their options, and the names of schedules, agents, runs "
        "and projects. In zsh, compinit has to be loaded before.",
        EXAMPLES,
    )
    made.add_argument("shell", metavar="SHELL", choices=SHELLS, help="bash, zsh or fish")
    return made


def answer(argv: list[str]) -> int:
    """Print what may stand at the cursor, a line each: the word, a tab, a note. Any error means no words."""
    from fencepost.cli.completion_words import candidates, split_line

    words = split_line(argv[1])[1:] if argv[:1] == ["--line"] else argv[1:]
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115  # what a store tells a person would be written over the prompt
    try:
        for name, note in candidates(words):
            print(f"{name}\t{' '.join(note.split())}")
    except (FencepostError, OSError, ValueError):
        return 1
    return 0
