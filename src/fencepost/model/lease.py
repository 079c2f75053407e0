"""Leases and fences: the right to work on resources, and the number that proves it at a write target.

A lease is a new identity for each acquisition, never a host, a pid or a worker's name. Its fence is
above every fence that any of its resources ever had.
"""

from __future__ import annotations

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import TYPE_CHECKING, Collection, Iterable, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.process import ProcessId
    from fencepost.model.tick_claim import GrantedTick, TickOrder

EVERYONE = "*"  # the tenant column of resources that all tenants share
KINDS = ("lock", "project", "schedule", "run", "key", "scheduler", "repo", "cmd", "notary")
SHARED_KINDS = ("project", "repo")
LOCAL_GATES = ("file", "dir", "repo")  # only a process of this host writes there
NAME_MAX = 512

DRIFT = 0.01  # how much faster or slower than the store's our clock may run
GRACE_MAX_SECONDS = 5.0
ASK_PART = 0.6  # of the grace before a lease runs out; the rest is for the kill itself, on a busy host
TTL_DEFAULT_SECONDS = 30.0
OVERDUE_TIMES = 1.5  # as long as from one renewal to the next, without one: its keeper is gone, frozen or cut off
TTL_MIN_SECONDS = 0.2
TTL_MAX_SECONDS = 7 * 24 * 3600.0


class Lease(NamedTuple):
    """What a holder has in its hands after a grant."""

    id: str
    tenant: str
    resources: tuple[str, ...]
    fence: int
    run_id: str
    store: str
    ttl_seconds: float
    gates: tuple[str, ...]  # every gate to raise before the start: its own and those still owed by earlier grants
    started: bool = False  # the start was recorded with the grant, since there was nothing to do in between
    fenced: tuple[str, ...] = ()  # free places of its project whose last holder did not end well: raised with its own
    owed: tuple[str, ...] | None = None  # of its gates, those that earlier grants owe; None: it is not known any more
    epoch: int = 0  # how often it was adopted: only its newest keeper extends or ends it
    tick: GrantedTick | None = None  # the tick of a crontab line that was claimed with it
    is_command: bool = False  # a guarded command, which leaves a row


class Turn(NamedTuple):
    """A place in a line. All who wait are ordered by this alone, so that no two can wait for each other."""

    rank: int  # minus the priority; `exec` and sessions have none, which is 0
    since_us: int
    id: str


class Claim(NamedTuple):
    """What a holder asks for: all of these resources, or none."""

    id: str  # becomes the lease's id; asking again with it finds the same grant
    tenant: str
    resources: tuple[str, ...]
    run_id: str
    ttl_seconds: float
    supervisor: ProcessId
    guard: ProcessId | None = None
    cgroup: str | None = None
    holder: str | None = None
    label: str = ""
    gates: tuple[str, ...] = ()
    starts: bool = False  # at once: record the start with the grant if there is no gate to raise and no process to end
    turn: Turn | None = None  # of a run, which keeps its place in the queue itself
    slots: int = 1  # how many may be in its project at once
    keeper: str | None = None  # the worker that takes custody; None: it cannot be adopted
    adopt_key: str | None = None  # what the next keeper will show to the guard; a secret
    keeper_socket: str | None = None  # where the guard waits for its keeper
    tick: TickOrder | None = None  # the crontab line whose newest tick is to be claimed with it
    is_command: bool = False  # a guarded command, which leaves a row
    waits: bool = False  # if it is busy; then it does not come in vain


