"""One seed of two stores: tenants move between them while both are at work; then all is calm, and the accounts are closed."""

import os
import shutil
import tempfile
import traceback
from hashlib import sha256
from typing import NamedTuple
from unittest.mock import patch

from fencepost.model.audit_chain import key_id
from fencepost.model.errors import Busy
from fencepost.operations import store_maintenance
from fencepost.operations.audit_verification import verify_audit
from fencepost.operations.prove import prove
from fencepost.stores import backup as backups
from tests.simulation.moving.world import KEY, STORES, TENANTS, MovingWorld
from tests.simulation.simulate import MEMORY, Result
from tests.simulation.world import Violation

RAGE, CALM = 40, 40  # steps
DEATHS_MAX = 2  # in one move
DIES_EVERY = 20  # rows of a backup: how often a mover may be killed while it writes or reads them
MOVERS = ("finance", "ops")  # the others stay
CHANCES = {"move": 0.25, "clock": 0.05, "old map": 0.3, "seal": 0.2}
# What must have happened at least once before a batch of seeds says anything.
BITES = (
    *("asked", "asked in vain", "grants", "ends", "ends refused", "moves", "moves refused: busy"),
    *("movers killed before the file", "movers killed before the restore", "movers killed in the restore"),
    *("clocks set", "restored twice"),
)


class Died(Exception):
    """The mover was killed at this point."""


def simulate_moves(seed: int) -> Result:
    """Run one seed from beginning to end."""
    folder = tempfile.mkdtemp(prefix="moving-", dir=MEMORY if os.path.isdir(MEMORY) else None)
    world = MovingWorld(seed, folder)
    violation: Violation | None = None
    try:
        with (
            patch.object(store_maintenance, "TOLD_EVERY", DIES_EVERY),
            patch.object(backups, "PROGRESS_EVERY", DIES_EVERY),
        ):
            _story(world)
    except Violation as found:
        violation = found
    except Exception as crash:  # noqa: BLE001  # a crash of the product breaks a promise, whatever its name
        world.log(traceback.format_exc())
        violation = Violation("crashed", repr(crash))
    finally:
        world.close()
        shutil.rmtree(folder)
    world.totals["seeds"] += 1
    world.totals["events"] += len(world.trace)
    digest = sha256("\n".join(world.trace).encode()).hexdigest()
    command = "python -m tests.simulation.moving.run"
    return Result(seed, digest, world.trace, world.totals, world.seconds, violation, {}, command)


def _story(world: MovingWorld) -> None:
    for _ in range(RAGE):
        _rage(world)
    for _ in range(CALM):
        world.pass_time(10)
        for server in world.servers.values():
            server.serve(eagerness=1)
            server.end_all()
    _close_accounts(world)


def _rage(world: MovingWorld) -> None:
    rng, servers = world.rng, list(world.servers.values())
    world.pass_time(rng.choice((0.5, 3, 20, 61)))
    for server in servers:
        server.serve()
        while server.held and rng.random() < 0.7:
            server.end_one()
    world.ask("old" if rng.random() < CHANCES["old map"] else "new", rng.choice(TENANTS))
    if rng.random() < CHANCES["old map"]:
        world.write_map("old")  # it was told, at last
    if rng.random() < CHANCES["seal"]:
        rng.choice(servers).seal()
    if rng.random() < CHANCES["clock"]:
        rng.choice(servers).rig.step_wall(rng.uniform(-30, 30))
        world.count("clocks set")
    if rng.random() < CHANCES["move"]:
        _move(world, rng.choice(MOVERS))


def _move(world: MovingWorld, tenant: str) -> None:
    """Take a tenant to the other store; whoever is killed over it is followed by somebody who begins again."""
    home = world.homes[tenant]
    away = next(name for name in STORES if name != home)
    move = _Move(world, tenant, home, away)
    for deaths_left in reversed(range(DEATHS_MAX + 1)):
        try:
            move.carry_out(may_die=deaths_left > 0)
        except Busy:
            world.count("moves refused: busy")
            return
        except Died:
            continue
        break
    world.count("moves")
    if world.rng.random() < 0.2:  # the answer was lost, and nothing has happened to the tenant since
        move.restore(may_die=False)
        world.count("restored twice")


class _Move(NamedTuple):
    """One tenant's way from one store to the other."""

    world: MovingWorld
    tenant: str
    home: str
    away: str

    @property
    def file(self) -> str:
        return f"{self.world.folder}/{self.tenant}.backup"

    def carry_out(self, *, may_die: bool) -> None:
        """Do all of it, as a person would who finds it half done or not begun."""
        world = self.world

        def tell(_: int) -> None:
            world.homes[self.tenant] = ""  # no store's, until it is restored
            self._die("before the file", may_die=may_die)

        store_maintenance.send_away(
            world.servers[self.home].rig.store, self.file, tenant=self.tenant, by="mover", progress=tell
        )
        world.homes[self.tenant] = ""
        world.pass_time(world.rng.choice((0.0, 2.0, 15.0)))
        for server in world.servers.values():
            server.serve()
            server.end_one()
        self._die("before the restore", may_die=may_die, chance=0.3)
        self.restore(may_die=may_die)
        world.homes[self.tenant] = self.away
        world.write_map("new")

    def restore(self, *, may_die: bool) -> None:
        """Bring the tenant in, in place of what it left there long ago."""

        def tell(*_: int) -> None:
            self._die("in the restore", may_die=may_die)

        target = self.world.servers[self.away].rig.store
        store_maintenance.restore(target, self.file, confirm=lambda _: True, by="mover", progress=tell)

    def _die(self, where: str, *, may_die: bool, chance: float = 0.1) -> None:
        if may_die and self.world.rng.random() < chance:
            self.world.count(f"movers killed {where}")
            raise Died


def _close_accounts(world: MovingWorld) -> None:
    for tenant in TENANTS:
        server = world.servers[world.homes[tenant]]
        runs = {run.id: run for run in server.store.runs(tenant=tenant, limit=100_000)}
        if lost := sorted(world.acked[tenant] - runs.keys()):
            raise Violation("kept", f"acknowledged and gone: {lost}")
        if left := [f"{run.id} {run.state}" for run in runs.values() if run.state != "succeeded"]:
            raise Violation("progress", f"not ended long after the last fault: {left}")
        if unsettled := sorted(runs.keys() - world.settled_at.keys()):
            raise Violation("kept", f"called done, and nobody did it: {unsettled}")
        occurrences = [run.occurrence for run in runs.values() if run.occurrence is not None]
        if len(occurrences) != len(set(occurrences)):
            raise Violation("no tick runs twice", f"{tenant} has two runs of one tick")
        if not prove(server.store, tenant=tenant).holds:
            raise Violation("prove", f"the ticks of {tenant} are not all accounted for")
        server.seal()
        report = verify_audit(server.store, tenant, keys={key_id(KEY): KEY}, heads=[])
        if not report.good:
            raise Violation("the chain holds", f"{tenant}: {report.fault}")
