"""A store with a life behind it, and the web door before it as a browser reaches it: for tests and for pictures."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from fencepost.host.log_files import LogFile, log_path
from fencepost.model.access import Role
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.errors import Misconfigured
from fencepost.model.notice import Wish
from fencepost.model.outcome import Settlement
from fencepost.model.run import RunState
from fencepost.operations.run_requests import request_run
from fencepost.operations.schedule_registry import pause_schedule
from fencepost.operations.web_keys import Made, create_key, create_link
from fencepost.ports.runs import LeasedRun
from fencepost.web.app import create_app
from fencepost.web.door import Door
from fencepost.web.store_threads import StoreThreads
from tests.stores.rig import claim
from tests.support.runtime import DEAD, SUCCEEDED, TENANT, Runtime, new_id, new_ids

HOUR = 3600.0
BERLIN = "Europe/Berlin"
AGENTS = (
    AgentDefinition(
        "ledger-close",
        engine="claude",
        prompt="Close the month. Period: {period_start} to {period_end}",
        gates=("ledger-db",),
        gate_definitions={"ledger-db": {"kind": "sql", "url": "env:LEDGER_URL"}},
        budget_usd="5",
    ),
    AgentDefinition("digest", command=("python", "digest.py")),
    AgentDefinition("sweep", command=("python", "sweep.py"), writes=False, max_attempts=3),
    AgentDefinition("reviewer", engine="claude", prompt="Review the change.", budget_usd="2.50"),
)
SCHEDULES = (
    ScheduleDefinition("nightly-digest", "digest", cron="30 2 * * *", timezone=BERLIN),
    ScheduleDefinition("harbor-close-monthly", "ledger-close", cron="0 2 1 * *", timezone="America/New_York"),
    ScheduleDefinition("sweep-hourly", "sweep", cron="0 * * * *", timezone="UTC"),
    ScheduleDefinition(
        *("inbox-triage", "reviewer"),
        cron="*/20 10-18 * * *",
        timezone=BERLIN,
        overlap="queue",
        budget_usd_per_day="6",
        max_runs_per_hour=3,
    ),
    ScheduleDefinition("weekly-report", "digest", cron="0 8 * * 1", timezone=BERLIN, calendar=("2027-04-05",)),
)
LOG = """\
Reading the period 2027-03-27T01:30:00Z to 2027-03-28T01:30:00Z
\x1b[32m48 messages\x1b[0m, 6 threads worth a line
checkpoint: thread 4 of 6
"""


class Scene:
    """One store, one server, and what tests do with them."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.folder = folder
        self.logs = folder / "logs"
        self.begun: list[LeasedRun] = []
        self.secrets: dict[str, str] = {}
        self._socket = socket.create_server(("127.0.0.1", 0))
        port = self._socket.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self._desk = StoreThreads(runtime.another, threads=3)
        self._door = Door(
            self._desk,
            new_ids,
            str(self.logs),
            self._seconds,
            self._secret,
            runtime.another,
            is_leaving=self._is_leaving,
        )
        gate = create_app(self._door, hosts=frozenset({f"127.0.0.1:{port}"}))
        self._server = uvicorn.Server(uvicorn.Config(gate, log_config=None, lifespan="on", timeout_graceful_shutdown=3))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def _secret(self, reference: str, _: str) -> str:
        if reference not in self.secrets:
            raise Misconfigured(f"{reference} is not set here.")
        return self.secrets[reference]

    def start(self) -> None:
        """Serve, in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving, also those who still listen."""
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive(), "the server does not end"
        self._socket.close()

    def link(self, role: str = "admin", tenant: str = TENANT) -> str:
        """Return a link that lets one browser in."""
        made = create_link(self.runtime.store.keys(), tenant=tenant, by="scene", role=Role(role))
        return f"{self.address}/login?link={made.secret.text}"

    def key(self, name: str, role: str) -> Made:
        return create_key(self.runtime.store.keys(), tenant=TENANT, name=name, role=Role(role), by="ada")

    def write_log(self, leased: LeasedRun, text: str) -> LogFile:
        """Let an attempt print something."""
        log = LogFile(log_path(str(self.logs), leased.run.id, leased.lease.fence), 1_000_000)
        log.write(text.encode())
        return log

    def run(
        self,
        *,
        settlement: Settlement = SUCCEEDED,
        takes: float = 60.0,
        log: str = LOG,
        **report: Any,  # noqa: ANN401  # of the report
    ) -> LeasedRun:
        """Carry out the next run."""
        leased = self.runtime.leased(start=True)
        self.write_log(leased, log).close()
        self.runtime.pass_time(takes)
        self.runtime.settle(leased, settlement, last_log=log, **report)
        return leased

    def begin(self) -> LogFile:
        """Let the next run begin, and print."""
        leased = self.runtime.leased(start=True, ttl=2 * HOUR)
        self.begun.append(leased)
        return self.write_log(leased, LOG)

    def dead(self) -> list[str]:
        """Return the dead letters that are still open, newest first."""
        found = self.runtime.runs()[::-1]
        return [run.id for run in found if run.state == RunState.DEAD and run.discarded_us is None]

    def _seconds(self) -> int:
        return self.runtime.rig.now_us() // 1_000_000

    def _is_leaving(self) -> bool:
        return self._server.should_exit


def live_a_life(scene: Scene) -> None:
    """Let a day go by: ticks of every fate, dead letters, something that runs and somebody who waits."""
    runtime = scene.runtime
    runtime.apply(*AGENTS)
    runtime.store.notices().declare(TENANT, "test.toml", {Wish("chat", "dead"), Wish("pager", "dead")})
    runtime.go_to("2027-03-27T18:10")
    runtime.apply(*SCHEDULES)
    runtime.tick()
    for hour in range(19, 24):
        runtime.go_to(f"2027-03-27T{hour:02}:00")
        runtime.tick()
        if hour == 20:
            scene.run(takes=2 * HOUR + 600, exit_code=0, cost_micro=12_000, summary="swept 1,204 files")
        elif hour != 21:
            scene.run(takes=40 + hour, exit_code=0, cost_micro=8_000, summary="swept 312 files")
    pause_schedule(
        runtime.store.registry(),
        "weekly-report",
        tenant=TENANT,
        until=None,
        note="until the new layout is in",
        actor="ada",
    )
    _die(scene, "digest", LOG + "smtp: connection refused\n", 1)
    _tell(scene, {"chat": "", "pager": "503 Service Unavailable"})
    runtime.go_to("2027-03-28T01:00")
    runtime.tick()
    scene.run(takes=55, exit_code=0)
    runtime.go_to("2027-03-28T07:59:30")
    runtime.tick()
    _die(scene, "ledger-close", "Opening the month of March\nfencepost: ledger-db refused fence 1806220769999999\n", 77)
    runtime.go_to("2027-03-28T08:00")
    runtime.tick()
    for _ in range(2):
        scene.begin().close()
    runtime.go_to("2027-03-28T08:20:20")
    runtime.tick()
    runtime.store.acquire(claim("scheduler:default", ttl=30, label="fencepost up"))


def _tell(scene: Scene, answers: dict[str, str]) -> None:
    """Deliver what is on its way; a target that answers with something is given up on."""
    outbox = scene.runtime.store.notices()
    for one in outbox.claim(TENANT, "test.toml", tuple(answers), limit=8, hold_seconds=60):
        if answers[one.name]:
            outbox.failed(one, answers[one.name], again_in_seconds=None)
        else:
            outbox.sent(one)


def _die(scene: Scene, agent: str, log: str, code: int) -> None:
    request_run(scene.runtime.store, tenant=TENANT, target=agent, payload={"month": 3}, new_run_id=new_id, by="ada")
    scene.run(settlement=DEAD, takes=190, log=log, exit_code=code, cost_micro=412_000)


@contextmanager
def scene_on(runtime: Runtime, folder: Path) -> Iterator[Scene]:
    """Serve a store to a browser."""
    scene = Scene(runtime, folder)
    scene.start()
    try:
        yield scene
    finally:
        scene.stop()
