"""Cells: one small document per resource, in any store that can compare and swap.

No clock is compared with another one. A holder raises `beat` with every renewal; who finds a lease in the way notes
when it saw that very document for the first time, on its own clock, and may take over once it has stood for the
lease's time to live and a margin. Every document has a nonce of its own, so that no two are ever equal.
"""

from __future__ import annotations

from fencepost.model import fast_json as json
from fencepost.model import lease as rules
from fencepost.model.errors import FenceRegress, Invalid, LeaseLost, Misconfigured, StoreUnavailable
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, NamedTuple
from fencepost.model.lease import Claim, Held, Lease, Refused
from fencepost.model.process import Host, ProcessId
from fencepost.model.tick_claim import STATES, TickRecord, record_of

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Any, Iterable

VERSION = 1
SIZE_MAX = 16_384
LOST_MAX = 8
MARGIN_PART = 4  # of the ttl: two clocks that are off by 10 %, one fast and one slow, need 0.21
SWAP_PART = 6  # of the ttl: how long one request may take
WALL_MAX_US = 4_102_444_800_000_000  # the year 2100: a fence from a clock beyond it could never be outgrown
FENCE_MAX = 2**62  # what every gate can keep, with room to rise
ROOT = "store"
PROBES = "probe-"
LABEL_MAX = 40


class Owed(NamedTuple):
    """A gate that the next holder raises; a local one can be raised on its own machine only."""

    gate: str
    machine: str = ""  # empty: it can be raised from everywhere


class CellLease(NamedTuple):
    """A lease as all machines see it: nothing in it leads to a process of its host."""

    id: str
    fence: int
    run_id: str
    holder: str | None
    label: str
    host: str
    machine: str
    pid: int
    ttl_ms: int
    granted_us: int
    started_us: int | None
    told: bool = False  # of a lost one: another machine's successor has said so

    @property
    def ttl_seconds(self) -> float:
        """How long it lasts without a renewal."""
        return self.ttl_ms / 1000


class Cell(NamedTuple):
    """One document."""

    tenant: str
    resource: str
    nonce: str
    fence: int = 0  # the highest one that was ever granted here
    beat: int = 0  # raised by every renewal
    lease: CellLease | None = None
    owed: tuple[Owed, ...] = ()
    ticks: tuple[TickRecord, ...] = ()
    lost: tuple[CellLease, ...] = ()
    resets: int = 0  # how often a person has thrown away the record of a tick

    def tick(self, job: str) -> TickRecord | None:
        """Return what is known of a job."""
        return next((record for record in self.ticks if record.job == job), None)


class Root(NamedTuple):
    """The cell that says which store this is."""

    id: str
    floor: int  # every fence of a new cell is above it
    nonce: str


class Sighting(NamedTuple):
    """When a document was seen for the first time, on the clock of one boot of one machine."""

    nonce: str
    boot: str
    seen_ns: int


class Memory(NamedTuple):
    """What a machine remembers of a cell: the store may go back in time, this does not."""

    fence: int = 0
    ttl_ms: int = 0
    cursors: tuple[tuple[str, int], ...] = ()
    resets: int = 0
    sighting: Sighting | None = None


class Known(NamedTuple):
    """What a machine keeps to itself about a lease that it was granted: how to find its processes."""

    run_id: str
    supervisor: ProcessId
    guard: ProcessId | None
    cgroup: str | None


class Observed(NamedTuple):
    """A cell as one machine sees it now: the document, and for how long that very document has stood."""

    cell: Cell
    stood_seconds: float
    absent: bool = False


def patience(ttl_seconds: float) -> float:
    """Return how long a document must have stood before its lease may be taken over."""
    return ttl_seconds + ttl_seconds / MARGIN_PART


def sighted(before: Sighting | None, nonce: str, *, boot: str, now_ns: int) -> Sighting:
    """Note a document: what was noted earlier counts if it was the same one, on this clock."""
    if before is not None and before.nonce == nonce and before.boot == boot and before.seen_ns <= now_ns:
        return before
    return Sighting(nonce, boot, now_ns)


def stood(sighting: Sighting, now_ns: int) -> float:
    """Return for how many seconds a document has stood, as far as we have seen."""
    return (now_ns - sighting.seen_ns) / 1e9


def vanished(name: tuple[str, str], memory: Memory, ticks: tuple[TickRecord, ...]) -> Cell:
    """Stand in for a cell that we have seen and that is gone: its holder, if it had one, may still be at work.

    Nothing has no nonce, so that its absence is known by what was seen last: a cell that was there again in between and
    is gone once more is waited for anew.
    """
    lease = CellLease("", memory.fence, "unknown", None, "its cell is gone", "unknown", "", 0, memory.ttl_ms, 0, None)
    nonce = f"gone after {memory.fence}"
    return Cell(*name, nonce, fence=memory.fence, lease=lease, ticks=ticks, resets=memory.resets)


