"""People and their scripts: they edit, pause, halt, run, cancel, replay and make up for; an unknown answer is asked for again."""

from collections.abc import Callable
from datetime import datetime, timedelta

from fencepost.model.errors import Busy, FencepostError, Invalid, StoreUnavailable, Unauthorised
from fencepost.model.instants import from_us
from fencepost.operations.backfill import backfill
from fencepost.operations.run_requests import cancel, discard, replay, request_run
from fencepost.operations.webhook_delivery import HookRequest, receive
from fencepost.ports.runs import RunRow
from fencepost.stores.registry import SqlRegistry
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.hosts import Host, Process
from tests.simulation.runtime.fleet import AGENTS, HOOK, SECRET, TENANT
from tests.simulation.runtime.sessions import Session
from tests.simulation.runtime.stage import Stage
from tests.simulation.world import SECOND, Mailbox

TRIES = 4


class Operator:
    """Does one thing after another, each from a process of its own."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._world = stage.world
        self._acts = 0
        self._keys: list[str] = []

    def live(self) -> None:
        """Go on until the faults stop."""
        plot = self._stage.plot
        while not self._world.quiet:
            self._world.pause(int(self._world.rng.random() * 2 * plot.operator_every * SECOND))
            usable = [host for host in self._stage.hosts if host.usable]
            if usable and plot.wishes and not self._world.quiet:
                host, wish = self._world.rng.choice(usable), self._world.rng.choice(plot.wishes)
                if self._world.strike(f"operator: {wish}"):
                    self._act(host, wish)

    def calm(self) -> None:
        """Take back what would hold things up: pauses and halts."""

        def work(_: RuntimeStore, registry: SqlRegistry) -> None:
            registry.unhalt(TENANT, actor="operator")
            for name in registry.schedule_names(TENANT):
                registry.resume(TENANT, name, actor="operator")

        self._in_a_process(self._stage.hosts[0], "calm", work, tries=50)

    def apply(self, host: Host) -> None:
        """Put the definitions into the registry."""
        wanted = self._stage.fleet.wanted()
        self._in_a_process(host, "apply", lambda _, registry: registry.apply(wanted, actor="operator"), tries=50)

    def _act(self, host: Host, wish: str) -> None:
        self._world.totals[f"operator: {wish}"] += 1
        if wish in ("edit", "retire"):
            self._stage.fleet.edit() if wish == "edit" else self._stage.fleet.retire()
            self.apply(host)
            return
        if wish == "session":
            if self._stage.plot.project:
                Session(self._stage, host, lambda: None)
            return
        self._in_a_process(host, wish, self._deed(wish))

    def _deed(self, wish: str) -> Callable[[RuntimeStore, SqlRegistry], object]:
        """Choose once, so that asking again asks for the same."""
        rng, name = self._world.rng, self._world.rng.choice(sorted(self._stage.fleet.schedules))
        ttl = self._stage.knobs.ttl_seconds
        agent = rng.choice(AGENTS)
        delivery = f"delivery{rng.randrange(8)}"
        key = self._key()
        back = timedelta(seconds=rng.uniform(1, 20) * ttl)
        until = timedelta(seconds=rng.uniform(0, 6) * ttl)
        on = rng.random() < 0.5
        deeds: dict[str, Callable[[RuntimeStore, SqlRegistry], object]] = {
            "pause": lambda _, registry: (
                registry.pause(TENANT, name, until=_in(registry, until) if until else None, note="", actor="operator")
                if on
                else registry.resume(TENANT, name, actor="operator")
            ),
            "halt": lambda _, registry: (
                registry.halt(TENANT, note="", actor="operator") if on else registry.unhalt(TENANT, actor="operator")
            ),
            "skip": lambda _, registry: registry.skip_next(TENANT, name, 2, actor="operator"),
            "run": lambda store, _: self._run(store, name, key),
            "run agent": lambda store, _: self._run(store, agent, key),
            "tick again": lambda store, _: self._tick_again(store, name, again=on),
            "cancel": lambda store, _: self._one_run(
                store, ("ready", "running"), lambda run: cancel(store, run.id, tenant=TENANT, by="operator")
            ),
            "replay": lambda store, _: self._one_run(store, ("dead",), lambda run: self._replay(store, run, on=on)),
            "backfill": lambda store, _: self._backfill(store, name, back, key),
            "deliver": lambda store, _: self._deliver(store, delivery),
            "resolve": lambda store, _: self._resolve(store, on=on),
        }
        return deeds[wish]

    def _run(self, store: RuntimeStore, target: str, key: str | None) -> None:
        new_run_id = self._stage.new_id
        asked = request_run(store, tenant=TENANT, target=target, key=key, new_run_id=new_run_id, by="operator")
        self._stage.observer.acknowledged(asked.run.id, key=f"{target}/{key}" if key else None)

    def _tick_again(self, store: RuntimeStore, name: str, *, again: bool) -> None:
        runs = [run for run in store.runs(tenant=TENANT, schedule=name, limit=20) if run.tick_us is not None]
        if runs:
            tick = from_us(self._world.rng.choice(sorted(run.tick_us for run in runs if run.tick_us)))
            new_run_id = self._stage.new_id
            asked = request_run(
                store, tenant=TENANT, target=name, tick=tick, again=again, new_run_id=new_run_id, by="operator"
            )
            self._stage.observer.acknowledged(asked.run.id)

    def _replay(self, store: RuntimeStore, run: RunRow, *, on: bool) -> None:
        if not on:
            discard(store, run.id, tenant=TENANT, by="operator")
            return
        asked = replay(store, run.id, tenant=TENANT, new_run_id=self._stage.new_id, by="operator")
        self._stage.observer.acknowledged(asked.run.id)

    def _backfill(self, store: RuntimeStore, name: str, back: timedelta, key: str | None) -> None:
        now = from_us(store.clock_us())
        made = backfill(
            store,
            tenant=TENANT,
            schedule=name,
            from_=now - back,
            until=now,
            name=key,
            limit=20,
            new_run_id=self._stage.new_id,
            by="operator",
        )
        for run_id in made.run_ids:
            self._stage.observer.acknowledged(run_id)

    def _deliver(self, store: RuntimeStore, name: str) -> None:
        """Send a webhook, the same one again after an unknown answer, and now and then long after."""
        headers = {"authorization": f"Bearer {SECRET}", "idempotency-key": name}
        delivery = HookRequest(headers, f'{{"type": "ring", "number": "{name}"}}'.encode())
        now = store.clock_us() // 1_000_000
        (received,) = receive(
            store,
            [delivery],
            tenant=TENANT,
            name=HOOK,
            now_seconds=now,
            fetch_secret=lambda *_: SECRET,
            new_run_ids=lambda number: [self._stage.new_id() for _ in range(number)],
        )
        if isinstance(received, FencepostError):
            raise received
        assert received.run_id is not None
        self._world.totals[f"deliveries: {received.status}"] += 1
        self._stage.observer.acknowledged(received.run_id, key=f"hook/{name}")

    def _resolve(self, store: RuntimeStore, *, on: bool) -> None:
        """Look at an effect that is in doubt, see whether it took place, and say so."""
        ledger = store.ledger()
        entries = ledger.entries(TENANT, standing="ambiguous", limit=20)
        if entries:
            entry = self._world.rng.choice(sorted(entries, key=lambda one: one.key))
            self._world.pause(int(self._world.rng.random() * self._stage.knobs.ttl_seconds * SECOND))
            done = self._stage.outside.done[entry.key] > 0
            if ledger.resolve(entry, answer=f"{int(on)}" if done else None, by="operator"):
                self._world.totals["resolved by a person"] += 1

    def _one_run(self, store: RuntimeStore, states: tuple[str, ...], act: Callable[[RunRow], object]) -> None:
        """Look, think, and act on what was seen, whatever happened to it meanwhile."""
        runs = [run for run in store.runs(tenant=TENANT, limit=100) if run.state in states]
        if runs:
            run = self._world.rng.choice(sorted(runs))
            self._world.pause(int(self._world.rng.random() * self._stage.knobs.ttl_seconds * SECOND))
            act(run)

    def _key(self) -> str | None:
        """Make a key, or use one again."""
        rng = self._world.rng
        if self._keys and rng.random() < 0.4:
            return rng.choice(self._keys)
        if rng.random() < 0.3:
            return None
        self._keys.append(f"key{len(self._keys)}")
        return self._keys[-1]

    def _in_a_process(
        self, host: Host, name: str, deed: Callable[[RuntimeStore, SqlRegistry], object], *, tries: int = TRIES
    ) -> None:
        """Do it from a process, and again from another after an unknown answer; wait for the end."""
        for _ in range(tries):
            self._acts += 1
            process = Process(host, f"op{self._acts}.{name.replace(' ', '_')}")
            done: list[bool] = []
            self._await(process, deed, done)
            if done or not host.usable:
                return
            self._world.pause(int(self._world.rng.random() * SECOND))

    def _await(self, process: Process, deed: Callable[[RuntimeStore, SqlRegistry], object], done: list[bool]) -> None:
        over = Mailbox(self._world)
        process.at_death.append(lambda: over.put("over"))
        process.spawn("main", lambda: self._once(process, deed, done))
        over.wait(None)

    def _once(self, process: Process, deed: Callable[[RuntimeStore, SqlRegistry], object], done: list[bool]) -> None:
        try:
            deed(self._stage.runtime(process), self._stage.registry(process))
            done.append(True)
        except (Busy, Invalid, Unauthorised) as refusal:
            self._world.log(process.name, f"is told no: {type(refusal).__name__}")
            self._world.totals["operator: told no"] += 1
            done.append(False)
        except StoreUnavailable:
            self._world.log(process.name, "does not know what became of it")
        process.kill("exit")


def _in(registry: SqlRegistry, after: timedelta) -> datetime:
    return registry.schedules(TENANT, limit=1).now + after
