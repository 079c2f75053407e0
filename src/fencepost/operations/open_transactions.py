"""Who keeps a transaction open for so long that the store cannot clear up behind itself."""

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from fencepost.host.file_locks import readers_of
from fencepost.operations.doctor_finding import CheckFinding, Status
from fencepost.operations.phrases import SECOND_US, counted, span
from fencepost.ports.read_rows import Lingering
from fencepost.ports.store import StoreFacts

if TYPE_CHECKING:
    from fencepost.stores.reads import SqlReads

LINGERING_US = 300 * SECOND_US  # our own transactions take milliseconds; a backup may take a minute
SHOWN_MAX = 5
LOG_BIG_BYTES = 32_000_000  # SQLite moves its log into the file at 4 MB, if no reader is in the way
TWO_LOOKS_SECONDS = 0.2  # apart: who reads in both is not merely passing
MEGABYTE = 1_000_000


def left_open(facts: StoreFacts, look: "SqlReads", sleep: Callable[[float], None]) -> Iterator[CheckFinding]:
    """Name those who keep a store from clearing up, each with the way to end it."""
    if facts.kind == "sqlite":
        yield _held_log(facts.url.removeprefix("sqlite:"), sleep)
        return
    found = look.lingering(older_us=LINGERING_US, limit=SHOWN_MAX)
    yield from map(_lingering, found)
    if not found:
        said = f"none that this role may see has been open for {span(LINGERING_US)}"
        yield CheckFinding("transactions", Status.OK, said)


def _lingering(one: Lingering) -> CheckFinding:
    costs = "until it ends, nothing that was replaced since can be cleared away, and the store grows and slows down"
    if one.state == "prepared":
        who, fix = f"prepared transaction {one.program!r} of {one.user}", f"end it: ROLLBACK PREPARED '{one.program}'"
    else:
        where = f" at {one.address}" if one.address else ""
        who = f"process {one.pid} ({one.program or 'no name'}, {one.user}{where}, {one.state or 'at work'})"
        fix = f"end it: SELECT pg_terminate_backend({one.pid})"
    return CheckFinding("transactions", Status.WARN, f"{who} has one open for {span(one.age_us)}; {costs}", fix)


def _held_log(path: str, sleep: Callable[[float], None]) -> CheckFinding:
    """Look at the write-ahead log: it grows for as long as a reader keeps one old state of the file."""
    size = _size(f"{path}-wal")
    words = f"the write-ahead log has {size // MEGABYTE} MB"
    if size < LOG_BIG_BYTES:
        return CheckFinding("transactions", Status.OK, words)
    before = readers_of(f"{path}-shm")
    sleep(TWO_LOOKS_SECONDS)
    after = readers_of(f"{path}-shm")
    if before is None or after is None:
        told = f"{words}; a program may keep a read open, and this system does not tell which"
        return CheckFinding("transactions", Status.WARN, told, f"find who has it open: lsof {path}-wal")
    stay = sorted((before & after) - {os.getpid()})
    if not stay:
        return CheckFinding("transactions", Status.OK, f"{words}, which are used again; no program keeps a read open")
    who = f"{counted(len(stay), 'process', 'processes')} {', '.join(map(str, stay))}"
    told = f"{words} and grows: {who} kept a read open, so that it cannot be moved into the file"
    return CheckFinding("transactions", Status.WARN, told, f"let it finish or end it: ps -p {stay[0]}")


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