def check_memory(cell: Cell, memory: Memory, *, where: str) -> None:
    """Refuse a cell that went back in time."""
    if cell.fence < memory.fence:
        raise FenceRegress(
            f"{where} has fence {cell.fence} for {cell.resource}, and this machine has seen {memory.fence}: the store went "
            f"back in time. Nothing was started. Lift the store: fencepost store bump --to {memory.fence}"
        )
    for job, cursor_us in memory.cursors if cell.resets == memory.resets else ():
        record = cell.tick(job)
        if record is None or record.cursor_us < cursor_us:
            raise FenceRegress(
                f"{where} has forgotten a tick of {job} that this machine has seen: the store went back in time, and the tick "
                f"may have been run. Nothing was started. If it is to go on from there: fencepost lease reset-tick {job}"
            )


def remembered(cell: Cell, memory: Memory) -> Memory:
    """Return what to remember after a look."""
    ttl_ms = max([memory.ttl_ms, *([cell.lease.ttl_ms] if cell.lease else [])])
    cursors = tuple((record.job, record.cursor_us) for record in cell.ticks)
    return memory._replace(fence=max(memory.fence, cell.fence), ttl_ms=ttl_ms, cursors=cursors, resets=cell.resets)


def is_in_force(seen: Observed, dead: Collection[str]) -> bool:
    """Tell whether the lease in a cell must be waited for."""
    lease = seen.cell.lease
    return lease is not None and lease.id not in dead and seen.stood_seconds < patience(lease.ttl_seconds)


def check_claim(claim: Claim) -> None:
    """Refuse what cells cannot keep."""
    if len(set(claim.resources)) != 1 or claim.slots != 1:
        raise Invalid("a lease in this kind of store is on one resource; for several at once use a PostgreSQL store.")
    kind = claim.resources[0].partition(":")[0]
    if kind not in ("lock", "cmd", "key"):
        raise Invalid(
            f"leases on a {kind} need a runtime store: sqlite:/path on one machine, postgresql://… for several."
        )


def grant(
    seen: Observed, claim: Claim, *, floor: int, wall_us: int, machine: str, nonce: str, starts: bool
) -> tuple[Cell, tuple[str, ...]]:
    """Return the cell with a new lease in it, and the gates that earlier grants owe here."""
    if wall_us > WALL_MAX_US:
        raise Misconfigured("this machine's clock is beyond the year 2100; no fence is taken from it. Set the clock.")
    cell = seen.cell
    fence = rules.next_fence(cell.fence, floor, wall_us)
    ttl_ms = round(claim.ttl_seconds * 1000)
    process = claim.supervisor
    lease = CellLease(
        claim.id,
        fence,
        claim.run_id,
        claim.holder,
        _program(claim.label),
        process.host.name,
        machine,
        process.pid,
        ttl_ms,
        wall_us,
        wall_us if starts else None,
    )
    before = cell.lost if cell.lease is None or seen.absent else (*cell.lost, cell.lease)
    told = tuple(one._replace(told=one.told or one.machine != machine) for one in before)
    owed_here = tuple(one.gate for one in cell.owed if one.machine in ("", machine))
    all_owed = tuple(dict.fromkeys((*cell.owed, *_owing(claim.gates, machine))))
    granted = cell._replace(
        nonce=nonce, fence=fence, beat=cell.beat + 1, lease=lease, owed=all_owed, lost=told[-LOST_MAX:]
    )
    return granted, owed_here


def predecessors(before: Cell, machine: str) -> tuple[CellLease, ...]:
    """Return the leases whose processes may still be about: this machine's, and another's that was not reported yet."""
    lost = (*before.lost, *([before.lease] if before.lease and before.lease.id else []))
    return tuple(one for one in lost if one.machine == machine or not one.told)


def renew(cell: Cell, lease: Lease, *, nonce: str) -> Cell:
    """Raise the beat, or raise LeaseLost."""
    _still_ours(cell, lease)
    return cell._replace(nonce=nonce, beat=cell.beat + 1)


def start(cell: Cell, lease: Lease, *, wall_us: int, nonce: str) -> Cell:
    """Record that the agent is about to start, or raise LeaseLost."""
    held = _still_ours(cell, lease)
    return cell._replace(nonce=nonce, beat=cell.beat + 1, lease=held._replace(started_us=wall_us))


