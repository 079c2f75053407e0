"""What may be asked of the ledger: look at it, end an ambiguity, and have a command's effect once."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from fencepost.flow.effect_once import Once, once
from fencepost.model.effect_ledger import ANSWER_MAX, COMPLETED, IN_PROGRESS, Done, Entry, NotDone, check_key
from fencepost.model.errors import Busy, Invalid, Unknown
from fencepost.model.nearest_name import nearest
from fencepost.operations.supervisor_client import ask
from fencepost.ports.ledger import LedgerStore

STANDINGS = ("in_progress", "completed", "ambiguous")
NAMES_SEEN = 1000
CHUNK = 65_536
PROBE_NOT_DONE = 1
NOT_FOUND, NOT_EXECUTABLE = 127, 126

Print = Callable[[bytes], None]


class CommandFailed(Exception):
    """The command ended badly, and it is not known whether its effect took place."""

    def __init__(self, code: int) -> None:
        """Keep the code to leave with."""
        super().__init__(f"the command ended with {code}")
        self.code = code


class CommandNotDone(NotDone):
    """The command said, by its exit code, that nothing took place; or it could not be started."""

    def __init__(self, code: int) -> None:
        """Keep the code to leave with."""
        super().__init__(f"the command ended with {code}")
        self.code = code


class Effect(NamedTuple):
    """A command whose effect shall happen once."""

    argv: Sequence[str]
    not_done: Collection[int]  # exit codes that promise that nothing took place
    probe: str | None  # a line for the shell: exit 0, it was done and this is the answer; 1, it was not
    scope: str = "tenant"


def once_command(
    key: str, effect: Effect, show: Print, warn: Callable[[str], None], sleep: Callable[[float], None]
) -> int:
    """Run a command whose effect shall happen once, or print what it printed then; return the exit code."""
    steps = Once(ask, sleep, key, scope=effect.scope)
    ran = False

    def run() -> str:
        nonlocal ran
        ran = True
        return _run(effect, show, warn)

    try:
        answer = once(steps, run, (lambda: _probe(effect.probe or "")) if effect.probe else None)
    except (CommandFailed, CommandNotDone) as failed:
        return failed.code
    if not ran:
        show(answer_bytes(answer))
    return 0


def answer_bytes(answer: Any) -> bytes:  # noqa: ANN401  # whatever JSON was recorded
    """Spell a recorded answer the way its command printed it; what a program recorded is JSON."""
    if isinstance(answer, str):
        return answer.encode("utf-8", "surrogateescape")
    return json.dumps(answer).encode() + b"\n"


def find_entry(ledger: LedgerStore, tenant: str, key: str, scope: str) -> Entry:
    """Return an entry, or say which one was probably meant."""
    entry = ledger.entry(tenant, check_key(key), scope)
    if entry is not None:
        return entry
    near = nearest(key, (one.key for one in ledger.entries(tenant, limit=NAMES_SEEN)))
    hint = f"Did you mean {near!r}?" if near else "See: fencepost ledger list"
    raise Unknown(f"the ledger has no entry {key!r}{f' of {scope}' if scope else ''}. {hint}")


def resolve(ledger: LedgerStore, entry: Entry, *, answer: str | None, by: str) -> None:
    """End an ambiguity as a person says: with an answer, or None to have it done again."""
    if entry.standing == IN_PROGRESS:
        raise Busy(
            f"run {entry.run_id} is at {entry.key!r}; wait for it, or cancel it: fencepost cancel {entry.run_id}"
        )
    if answer is not None and entry.state == COMPLETED:
        raise Invalid(f"{entry.key!r} is completed, and an answer is never rewritten; to have it done again: --forget")
    if answer is not None:
        _check_json(answer)
    if not ledger.resolve(entry, answer=answer, by=by):
        raise Busy(f"{entry.key!r} has changed since you looked; look again: fencepost ledger list")


def _check_json(answer: str) -> None:
    try:
        json.loads(answer)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the answer is no JSON ({error}); a text stands in quotes: --completed '\"sent\"'") from None


def _run(effect: Effect, show: Print, warn: Callable[[str], None]) -> str:
    """Run the command, hand its output on as it comes, and return as much of it as the ledger keeps."""
    try:
        process = subprocess.Popen(list(effect.argv), stdout=subprocess.PIPE)
    except FileNotFoundError:
        warn(f"there is no command {effect.argv[0]!r}; nothing was done.")
        raise CommandNotDone(NOT_FOUND) from None
    except OSError as error:
        warn(f"cannot run {effect.argv[0]!r}: {error.strerror}; nothing was done.")
        raise CommandNotDone(NOT_EXECUTABLE) from None
    kept = b""
    with process:
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), CHUNK):
            show(data)
            kept = (kept + data)[: ANSWER_MAX + 1]
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if code in effect.not_done:
        raise CommandNotDone(code)
    if code:
        raise CommandFailed(code)
    return _kept(kept, warn)


def _kept(data: bytes, warn: Callable[[str], None]) -> str:
    text = data.decode("utf-8", "surrogateescape")
    whole = len(text)
    while len(json.dumps(text)) > ANSWER_MAX:
        text = text[: len(text) * 9 // 10]
    if len(text) < whole:
        warn(f"only the first {len(text):,} characters of the output are recorded; a later call gets those.")
    return text


def _probe(line: str) -> object:
    """Ask the probe: what it prints is the answer if it was done."""
    ran = subprocess.run(["/bin/sh", "-c", line], stdout=subprocess.PIPE, stderr=sys.stderr, check=False)
    if ran.returncode == PROBE_NOT_DONE:
        return NotDone()
    if ran.returncode:
        return f"exit {ran.returncode}"
    return Done(_kept(ran.stdout, lambda _: None))
