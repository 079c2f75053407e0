"""Two stores with clocks of their own, tenants that are kept in one or the other by a map, and people whose map may be old."""

import random  # noqa: TID251  # seeded
from collections import Counter, defaultdict
from itertools import count
from pathlib import Path

from fencepost.config.find import store_url_of
from fencepost.flow.notary import Notary
from fencepost.flow.reaper import Reaper, store_now
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import LeaseLost, Misconfigured
from fencepost.model.process import Host, ProcessId
from fencepost.model.registry_plan import want
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import LeasedRun, Report
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.world import Violation
from tests.stores.rig import SqliteRig
from tests.support.runtime import SUCCEEDED, AnyFate

KEY = b"the key that all machines have"
TENANTS = ("finance", "lab", "ops")
STORES = ("one", "two")
TTL_SECONDS = 10
APART_SECONDS = 90  # how far the clocks of the two servers may be from each other
MAP = """[fencepost]
store = "sqlite:{folder}/one/state.db"
[fencepost.stores]
{stores}
"""


class Server:
    """One store with the workers that serve it, whichever tenants it holds."""

    def __init__(self, world: "MovingWorld", name: str) -> None:
        self.name = name
        self._world = world
        self.rig = SqliteRig(Path(world.folder, name, "state.db"), throwaway=True)
        self.url = f"sqlite:{world.folder}/{name}/state.db"
        self.store = RuntimeStore(self.rig.store)
        self.held: list[LeasedRun] = []
        self.rig.step_wall(world.rng.uniform(-APART_SECONDS, APART_SECONDS))

    def serve(self, eagerness: float = 0.8) -> None:
        """Decide ticks, settle what was lost, and lease what may start, as long as there is somebody for it."""
        while Ticker(self.store, self._world.new_id).step():
            pass
        Reaper(self.store, self.store, AnyFate(), store_now(self.store.clock_us)).step()  # type: ignore[arg-type]
        while self._world.rng.random() < eagerness and (leased := self._lease()):
            self._world.leased(self, leased)
            self.store.start_run(leased)
            self.held.append(leased)

    def end_all(self) -> None:
        """Let every holder report its end."""
        while self.held:
            self.end_one()

    def end_one(self) -> None:
        """Let one of the holders, if there is any, report its end, however late."""
        if not self.held:
            return
        leased = self.held.pop(self._world.rng.randrange(len(self.held)))
        try:
            self.store.settle(leased.lease, SUCCEEDED, Report("succeeded", exit_code=0), clean=True)
        except LeaseLost:
            self._world.count("ends refused")
        else:
            self._world.settled(self, leased)

    def seal(self) -> None:
        """Seal what the audit has to say."""
        notary = Notary(self.store.audit_chain(), KEY, self.store.clock_us, lambda _: None, batch=5)
        while notary.step():
            pass

    def _lease(self) -> LeasedRun | None:
        return self.store.lease_run(
            lambda run: claim_for(
                run, lease_id=f"l-{self._world.new_id()}", supervisor=WORKER, ttl_seconds=TTL_SECONDS
            ),
            recheck_for,
        )


WORKER = ProcessId(Host("tower", "machine-1", "boot-1", "pid:1"), 4711, "12345")


class MovingWorld:
    """What the players of one seed share, and what must be true of it."""

    def __init__(self, seed: int, folder: str) -> None:
        self.rng = random.Random(seed)  # seeded, so that a day can be repeated
        self.folder = folder
        self.trace: list[str] = []
        self.totals: Counter[str] = Counter()
        self.seconds = 0.0
        self._numbers = count(1)
        self.servers = {name: Server(self, name) for name in STORES}
        self.homes = dict.fromkeys(TENANTS, "one")
        self.acked: dict[str, set[str]] = {tenant: set() for tenant in TENANTS}
        self._fences: dict[tuple[str, tuple[str, ...]], int] = defaultdict(int)
        self.settled_at: dict[str, str] = {}
        for person in ("new", "old"):
            self.write_map(person)
        for tenant in TENANTS:
            agents = {"a": AgentDefinition("a", command=("true",), on_lost="restart", max_attempts=99)}
            schedules = {"s": ScheduleDefinition("s", "a", cron="* * * * *", timezone="UTC", overlap="bufferall")}
            wanted = want(tenant, "test.toml", agents=agents, schedules=schedules)
            self.servers["one"].store.registry().apply(wanted, actor="test")

    def new_id(self) -> str:
        """Name something: the same name whenever this seed is played."""
        return f"r{next(self._numbers):06d}"

    def log(self, line: str) -> None:
        """Write down what happened."""
        self.trace.append(f"{self.seconds:8.1f} {line}")

    def count(self, what: str) -> None:
        """Write down that something happened, and how often."""
        self.totals[what] += 1
        self.log(what)

    def pass_time(self, seconds: float) -> None:
        """Let time go by for both servers."""
        self.seconds += seconds
        for server in self.servers.values():
            server.rig.pass_time(seconds)

    def write_map(self, person: str) -> None:
        """Give somebody a configuration that says where each tenant is now."""
        stores = "\n".join(f'{tenant} = "{self.servers[name].url}"' for tenant, name in self.homes.items())
        Path(self._map_of(person)).write_text(MAP.format(folder=self.folder, stores=stores), encoding="utf-8")

    def ask(self, person: str, tenant: str) -> None:
        """Ask for a run where a person's map says that the tenant is."""
        url = store_url_of(self._map_of(person), {}, tenant)
        (server,) = [one for one in self.servers.values() if one.url == url]
        is_right = server.name == self.homes[tenant]
        if person == "new" and not is_right:
            raise Violation("the map leads home", f"it leads to {server.name}, and {tenant} is at {self.homes[tenant]}")
        try:
            asked = request_run(server.store, tenant=tenant, target="a", new_run_id=self.new_id, by=person)
        except Misconfigured:
            self.count("asked in vain")
            if is_right:
                raise Violation("the map leads home", f"{tenant} was refused at {server.name}, its home") from None
            return
        self.count("asked")
        self.acked[tenant].add(asked.run.id)
        if not is_right:
            raise Violation("nothing happens where it was", f"{server.name} took a request of {tenant}, which has left")

    def leased(self, server: Server, leased: LeasedRun) -> None:
        """Look at a lease that was given out."""
        run, lease = leased.run, leased.lease
        self.count("grants")
        if server.name != self.homes[run.tenant]:
            raise Violation(
                "nothing happens where it was", f"{server.name} leased {run.id} of {run.tenant}, which has left"
            )
        key = (run.tenant, lease.resources)
        if lease.fence <= self._fences[key]:
            raise Violation("fences rise", f"{key} got {lease.fence} after {self._fences[key]}")
        self._fences[key] = lease.fence

    def settled(self, server: Server, leased: LeasedRun) -> None:
        """Look at an end that a store has taken."""
        run = leased.run
        self.count("ends")
        if server.name != self.homes[run.tenant]:
            raise Violation(
                "nothing happens where it was", f"{server.name} settled {run.id} of {run.tenant}, which has left"
            )
        if run.id in self.settled_at:
            raise Violation("ends once", f"{run.id} ended twice, at {self.settled_at[run.id]} and {server.name}")
        self.settled_at[run.id] = server.name

    def close(self) -> None:
        """Let go of both files."""
        for server in self.servers.values():
            server.rig.close()

    def _map_of(self, person: str) -> str:
        return f"{self.folder}/{person}.toml"