def release(cell: Cell, lease: Lease, *, clean: bool, answered: bool, machine: str, nonce: str) -> Cell:
    """End a lease, or raise LeaseLost; fence, ticks and what is owed elsewhere stay.

    Only the clean end of an agent that was started settles what is owed to gates, as in every store.
    """
    held = _still_ours(cell, lease)
    here = [one for one in cell.owed if one.machine in ("", machine)]
    elsewhere = [one for one in cell.owed if one not in here]
    if clean and held.started_us is not None:
        here = list(_owing(rules.still_owed((one.gate for one in here), answered=answered), machine))
    elif clean and lease.owed is not None:
        here = list(_owing(lease.owed, machine))
    lost = cell.lost if clean else (*cell.lost, held)[-LOST_MAX:]
    return cell._replace(nonce=nonce, beat=cell.beat + 1, lease=None, owed=(*elsewhere, *here), lost=lost)


def take_away(cell: Cell, lease_id: str, fence: int, *, nonce: str) -> Cell | None:
    """Take a lease from its holder; None if it is in other hands by now."""
    held = cell.lease
    if held is None or (held.id, held.fence) != (lease_id, fence):
        return None
    return cell._replace(nonce=nonce, lease=None, lost=(*cell.lost, held)[-LOST_MAX:])


def bury(cell: Cell, lease_id: str, fence: int, *, nonce: str) -> Cell | None:
    """Forget a lost lease; None if there is none."""
    left = tuple(one for one in cell.lost if (one.id, one.fence) != (lease_id, fence))
    return None if len(left) == len(cell.lost) else cell._replace(nonce=nonce, lost=left)


def forget_gate(cell: Cell, gate: str, *, nonce: str) -> Cell | None:
    """No longer owe a gate its fence; None if it was not owed."""
    left = tuple(one for one in cell.owed if one.gate != gate)
    return None if len(left) == len(cell.owed) else cell._replace(nonce=nonce, owed=left)


def forget_tick(cell: Cell, job: str, *, nonce: str) -> Cell | None:
    """Throw away the record of a job's ticks; None if there is none."""
    left = tuple(one for one in cell.ticks if one.job != job)
    if len(left) == len(cell.ticks):
        return None
    return cell._replace(nonce=nonce, ticks=left, resets=cell.resets + 1)


def with_tick(cell: Cell, record: TickRecord) -> Cell:
    """Put a job's record in the place of its last one."""
    return cell._replace(ticks=(*(one for one in cell.ticks if one.job != record.job), record))


def lease_of(cell: Cell, claim: Claim, *, store: str, machine: str, owed: tuple[str, ...] | None) -> Lease:
    """Return what the holder has in its hands."""
    held = cell.lease
    assert held is not None, "it was granted just now"
    return Lease(
        id=held.id,
        tenant=cell.tenant,
        resources=(cell.resource,),
        fence=held.fence,
        run_id=held.run_id,
        store=store,
        ttl_seconds=held.ttl_seconds,
        gates=tuple(dict.fromkeys((*claim.gates, *(one.gate for one in cell.owed if one.machine in ("", machine))))),
        started=held.started_us is not None,
        owed=owed,
    )


def held_of(cell: Cell, lease: CellLease, *, left_seconds: float, wall_us: int, known: Known | None) -> Held:
    """Return a lease as doors show it; `known` is what this machine itself remembers of its process."""
    nowhere = ProcessId(Host(lease.host, f"cell-{lease.machine}", "", ""), lease.pid, "")
    return Held(
        id=lease.id,
        tenant=cell.tenant,
        resources=(cell.resource,),
        fence=lease.fence,
        run_id=known.run_id if known else lease.run_id,
        holder=lease.holder,
        label=lease.label,
        supervisor=known.supervisor if known else nowhere,
        guard=known.guard if known else None,
        cgroup=known.cgroup if known else None,
        ttl_seconds=lease.ttl_seconds,
        renewals=cell.beat,
        granted_us=lease.granted_us,
        started_us=lease.started_us,
        expires_us=wall_us + round(left_seconds * 1e6),
        remaining_seconds=left_seconds,
        lost=cell.lease is None or cell.lease.id != lease.id,
    )


def refused(held: Held) -> Refused:
    """Say who is in the way; there is no queue here."""
    return Refused((held,), ())


def encode(cell: Cell) -> bytes:
    """Spell a document, or raise Invalid if it is too large to be one."""
    fields = {
        "v": VERSION,
        "tenant": cell.tenant,
        "resource": cell.resource,
        "nonce": cell.nonce,
        "fence": cell.fence,
        "beat": cell.beat,
        "lease": cell.lease._asdict() if cell.lease else None,
        "owed_gates": [one._asdict() for one in cell.owed],
        "tick": [one._asdict() for one in cell.ticks],
        "lost": [one._asdict() for one in cell.lost],
        "resets": cell.resets,
    }
    return _bounded(json.dumps(fields).encode(), cell.resource)


