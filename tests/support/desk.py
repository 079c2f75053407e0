"""A store with a clock that the test moves, filled through its own verbs, and the real command line over it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fencepost import wiring
from fencepost.cli import main as door
from fencepost.flow.run_recheck import claim_for, recheck_for
from fencepost.flow.ticker import Ticker
from fencepost.host.identity import this_host
from fencepost.host.log_files import LogFile, log_path
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.instants import parse_instant, to_us
from fencepost.model.outcome import Settlement
from fencepost.model.process import ProcessId
from fencepost.model.registry_plan import want
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import LeasedRun, Report
from fencepost.stores.registry import SqlRegistry
from fencepost.wiring import state_folders
from tests.stores.rig import lay_down
from tests.support.clock import ManualClock
from tests.support.ground import Told
from tests.support.terminal import as_if_on_a_terminal

RUN_FIELDS = (
    "id",
    "tenant",
    "agent",
    "schedule",
    "schedule_version",
    "trigger",
    "tick",
    "state",
    "reason",
    "attempt",
    "fence",
    "resource",
    "project",
    "position",
    "ready_at",
    "started_at",
    "ended_at",
    "exit_code",
    "cost_usd",
    "summary",
)

# What stands below `schedule`, as commands of their own.
COMMANDS = {"schedule-ticks": "ticks_recorded", "schedule-backfill": "backfill"}


# ruff: noqa: ANN401  # the fields of a definition are of many kinds


class Clock(ManualClock):
    """Time that can be moved to an instant."""

    def __init__(self, start: str) -> None:
        super().__init__(to_us(parse_instant(start)))

    def go_to(self, instant: str) -> None:
        self.pass_time((to_us(parse_instant(instant)) - self.wall) / 1_000_000)


class Desk:
    """What a test about looking and acting works with."""

    def __init__(self, url: str, clock: Clock, capfd: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self.clock = clock
        self.store = wiring.open_runtime(url)
        self.logs = state_folders.log_folder()
        self._capfd = capfd
        self._ids = count(1)
        self._files: dict[str, Any] = {"agents": {}, "schedules": {}}

    def agent(self, name: str = "digest", **fields: Any) -> None:
        """Define an agent; it counts from the next apply on."""
        self._files["agents"][name] = AgentDefinition(name, command=("true",), **fields)

    def schedule(self, name: str = "nightly", *, agent: str = "digest", **fields: Any) -> None:
        """Define a schedule and its agent, and apply the file."""
        if agent not in self._files["agents"]:
            self.agent(agent)
        self._files["schedules"][name] = ScheduleDefinition(name, agent, **fields)
        self.apply()

    def forget(self, name: str) -> None:
        """Take a schedule out of the file, and apply."""
        del self._files["schedules"][name]
        self.apply()

    def apply(self) -> None:
        wanted = want("default", "/etc/fencepost.toml", **self._files)
        self.registry.apply(wanted, actor="ada")

    @property
    def registry(self) -> SqlRegistry:
        return SqlRegistry(self.store.dialect)

    def tick(self, at: str | None = None) -> None:
        """Let the scheduler look once, at an instant."""
        if at:
            self.clock.go_to(at)
        Ticker(self.store, self.new_id).step()

    def new_id(self) -> str:
        return f"r{next(self._ids):018d}"

    def lease(self, *, start: bool = True, pid: int = 4711, keeper: str | None = None) -> LeasedRun:
        """Let a worker take the next run; with a keeper its guard may outlive it."""
        leased = self.try_lease(start=start, pid=pid, keeper=keeper)
        assert leased is not None, "there is a run to lease"
        return leased

    def try_lease(self, *, start: bool = True, pid: int = 4711, keeper: str | None = None) -> LeasedRun | None:
        """Let a worker take the next run, if there is one for it."""
        supervisor = ProcessId(this_host(), pid, "1")
        leased = self.store.lease_run(
            lambda run: claim_for(
                run, lease_id=f"lease-{next(self._ids)}", supervisor=supervisor, ttl_seconds=30
            )._replace(keeper=keeper),
            recheck_for,
        )
        if leased is not None and start:
            self.store.start_run(leased)
        return leased

    def settle(
        self,
        leased: LeasedRun,
        state: RunState = RunState.SUCCEEDED,
        reason: Reason | None = None,
        *,
        ready_at: datetime | None = None,
        **report: Any,
    ) -> None:
        """Let the worker say how it ended."""
        settlement = Settlement(state, reason, ready_at=ready_at)
        self.store.settle(
            leased.lease, settlement, Report(outcome=report.pop("outcome", state.value), **report), clean=True
        )

    def log(self, leased: LeasedRun, text: str, *, limit: int = 10_000_000) -> LogFile:
        """Write what an attempt prints, on this machine."""
        file = LogFile(log_path(self.logs, leased.run.id, leased.lease.fence), limit)
        file.write(text.encode())
        return file

    def dead(self, *, exit_code: int = 3, last_log: str = "Traceback\nboom") -> str:
        """Let the next run fail for good, and return its id."""
        leased = self.lease()
        self.settle(leased, RunState.DEAD, Reason.EXIT_CODE, exit_code=exit_code, last_log=last_log)
        return leased.run.id

    def cli(self, *words: str) -> Told:
        """Run one command line in this process, on this store."""
        return self.cli_plain(*words, "--store", self.url)

    def cli_plain(self, *words: str) -> Told:
        """Run one command line in this process."""
        self._capfd.readouterr()
        try:
            code = door.main([*words])
        except SystemExit as end:  # argparse leaves this way
            code = int(end.code or 0)
        told = self._capfd.readouterr()
        return Told(code, told.out.encode(), told.err)

    def text(self, *words: str) -> str:
        """Run a command that shall succeed, look at its widths on a terminal, and return what it printed."""
        with as_if_on_a_terminal():
            told = self.cli(*words)
        assert told.code == 0, told
        out = told.out.decode()
        assert [line for line in out.splitlines() if len(line) > 80] == []
        assert "\033" not in out
        return out

    def flat(self, *words: str) -> str:
        """Return what a command printed with its line breaks taken out."""
        return " ".join(self.text(*words).split())

    def json(self, *words: str) -> list[dict[str, Any]]:
        told = self.cli(*words, "--json")
        assert told.code == 0, told
        return [json.loads(line) for line in told.out.splitlines()]


@contextmanager
def desk_at(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], *, start: str
) -> Iterator[Desk]:
    """Open a desk whose commands see the test's clock."""
    clock = Clock(start)
    monkeypatch.setattr("fencepost.host.clock.SystemClock", lambda: clock)
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    monkeypatch.setenv("HOME", str(folder))
    for name in ("FENCEPOST_STORE", "FENCEPOST_CONFIG", "FENCEPOST_SOCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    for name, module in COMMANDS.items():
        monkeypatch.setitem(door.COMMANDS, name, (module, ""))
    desk = Desk(url, clock, capfd)
    try:
        yield desk
    finally:
        desk.store.close()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator[Desk]:
    """A desk over SQLite; it is Friday noon, two days before clocks go ahead in Europe."""
    url = f"sqlite:{tmp_path}/state.db"
    lay_down(tmp_path / "state.db")
    with desk_at(url, tmp_path, monkeypatch, capfd, start="2026-03-27T12:00:00Z") as found:
        yield found