class Held(NamedTuple):
    """A lease as the store sees it, with the process to ask about it."""

    id: str
    tenant: str
    resources: tuple[str, ...]
    fence: int
    run_id: str
    holder: str | None
    label: str
    supervisor: ProcessId
    guard: ProcessId | None
    cgroup: str | None
    ttl_seconds: float
    renewals: int
    granted_us: int
    started_us: int | None
    expires_us: int
    remaining_seconds: float
    lost: bool
    keeper: str | None = None  # the worker that has custody
    epoch: int = 0
    left_us: int | None = None  # when its keeper left it on purpose; None: it is attended
    adopt_key: str | None = None  # a secret: only a worker that may adopt it is told
    keeper_socket: str | None = None
    met: bool = False  # lost, and a later grant on its resources has met it already

    @property
    def expired(self) -> bool:
        """Whether its time is up by the store's clock."""
        return self.remaining_seconds <= 0

    @property
    def held_seconds(self) -> int:
        """How long it has been held by the store's clock; the reader's own clock may be an hour off."""
        return self._seconds_since(self.granted_us)

    @property
    def worked_seconds(self) -> int:
        """How long its agent has worked; before the start, how long it has been held."""
        return self._seconds_since(self.started_us or self.granted_us)

    def _seconds_since(self, instant_us: int) -> int:
        seen_us = self.expires_us - round(self.remaining_seconds * 1_000_000)
        return max(0, (seen_us - instant_us) // 1_000_000)


class Waiter(NamedTuple):
    """A claim in the queue for resources."""

    id: str
    tenant: str
    resources: tuple[str, ...]
    run_id: str
    label: str
    process: ProcessId
    since_us: int
    stale: bool  # has not been heard of for its time to live
    rank: int = 0

    @property
    def turn(self) -> Turn:
        """Where it stands."""
        return Turn(self.rank, self.since_us, self.run_id)


class Granted(NamedTuple):
    """Yes, and whose processes may still be about."""

    lease: Lease
    predecessors: tuple[Held, ...]


class Refused(NamedTuple):
    """Not now: who holds it, and who was here before."""

    holders: tuple[Held, ...]
    ahead: tuple[Waiter, ...]

    @property
    def position(self) -> int:
        """The place in the queue, from 1; a run that several workers could take stands in it once."""
        return len({waiter.run_id for waiter in self.ahead}) + 1


def resource(kind: str, name: str) -> str:
    """Name a resource, or say why it cannot be one."""
    if kind not in KINDS:
        raise Invalid(f"{kind!r} is no kind of resource; there are {', '.join(KINDS)}.")
    if not name or len(name) > NAME_MAX:
        raise Invalid(f"the name of a {kind} has 1 to {NAME_MAX} characters, this one has {len(name)}.")
    if not name.isprintable() or any(character.isspace() for character in name):
        raise Invalid(f"{kind} {name!r} has a blank or a control character in its name; use letters, digits, - _ . / :")
    return f"{kind}:{name}"


def parse_resource(text: str) -> str:
    """Check a resource that was given as `kind:name`."""
    kind, colon, name = text.partition(":")
    if not colon:
        raise Invalid(f"{text!r} is no resource; write kind:name, for example lock:{text or 'nightly'}.")
    return resource(kind, name)


def still_owed(gates: Iterable[str], *, answered: bool) -> list[str]:
    """Return the gates that may let a write in although nothing is left of the tree that sent it.

    What was sent to another machine ends there. An agent that ended well waited for its answers; of any other, one may
    be missing, and the next holder raises those gates too.
    """
    return [] if answered else [gate for gate in gates if gate.partition(":")[0] not in LOCAL_GATES]


def owed_after(lease: Lease, *, settled: bool, clean: bool, answered: bool) -> list[str] | None:
    """Return the gates that are owed once a lease has ended; None: those that were owed before.

    Only the clean end of an agent that was started settles what earlier grants owe: one that never started may not
    have raised their gates. And what was sent to another machine must have been answered.
    """
    if settled:
        return still_owed(lease.gates, answered=answered)
    return None if not clean or lease.owed is None else list(lease.owed)


HELD, LOST, MOVED = "held", "lost", "moved"  # what can have become of a lease
RENEWED, BUSY = "renewed", "busy"  # what more a renewal can be answered


def fate_of(lease: Lease, found: Held | None) -> str:
    """Say what became of a keeper's lease, by what the store has of it."""
    if found is None or found.lost or found.fence != lease.fence or found.epoch < lease.epoch:
        return LOST
    return MOVED if found.epoch > lease.epoch else HELD


def key_of(tenant: str, name: str) -> tuple[str, str]:
    """Return under which key the store keeps a resource; a project is one directory for all tenants."""
    return (EVERYONE if name.partition(":")[0] in SHARED_KINDS else tenant, name)


def keys_of(tenant: str, names: Iterable[str]) -> list[tuple[str, str]]:
    """Return the keys of a set of resources in the one order in which they are locked."""
    return sorted({key_of(tenant, name) for name in names})


def blockers(holders: Iterable[Held], dead: Collection[str]) -> tuple[Held, ...]:
    """Return the holders that a claim must wait for: not expired, and not proven dead by their process."""
    return tuple(held for held in holders if not held.expired and held.id not in dead)


def ahead(waiters: Iterable[Waiter], turn: Turn | None, dead: Collection[str]) -> tuple[Waiter, ...]:
    """Return the living waiters, first one first, whose turn comes before this one; without a turn, all of them."""
    alive = [waiter for waiter in waiters if not waiter.stale and waiter.id not in dead]
    before = [waiter for waiter in alive if turn is None or waiter.turn < turn]
    return tuple(sorted(before, key=lambda waiter: waiter.turn))


def turn_of(waiters: Iterable[Waiter], ticket: str | None) -> Turn | None:
    """Return where the holder of a ticket stands."""
    return next((waiter.turn for waiter in waiters if waiter.id == ticket), None)


def project_in(names: Iterable[str]) -> str | None:
    """Return the project among resources."""
    return next((name for name in names if name.startswith("project:")), None)


def slots_of(project: str, slots: int) -> tuple[str, ...]:
    """Name a project's places, the first of which is called like itself."""
    return (project, *(f"{project}#{number}" for number in range(2, slots + 1)))


def is_place(name: str, project: str) -> bool:
    """Tell whether a resource is one of a project's places."""
    return name == project or name.startswith(f"{project}#")


def choose(claim: Claim, holders: Iterable[Held], before: Collection[Waiter], dead: Collection[str]) -> str | Refused:
    """Return which of a project's places a claim gets, or why it must wait."""
    project = project_in(claim.resources)
    assert project is not None, "only projects have several places"
    blocking = blockers(holders, dead)
    taken = {name for held in blocking for name in held.resources}
    places = slots_of(project, claim.slots)
    free = [name for name in places if name not in taken]
    # Places beyond the last: a holder is still in them since there were more.
    room = len(free) - len([name for name in taken if is_place(name, project) and name not in places])
    wanted_too = taken.intersection(name for name in claim.resources if name != project)
    if wanted_too or len({waiter.run_id for waiter in before}) >= room:
        return Refused(blocking, tuple(before))
    return free[0]


def check_ttl(seconds: float) -> float:
    """Return a time to live that renewals can keep up with."""
    if not TTL_MIN_SECONDS <= seconds <= TTL_MAX_SECONDS:
        raise Invalid(f"a ttl is between {TTL_MIN_SECONDS:g}s and 7d, not {seconds:g}s.")
    return seconds


def renew_every(ttl_seconds: float) -> float:
    """Return how often a holder renews: three tries before its time is up."""
    return ttl_seconds / 3


def unattended_since_us(held: Held, now_us: int) -> int | None:
    """Return since when no worker keeps a lease whose guard may go on; None while a worker does.

    A worker that leaves says so. One that was killed is known by the renewal that did not come.
    """
    silent_seconds = held.ttl_seconds - held.remaining_seconds
    if held.keeper is None:
        return None  # its holder renews by itself, and dies with its agent
    if held.left_us is not None:
        return held.left_us
    is_overdue = silent_seconds > OVERDUE_TIMES * renew_every(held.ttl_seconds)
    return now_us - round(silent_seconds * 1e6) if is_overdue else None


def kill_grace(ttl_seconds: float) -> float:
    """Return how long a tree has to stop by itself once its lease is going."""
    return min(GRACE_MAX_SECONDS, ttl_seconds / 4)


def trusted_for(ttl_seconds: float) -> float:
    """Return how long a holder may rely on a lease, counted from *before* the request was sent.

    Drift and the kill grace are taken off, so that the tree is dead before another holder can be granted it.
    """
    return ttl_seconds * (1 - DRIFT) - kill_grace(ttl_seconds)


def next_fence(stored: int, floor: int, wall_us: int) -> int:
    """Return a fence above all earlier ones, also when the store lost its tail: then the clock lifts it."""
    return max(stored + 1, floor + 1, wall_us)
