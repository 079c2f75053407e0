"""What is defined in one seed: agents and schedules of every kind and policy, near a day on which clocks change."""

import random  # noqa: TID251  # only its type: the world's is seeded
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.registry_plan import Wanted, want
from tests.simulation.faults import Knobs
from tests.simulation.runtime.blackouts import draw_blackout
from tests.simulation.runtime.oracle import transition
from tests.simulation.world import World

TENANT = "tenant"
SOURCE = "file"
# A day shortly before the clocks change: forward and back, by an hour and by half of one, at night and at midnight.
DAYS = (
    ("Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 31, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 2, tzinfo=UTC)),
    ("Africa/Casablanca", datetime(2026, 2, 14, tzinfo=UTC)),
    ("America/Havana", datetime(2026, 3, 7, tzinfo=UTC)),
    ("America/St_Johns", datetime(2026, 10, 31, tzinfo=UTC)),
    ("Asia/Beirut", datetime(2026, 3, 27, tzinfo=UTC)),
)
FAST = ("*/20 * * * * *", "0,30 * * * * *", "15 * * * * *", "* * * * *", "*/2 * * * *")
SLOW = (
    "*/5 * * * *",
    "*/10 * * * *",
    "*/15 0-5 * * *",
    "20,50 * * * *",
    "30 0-3 * * *",
    "*/20 */2 * * *",
    "7 1,2 * * *",
)


@dataclass(slots=True)
class Plot:
    """The settings of one seed that are about the runtime; `base` are those of leases and processes."""

    base: Knobs
    zone: str
    epoch_us: int
    rage_seconds: float
    poll_seconds: float
    reap_seconds: float
    drain_seconds: float
    stations: int
    slots: int
    batch_max: int
    led: bool  # whether schedulers wait for the lease that keeps all but one quiet
    gated: bool
    operator_every: float
    outage_seconds: float
    retention_seconds: float = 0.0  # nothing is pruned
    seals: bool = False
    tells: bool = False
    effects: float = 0.0  # how often an agent has an effect that is to be had once
    project: str = ""  # the resource of the directory in which blue works
    project_slots: int = 1
    once: float = 0.08  # how many schedules run once
    blackouts: float = 0.2  # how many schedules have some
    keyed: float = 0.25  # how many schedules share a concurrency key
    key_slots: int | None = None  # how many runs with the concurrency key may go at once
    lanes: bool = False  # whether green is called in a lane
    lane_batch: int = 1
    agent: str = ""  # of all schedules, if not of any
    overlap: str = ""  # likewise
    lane_starts: int = 0
    zombies: bool = False  # whether agents are left behind that go on writing
    kinds: list[str] = field(default_factory=list)
    wishes: list[str] = field(default_factory=list)  # what the operator does

    @property
    def is_exclusive(self) -> bool:
        """Whether all of blue's runs exclude one another, because they work in a project with one place."""
        return bool(self.project) and self.project_slots == 1

    @classmethod
    def draw(cls, world: World, profile: str | None = None, *, server: bool = False) -> "Plot":
        """Choose; each seed leaves most faults out, since faults that always come together hide one another."""
        rng = world.rng
        base = Knobs.draw(world, "anything", server=server)
        base.ttl_seconds = rng.choice((4.0, 20.0, 40.0, 80.0))
        base.port_fault = rng.choice((0.0, 0.01, 0.02, 0.05))
        base.echo, base.raise_fault, base.slow_renewals = 0.0, 0.0, rng.choice((0.0, 0.0, 0.2))
        base.worst = rng.choice((0.0, 0.1, 0.2))
        rage = rng.choice((18, 30)) * base.ttl_seconds
        zone, day = rng.choice(DAYS)
        before = rng.uniform(0.1, 0.9) * rage
        plot = cls(
            base=base,
            zone=zone,
            epoch_us=transition(zone, day) - int(before * 1e6),
            rage_seconds=rage,
            poll_seconds=base.ttl_seconds / rng.choice((0.4, 0.7, 1.2)),
            reap_seconds=base.ttl_seconds / rng.choice((1, 2, 4)),
            drain_seconds=base.ttl_seconds * rng.choice((0.2, 1.0, 3.0)),
            stations=rng.choice((2, 2, 3, 4)),
            slots=rng.choice((1, 2, 3)),
            batch_max=rng.choice((1, 2, 500)),
            led=world.chance(0.4),
            gated=world.chance(0.4),
            operator_every=base.ttl_seconds * rng.choice((1.0, 3.0, 8.0)),
            outage_seconds=rng.choice((300.0, 2400.0, 4 * 3600.0)),
        )
        plot.retention_seconds = rng.choice((0.0, 0.0, 4.0, 12.0)) * base.ttl_seconds
        plot.seals, plot.tells = world.chance(0.4), world.chance(0.4)
        plot.effects = rng.choice((0.0, 0.3, 0.8))
        plot.project, plot.project_slots = rng.choice(("", "project:scout")), rng.choice((1, 1, 2))
        plot.key_slots = rng.choice((None, 2, 2, 3))
        plot.lanes, plot.lane_batch = world.chance(0.4), rng.choice((1, 3, 10))
        plot.lane_starts = rng.choice((0, plot.lane_batch))
        plot.kinds = [kind for kind in _possible(many_hosts=base.many_hosts) if world.chance(0.35)]
        plot.wishes = [wish for wish in WISHES if world.chance(0.5)]
        if world.chance(0.12):
            plot._breed_zombies()
        if profile is not None:
            plot._follow(*profile.split(" | "))
        if "rewind" in plot.kinds and base.many_hosts and "clock" in plot.kinds:
            plot.kinds.remove("clock")  # a tail lost *and* a server's clock set back is beyond the promise
        return plot

    def _breed_zombies(self) -> None:
        """Leave agents behind that go on writing after somebody else took their run over."""
        self.gated, self.zombies, self.agent = True, True, "red"
        self.kinds, self.base.stubborn, self.base.port_fault = ["kill tree", "stop keepers"], 0.9, 0.0

    def _follow(self, kinds: str, wishes: str = "", settings: str = "") -> None:
        """Take a seed's kind of trouble from a profile: what strikes, what people do, and `name=value` for the rest."""
        self.kinds = kinds.split(", ")
        if wishes:
            self.wishes, self.operator_every = wishes.split(", "), self.base.ttl_seconds / 2
        for setting in settings.split():
            name, _, value = setting.partition("=")
            whose = self if hasattr(self, name) else self.base
            setattr(
                whose,
                name,
                value if name in ("project", "agent", "overlap") else float(value) if "." in value else int(value),
            )


WISHES = (
    *("edit", "pause", "halt", "skip", "run", "run agent", "tick again", "cancel", "replay", "backfill", "retire"),
    *("deliver", "resolve", "session"),
)
AGENTS = ("red", "blue", "green")
HOOK = "doorbell"
SECRET = "a secret of the hook"  # nobody else's


def _possible(*, many_hosts: bool) -> list[str]:
    common = ["kill station", "kill attempt", "kill guard", "kill tree", "kill agent", "stop station", "stop attempt"]
    return [
        *common,
        "stop keepers",
        "drain",
        "deploy",
        "outage",
        "sleep",
        "reboot",
        "clock",
        "rewind",
        *(["cut"] if many_hosts else []),
    ]


class Fleet:
    """Everything that is defined, and how it changes."""

    def __init__(self, world: World, plot: Plot, gate_of: dict[str, str]) -> None:
        self._rng = world.rng
        self._plot = plot
        self._gate_of = gate_of
        self.agents = {name: self._agent(name) for name in AGENTS}
        self.schedules = {
            name: self._schedule(name) for name in ("s1", "s2", "s3", "s4")[: world.rng.choice((2, 3, 4))]
        }
        self._retired: dict[str, ScheduleDefinition] = {}

    @property
    def gates(self) -> set[str]:
        """Where agents write."""
        return set(self._gate_of.values())

    def wanted(self) -> Wanted:
        """Spell it all."""
        hook = {"agent": "red", "scheme": "bearer", "secret": "env:HOOK"}
        return want(TENANT, SOURCE, agents=self.agents, schedules=self.schedules, hooks={HOOK: hook})

    def edit(self) -> None:
        """Change one thing."""
        rng = self._rng
        if rng.random() < 0.2:
            name = rng.choice(sorted(self.agents))
            self.agents[name] = replace(self._agent(name), gates=self.agents[name].gates)
            return
        name = rng.choice(sorted(self.schedules))
        old = self.schedules[name]
        fresh = self._schedule(name)
        fields = rng.choice(
            (
                ("cron", "every", "at"),
                ("missed", "grace"),
                ("overlap",),
                ("timezone",),
                ("enabled",),
                ("dst_gap", "dst_fold"),
                ("calendar",),
            )
        )
        changed = {field: getattr(fresh, field) for field in fields}
        if fields == ("timezone",):
            changed = {"timezone": rng.choice(("UTC", self._plot.zone, "Europe/London"))}
        if fields == ("enabled",):
            changed = {"enabled": not old.enabled}
        self.schedules[name] = replace(old, **changed)

    def retire(self) -> None:
        """Leave one out, or put one back that was left out."""
        if self._retired and self._rng.random() < 0.7:
            name = self._rng.choice(sorted(self._retired))
            self.schedules[name] = self._retired.pop(name)
        elif len(self.schedules) > 1:
            name = self._rng.choice(sorted(self.schedules))
            self._retired[name] = self.schedules.pop(name)

    def _agent(self, name: str) -> AgentDefinition:
        rng = self._rng
        gate = self._gate_of.get(name)
        lane = name == "green" and self._plot.lanes
        return AgentDefinition(
            name,
            engine="python" if lane else "command",
            function="jobs:do" if lane else "",
            in_process=lane,
            command=() if lane else ("work",),
            project="scout" if name == "blue" and self._plot.project else "",
            on_lost="restart" if self._plot.zombies else rng.choice(("triage", "resume", "restart")),
            max_attempts=rng.choice((1, 2, 3)),
            backoff=_seconds(rng.choice((0, 1, 3)) * self._plot.base.ttl_seconds / 4),
            timeout=_seconds(self._plot.base.ttl_seconds * (40 if self._plot.zombies else rng.choice((1.5, 40)))),
            queue_timeout=rng.choice(("1d", "1d", _seconds(6 * self._plot.base.ttl_seconds))),
            budget_usd=rng.choice(("", "1.00")),
            gates=(gate,) if gate else (),
        )

    def _schedule(self, name: str) -> ScheduleDefinition:
        rng, ttl = self._rng, self._plot.base.ttl_seconds
        kind = rng.choice(("cron", "cron", "cron", "every", "at"))
        fast = self._plot.rage_seconds < 900
        bounded = rng.random() < 0.25
        return ScheduleDefinition(
            name,
            agent=rng.choice(AGENTS) if not self._plot.agent else self._plot.agent,
            cron=self._cron(FAST if fast else (*SLOW, *FAST[3:])) if kind == "cron" else "",
            every=_seconds(ttl * rng.choice((0.5, 2, 5))) if kind == "every" else "",
            at=self._some_instant(rng) if kind == "at" else "",
            timezone=rng.choice((self._plot.zone, self._plot.zone, "UTC")),
            dst_gap=rng.choice(("skip", "shift")),
            dst_fold=rng.choice(("auto", "first", "last", "both")),
            missed=rng.choice(("skip", "coalesce", "replay")),
            grace=_seconds(rng.choice((0.5, 2, 6)) * ttl),
            catchup_window=rng.choice(("10m", "2h", "7d")),
            catchup_max=rng.choice((1, 3, 5)),
            stagger=_seconds(rng.choice((0, 0.3, 1)) * ttl),
            overlap=self._overlap(),
            queue_max=rng.choice((1, 2)),
            parallel_max=rng.choice((2, 3)),
            jitter=rng.choice(("", "", _seconds(ttl / 2))),
            priority=rng.choice((0, 0, 5)),
            concurrency_key=(key := "shared" if rng.random() < self._plot.keyed else ""),
            concurrency=self._plot.key_slots if key else None,
            once=rng.random() < self._plot.once,
            max_runs_per_hour=rng.choice((None, None, 3, 8)) if bounded else None,
            budget_usd_per_day=rng.choice(("", "5.00")) if bounded else "",
            pause_on_failure=rng.choice((None, None, None, 4)),
            calendar=self._calendar() if rng.random() < self._plot.blackouts else (),
        )

    def _overlap(self) -> str:
        drawn = self._rng.choice(("forbid", "forbid", "queue", "allow_parallel", "cancel_previous"))
        return self._plot.overlap or drawn

    def _calendar(self) -> tuple[str, ...]:
        plot = self._plot
        return (draw_blackout(self._rng, plot.zone, plot.epoch_us, plot.rage_seconds),)

    def _cron(self, choices: tuple[str, ...]) -> str | tuple[str, ...]:
        """Take one expression, or now and then two."""
        first, second = self._rng.choice(choices), self._rng.choice(choices)
        return (first, second) if self._rng.random() < 0.2 and first != second else first

    def _some_instant(self, rng: random.Random) -> str:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            microseconds=self._plot.epoch_us + rng.uniform(0.05, 1.0) * self._plot.rage_seconds * 1e6
        )
        return at.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def _seconds(seconds: float) -> str:
    return f"{int(seconds * 1000)}ms"
