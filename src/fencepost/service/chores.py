"""What a station does now and then beside its main work, each at its own pace and in small steps."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from fencepost.flow.notary import Notary, SealWitness
from fencepost.flow.pruner import Pruner
from fencepost.flow.reaper import Reaper, store_now
from fencepost.host.log_files import log_path, remove_log
from fencepost.model.audit_chain import Seal
from fencepost.model.clock_jump import ClockReading, jump_between
from fencepost.model.duration import format_duration
from fencepost.model.errors import AuditCut
from fencepost.model.fast_typing import NamedTuple, Protocol
from fencepost.ports.clock import Clock
from fencepost.ports.processes import Processes
from fencepost.ports.pruning import PastPlace, PrunePlace
from fencepost.ports.store import LeaseStore
from fencepost.service.end_record import has_known_end
from fencepost.service.notifier import Notifier, Post
from fencepost.stores.runtime import RuntimeStore

REAP_SECONDS = 2.0
SEAL_SECONDS = 5.0
PRUNE_SECONDS, PAGE_SECONDS = 3600.0, 0.1  # between two passes, and between two pages of one
PRUNE_FIRST_SECONDS = 1.0
COUNT_SECONDS, COUNT_FIRST_SECONDS = 60.0, 10.0
SWEEP_SECONDS, SWEEP_FIRST_SECONDS = 10.0, 3.0  # the first time right after the first pruning
LOGS_MAX = 200  # files that are removed in one step
CLOCK_SECONDS = 2.0
PACK_FIRST_SECONDS = 20.0
LINES_FIRST_SECONDS, LINES_ASK_SECONDS = 2.0, 10.0

Say = Callable[[str], None]


class Chore(NamedTuple):
    """One small step, which returns in how many seconds the next is due."""

    step: Callable[[RuntimeStore], float]
    leads: bool = False  # only for the scheduler that drives the tenant: once is enough
    first_seconds: float = 0.0


class Chores:
    """Does what is due."""

    def __init__(self, chores: Sequence[Chore], clock: Clock, beside: Callable[[], float] | None = None) -> None:
        self._clock = clock
        now = clock.awake_ns()
        self._due = [(one, now + round(one.first_seconds * 1e9)) for one in chores]
        self._beside, self._beside_ns = beside, now

    def look_beside(self) -> None:
        """Look after what runs beside us, if it is time: that takes no store, and is done while there is none."""
        now = self._clock.awake_ns()
        if self._beside is not None and now >= self._beside_ns:
            self._beside_ns = now + round(self._beside() * 1e9)

    def step(self, store: RuntimeStore, *, leads: bool) -> None:
        """Do each chore whose time has come."""
        now = self._clock.awake_ns()
        for number, (chore, due_ns) in enumerate(self._due):
            if now >= due_ns and (leads or not chore.leads):
                self._due[number] = (chore, now + round(chore.step(store) * 1e9))


def reaping(processes: Processes, say: Say, keeper: str = "") -> Chore:
    """Settle runs whose lease is over."""

    def step(store: RuntimeStore) -> float:
        now = store_now(store.clock_us)
        reaper = Reaper(store, store, processes, now, has_known_end=has_known_end, keeper=keeper)
        lost, late = reaper.take_over(), reaper.give_up()
        if lost:
            say(f"took over {lost} run{'s' if lost > 1 else ''} of a worker that is gone.")
        if late:
            say(f"gave up {late} run{'s' if late > 1 else ''} that waited too long.")
        return REAP_SECONDS

    return Chore(step)


def pruning(tenant: str, retention: timedelta) -> Chore:
    """Let go of old records, one page at a time."""
    place = PrunePlace()

    def step(store: RuntimeStore) -> float:
        nonlocal place
        following = Pruner(store, tenant, retention).step(place).next
        place = following or PrunePlace()
        return PAGE_SECONDS if following else PRUNE_SECONDS

    return Chore(step, leads=True, first_seconds=PRUNE_FIRST_SECONDS)


def counting(tenant: str) -> Chore:
    """Count what changes no more, one page at a time, so that a request for figures need not."""
    return Chore(
        lambda store: PAGE_SECONDS if store.metering().fold(tenant) else COUNT_SECONDS,
        leads=True,
        first_seconds=COUNT_FIRST_SECONDS,
    )


def sweeping_logs(host: str, folder: str) -> Chore:
    """Remove from this disk the logs of what is no longer on record; a crash in between removes them once more."""

    def step(store: RuntimeStore) -> float:
        logs = store.old_logs(host, LOGS_MAX)
        for one in logs:
            remove_log(log_path(folder, one.run_id, one.fence))
        if logs:
            store.forget_old_logs(host, logs)
        return PAGE_SECONDS if len(logs) == LOGS_MAX else SWEEP_SECONDS

    return Chore(step, first_seconds=SWEEP_FIRST_SECONDS)


class SealMemory(Protocol):
    """The newest seal of each tenant, kept outside of the store."""

    def kept(self, tenant: str) -> Seal | None:
        """Return the newest seal that this machine remembers."""
        ...

    def keep(self, seal: Seal) -> None:
        """Remember a seal in place of the one before it."""
        ...


def sealing(
    key: bytes, export: Callable[[Seal], None], memory_of: Callable[[LeaseStore], SealMemory], say: Say
) -> Chore:
    """Seal the audit; a head that cannot be exported is told once, and the next one stands for it too.

    A tenant whose newest seal, as this machine remembers it, is gone from the store is not sealed; this is told once.
    """
    failing = False
    told: set[str] = set()

    def refused(error: AuditCut) -> None:
        if str(error) not in told:
            told.add(str(error))
            say(f"warning: {error}")

    def exported(seal: Seal) -> None:
        nonlocal failing
        try:
            export(seal)
            failing = False
        except OSError as error:
            if not failing:
                say(f"the audit's heads cannot be exported: {error}")
            failing = True

    def step(store: RuntimeStore) -> float:
        memory = memory_of(store)
        witness = SealWitness(memory.kept, memory.keep, refused)
        more = Notary(store.audit_chain(), key, store.clock_us, exported, witness).step()
        return PAGE_SECONDS if more else SEAL_SECONDS

    return Chore(step, leads=True)


def packing() -> Chore:
    """Give old history its narrow form, a pack of the audit or a page of runs at a time, if a person has begun with it."""
    place = PastPlace()

    def step(store: RuntimeStore) -> float:
        nonlocal place
        if store.audit_chain().pack_on() is not None:
            return PAGE_SECONDS
        page = store.past_runs().move_on(place)
        place = page.next or PastPlace()
        return PRUNE_SECONDS if page.next is None else PAGE_SECONDS

    return Chore(step, leads=True, first_seconds=PACK_FIRST_SECONDS)


def telling_of_lines(tenant: str, make: Callable[[], Callable[[Any], float]]) -> Chore:
    """Tell who waits behind whom, if a target wants to hear of it; only then is `make` called."""
    look: Callable[[Any], float] | None = None

    def step(store: RuntimeStore) -> float:
        nonlocal look
        if not store.notices().is_wished(tenant, "queued"):
            look = None
            return LINES_ASK_SECONDS
        look = look or make()
        return look(store)

    return Chore(step, leads=True, first_seconds=LINES_FIRST_SECONDS)


def delivering(post: Post, clock: Clock, say: Say) -> Chore:
    """Deliver notices. Every worker that knows the targets may: a notice is claimed before it is sent."""
    notifier = Notifier(post, clock, say)
    return Chore(lambda store: notifier.step(store.notices()))


def watching_clock(tenant: str, here: str, clock: Clock, say: Say) -> Chore:
    """Tell of a store's clock that was set: every lease and every tick goes by it."""
    last: ClockReading | None = None

    def step(store: RuntimeStore) -> float:
        nonlocal last
        before_ns = clock.boot_ns()
        now = ClockReading(store.clock_us(), before_ns, clock.boot_ns())
        jump_us = jump_between(last, now) if last else 0
        last = now
        if jump_us:
            way = "ahead" if jump_us > 0 else "back"
            size = format_duration(abs(jump_us) // 1_000_000)
            say(f"the store's clock was set {way} by {size}; leases and ticks go by it.")
            detail = {"seconds": jump_us // 1_000_000, "seen_from": here}
            store.audit_chain().note(tenant, actor="scheduler", verb="clock_jump", subject="store:clock", detail=detail)
        return CLOCK_SECONDS

    return Chore(step)  # every worker looks: with the jump another one may come to drive