def decode(data: bytes, *, where: str) -> Cell:
    """Read a document; one that cannot be read is nothing to build on."""
    fields = _fields(data, where)
    try:
        return Cell(
            tenant=_name(fields["tenant"]),
            resource=_name(fields["resource"]),
            nonce=_text(fields["nonce"]),
            fence=_number(fields["fence"]),
            beat=_number(fields["beat"]),
            lease=_lease(fields["lease"]) if fields["lease"] else None,
            owed=tuple([Owed(_text(one["gate"]), _text(one["machine"])) for one in fields["owed_gates"]]),
            ticks=tuple([read_record(one) for one in fields["tick"]]),
            lost=tuple([_lease(one) for one in fields["lost"]]),
            resets=_number(fields.get("resets", 0)),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(where, error) from None


def encode_root(root: Root) -> bytes:
    """Spell the root cell."""
    return json.dumps({"v": VERSION, **root._asdict()}).encode()


def decode_root(data: bytes, *, where: str) -> Root:
    """Read the root cell."""
    fields = _fields(data, where)
    try:
        return Root(_name(fields["id"]), _number(fields["floor"]), _text(fields["nonce"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _unreadable(where, error) from None


def _fields(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > SIZE_MAX:
        raise _unreadable(where, ValueError(f"more than {SIZE_MAX} bytes"))
    try:
        fields = json.loads(data)
        version = _number(fields["v"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _unreadable(where, error) from None
    if version != VERSION:
        raise StoreUnavailable(
            f"{where} was written by a newer Fencepost (cells of version {version}); upgrade this one."
        )
    assert isinstance(fields, dict), "it has a version"
    return fields


def _lease(fields: dict[str, Any]) -> CellLease:
    lease = CellLease(**{name: fields[name] for name in CellLease._fields if name in fields})
    for number in (lease.fence, lease.pid, lease.ttl_ms):
        _number(number)
    _instant(lease.granted_us)
    _instant(0 if lease.started_us is None else lease.started_us)
    for text in (lease.id, lease.machine, "" if lease.holder is None else lease.holder):
        _name(text)
    return lease._replace(label=_plain(lease.label), host=_plain(lease.host), run_id=_plain(lease.run_id))


def read_record(fields: dict[str, Any]) -> TickRecord:
    """Read the record of a tick that another program may have written."""
    record = record_of(fields)
    for text in (record.job, record.cron, record.zone, record.run, record.host):
        _text(text)
    if record.state not in STATES:
        raise ValueError(f"{_plain(str(record.state))!r} is no state of a tick")
    for number in (record.attempts, record.fence):
        _number(number)
    _instant(record.cursor_us)
    _instant(0 if record.last_success_us is None else record.last_success_us)
    return record


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{_plain(str(value))} is no text")
    return value


def _name(value: object) -> str:
    """Return text that is shown to people: a program that writes cells must not steer their terminals."""
    if not _text(value).isprintable():
        raise ValueError(f"{_plain(str(value))!r} has characters that cannot be shown")
    return str(value)


def _number(value: object, most: int = FENCE_MAX) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{_plain(str(value))} is no number that can stand there")
    return value


def _instant(value: object) -> int:
    return _number(value, WALL_MAX_US)


def _unreadable(where: str, error: Exception) -> StoreUnavailable:
    return StoreUnavailable(
        f"{where} cannot be read ({type(error).__name__}: {error}), so that it is not known who holds it. Look at it, and put "
        "back what was there; deleting it makes every machine wait for the lease that it may have held."
    )


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > SIZE_MAX:
        raise Invalid(f"the cell of {name} would take {len(data)} bytes, more than {SIZE_MAX}: it owes too many gates.")
    return data


def _owing(gates: Iterable[str], machine: str) -> Iterable[Owed]:
    return (Owed(gate, machine if gate.partition(":")[0] in rules.LOCAL_GATES else "") for gate in gates)


def _still_ours(cell: Cell, lease: Lease) -> CellLease:
    held = cell.lease
    if held is None or (held.id, held.fence) != (lease.id, lease.fence):
        raise LeaseLost(f"the lease on {' '.join(lease.resources)} with fence {lease.fence} is no longer held.")
    return held


def _program(label: str) -> str:
    """Keep the program's name alone: a command line may hold what not every reader of the store should see."""
    return _plain(label.partition(" ")[0])


def _plain(text: str) -> str:
    shown = "".join(one if one.isprintable() else "?" for one in str(text))
    return shown[:LABEL_MAX]
