"""What a supervisor is asked to guard, and the environment that the agent gets."""

from __future__ import annotations

import os

from fencepost.model.fast_typing import TYPE_CHECKING, Callable, Mapping, NamedTuple
from fencepost.model.own_program import own_executable, own_folder
from fencepost.model.run_key import key_variables

if TYPE_CHECKING:
    from fencepost.model.lease import Lease
    from fencepost.model.tick_claim import GrantedTick, TickOrder
    from fencepost.ports.clock import Clock
    from fencepost.ports.gate import Gate
    from fencepost.ports.processes import Processes
    from fencepost.ports.store import LeaseStore
    from fencepost.service.model_gate_client import ModelGateStarter
    from fencepost.service.run_folder import RunFolder

# Never handed to an agent: with these it could reach the store past its lease.
WITHHELD = ("FENCEPOST_STORE", "FENCEPOST_CONFIG")
NOT_FOR_EXEC = (
    "AGENT",
    "SCHEDULE",
    "SCHEDULE_VERSION",
    "TICK",
    "PERIOD_START",
    "PERIOD_END",
    "BACKFILL_FROM",
    "LAST_SUCCESS",
)

LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
LETTER_OF_BYTE = LETTERS.encode() * 8  # 256: each letter is as likely as any other


class ModelWish(NamedTuple):
    """What a command asks of the model gate."""

    provider: str
    key: str  # the real one, which the command never has
    url: str
    budget_micro: int | None


class Order(NamedTuple):
    """One command to guard."""

    argv: tuple[str, ...]
    tenant: str
    resources: tuple[str, ...]
    label: str
    ttl_seconds: float
    timeout_seconds: float | None = None
    wait_seconds: float | None = None  # None: do not wait; infinite: as long as it takes
    busy_exit: int = 75
    holder: str | None = None
    gates: tuple[str, ...] = ()
    slots: int = 1  # how many may be in its project at once
    what: str = ""  # the resource in words, where its name says nothing to people
    watch: bool = False  # stay and watch a silent holder, where only that tells whether it is alive
    tick: TickOrder | None = None  # the crontab line whose newest tick this is to be
    model: ModelWish | None = None  # its calls of a model pass the model gate


class Tools(NamedTuple):
    """What a supervisor works with."""

    clock: Clock
    processes: Processes
    open_store: Callable[[], LeaseStore]
    open_gate: Callable[[str, str], Gate]  # by its target, for a tenant
    say: Callable[[str], None]
    show: Callable[[str], None] | None = None  # keeps one line current, where there is a terminal
    model_gate: Callable[[], ModelGateStarter] | None = None
    keep_end: Callable[[Lease, bool], str] | None = None  # remembers how a tick ended that could not be reported
    keep_unheard: Callable[[str, str], None] | None = None  # remembers a run that asked for a job's tick in vain


def new_id(clock: Clock) -> str:
    """Name a run: sorts by time, and two machines do not meet."""
    return new_ids(clock, 1)[0]


def new_ids(clock: Clock, count: int) -> list[str]:
    """Name many runs of one moment, in the order in which they sort."""
    moment = clock.wall_us() // 1000
    begin = "r" + "".join([LETTERS[moment >> shift & 31] for shift in range(45, -1, -5)])
    drawn = os.urandom(8 * count).translate(LETTER_OF_BYTE).decode("ascii")
    return sorted([begin + drawn[at : at + 8] for at in range(0, 8 * count, 8)])


def environment(
    inherited: Mapping[str, str], order: Order, lease: Lease, *, folder: RunFolder, key: str
) -> dict[str, str]:
    """Return what the agent of `exec` sees: its caller's environment, less the store, plus the run.

    What does not apply is there and empty, so that a script under `set -u` can ask.
    """
    kept = {name: value for name, value in inherited.items() if not _is_ours(name)}
    return {
        **kept,
        "PATH": with_own_folder(kept.get("PATH", "")),
        **{f"FENCEPOST_{name}": "" for name in NOT_FOR_EXEC},
        "FENCEPOST_RUN_ID": lease.run_id,
        "FENCEPOST_TENANT": order.tenant,
        "FENCEPOST_TRIGGER": "exec",
        "FENCEPOST_IDEMPOTENCY_KEY": lease.run_id,
        "FENCEPOST_ATTEMPT": "1",
        "FENCEPOST_FENCE": str(lease.fence),
        "FENCEPOST_RESOURCE": " ".join(lease.resources),
        "FENCEPOST_PAYLOAD": folder.payload,
        "FENCEPOST_SOCKET": folder.socket,
        "FENCEPOST_EXE": own_executable(),
        **key_variables(key),
        "FENCEPOST_STORE_ID": lease.store,
        "TRACEPARENT": inherited.get("TRACEPARENT") or _new_trace(),
        **(_tick_variables(order.tenant, lease.tick) if lease.tick else {}),
    }


def with_own_folder(path: str) -> str:
    """Return a PATH on which the command finds `fencepost` too, after everything else: cron's has hardly anything."""
    names = (path or os.defpath).strip(os.pathsep).split(os.pathsep)
    folder = own_folder()
    return os.pathsep.join(names if folder is None or folder in names else [*names, folder])


def _tick_variables(tenant: str, tick: GrantedTick) -> dict[str, str]:
    """Return what a command knows about its tick, as a scheduled run does."""
    from fencepost.model.fast_instant import instant
    from fencepost.model.instants import from_us
    from fencepost.model.occurrence import idempotency_key

    last = instant(tick.last_success_us) or ""
    return {
        "FENCEPOST_TICK": instant(tick.tick_us) or "",
        "FENCEPOST_PERIOD_START": instant(tick.period_start_us) or "",
        "FENCEPOST_PERIOD_END": instant(tick.tick_us) or "",
        "FENCEPOST_LAST_SUCCESS": last,
        "FENCEPOST_BACKFILL_FROM": last,
        "FENCEPOST_ATTEMPT": str(tick.attempt),
        "FENCEPOST_IDEMPOTENCY_KEY": idempotency_key(tenant, tick.job, 0, from_us(tick.tick_us)),
    }


def _is_ours(name: str) -> bool:
    """Tell whether a variable belongs to an outer run or to Fencepost itself; switches are passed on."""
    return name in WITHHELD or (name.startswith("FENCEPOST_") and name != "FENCEPOST_CGROUP")


def _new_trace() -> str:
    return f"00-{os.urandom(16).hex()}-{os.urandom(8).hex()}-01"
