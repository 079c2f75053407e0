"""Every noun has one shape: its record. The command line, HTTP, MCP and Python give the same fields, on a real store."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from fencepost import Fencepost, lease
from fencepost.app.run import Run
from fencepost.cli.main import main
from fencepost.mcp.caller import Counter, Seat
from fencepost.mcp.server import build
from fencepost.model.access import Role
from fencepost.model.definition import AgentDefinition
from fencepost.model.effect_ledger import EffectCall
from fencepost.model.lease import Granted
from fencepost.model.notice import Wish
from fencepost.operations.records import Record, as_json
from fencepost.operations.records.audit_record import AuditEntryRecord, AuditReportRecord
from fencepost.operations.records.key_record import KeyRecord, NewKeyRecord, NewLinkRecord
from fencepost.operations.records.lease_record import LeaseRecord
from fencepost.operations.records.ledger_record import LedgerEntryRecord
from fencepost.operations.records.notice_record import NoticeRecord
from fencepost.operations.records.plan_record import AgentChangeRecord, PlannedRecord, ScheduleChangeRecord
from fencepost.operations.records.preview_record import PreviewedTickRecord
from fencepost.operations.records.proof_record import ScheduleProofRecord
from fencepost.operations.records.run_record import (
    AttemptRecord,
    CommandRecord,
    DeadDetailRecord,
    DeadLetterRecord,
    GuardedCommandRecord,
    LiveRunRecord,
    RunDetailRecord,
    RunRecord,
)
from fencepost.operations.records.schedule_record import (
    AgentRecord,
    PauseRecord,
    ScheduleDetailRecord,
    ScheduleRecord,
    VersionRecord,
)
from fencepost.operations.records.tick_record import AnswerRecord, DecidedTickRecord
from fencepost.web.api.response_models import model_of
from tests.stores.rig import claim
from tests.support.runtime import DEAD
from tests.support.webdoor import WebDoor, asking

Found = dict[str, Any]
TOML = '[agents.sweep]\ncommand = ["true"]\n[schedules.hourly]\nagent = "sweep"\ncron = "0 * * * *"\ntimezone = "UTC"\n'


class Doors:
    """One store with something of every noun, and one way to ask at each door."""

    def __init__(self, web: WebDoor, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.runtime = web.runtime
        self.url = web.store.facts().url
        self.http = asking(web)
        self._capsys = capsys
        counter = Counter(lambda: Seat("default", Role.ADMIN, "test"), web.runtime.another, lambda: "m1", str(folder))
        self._mcp = build(counter, defines=True, commands=True)
        self.python = Fencepost(self.url)
        (folder / "fencepost.toml").write_text(TOML)
        self.file = str(folder / "fencepost.toml")
        self._fill()

    def _fill(self) -> None:
        self.runtime.store.notices().declare("default", "x", {Wish("chat", "dead")})
        self.runtime.apply(AgentDefinition("digest", command=("true",)))
        self.runtime.cron("nightly")
        for target in ("digest", "digest", "digest"):
            self.http("POST", "/runs", 202, json={"target": target})
        dead, self.leased = self.runtime.leased(start=True), self.runtime.leased(start=True)
        self.runtime.settle(dead, DEAD)
        self.dead = dead.run.id
        self.runtime.store.ledger().begin(self.leased.lease, EffectCall("k", "c", f"run:{self.leased.run.id}"))
        self.runtime.pass_time(60)
        self.runtime.tick()
        guarded = self.runtime.store.acquire(claim("lock:x", id="guarded-x", label="make x")._replace(is_command=True))
        assert isinstance(guarded, Granted)

    def cli(self, *argv: str) -> list[Found]:
        """Return what a command prints for scripts."""
        self._capsys.readouterr()
        main([*argv, "--json", "--store", self.url])
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def mcp(self, tool: str, **given: object) -> Found:
        """Return what a tool answers."""
        answer = asyncio.run(self._mcp.call_tool(tool, given))
        found = answer.structured_content  # type: ignore[union-attr]
        assert isinstance(found, dict)
        return found


@pytest.fixture
def doors(web: WebDoor, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doors:
    return Doors(web, tmp_path, capsys)


Asked = Callable[[Doors], Found]


def held_now(doors: Doors) -> Found:
    """Return a lease that is good by this machine's clock, which is the one that a command goes by."""
    with lease("one-shape", store=doors.url):
        return next(one for one in doors.cli("lease", "list") if one["resource"] == "lock:one-shape")


def paused_now(doors: Doors) -> Found:
    """Return a pause."""
    doors.cli("schedule", "pause", "nightly")
    return doors.cli("schedule", "history", "nightly")[-1]


def without(found: Found, *names: str) -> Found:
    """Return an answer without what one door adds to it."""
    return {key: value for key, value in found.items() if key not in names}


CLI: dict[type[Record], Asked] = {
    RunRecord: lambda at: next(one for one in at.cli("runs") if one["agent"]),
    GuardedCommandRecord: lambda at: next(one for one in at.cli("runs") if not one["agent"]),
    RunDetailRecord: lambda at: at.cli("show", at.dead)[0],
    AttemptRecord: lambda at: at.cli("show", at.dead)[0]["attempts"][0],
    LiveRunRecord: lambda at: at.cli("ps")[0],
    DeadLetterRecord: lambda at: at.cli("dead", "list")[0],
    DeadDetailRecord: lambda at: at.cli("dead", "show", at.dead)[0],
    ScheduleRecord: lambda at: at.cli("schedule", "list")[0],
    ScheduleDetailRecord: lambda at: at.cli("schedule", "show", "nightly")[0],
    VersionRecord: lambda at: at.cli("schedule", "history", "nightly")[0],
    PauseRecord: paused_now,
    DecidedTickRecord: lambda at: at.cli("schedule", "ticks", "nightly")[0],
    AnswerRecord: lambda at: at.cli("why", "nightly")[0],
    LeaseRecord: held_now,
    LedgerEntryRecord: lambda at: at.cli("ledger", "list")[0],
    AuditEntryRecord: lambda at: at.cli("audit", "list")[0],
    AuditReportRecord: lambda at: at.cli("audit", "verify")[0],
    KeyRecord: lambda at: at.cli("key", "list")[0],
    NewKeyRecord: lambda at: at.cli("key", "create", "ci")[0],
    NewLinkRecord: lambda at: at.cli("key", "link")[0],
    NoticeRecord: lambda at: at.cli("notice", "list")[0],
    ScheduleProofRecord: lambda at: at.cli("prove")[0],
}
HTTP: dict[type[Record], Asked] = {
    RunRecord: lambda at: next(one for one in at.http("GET", "/runs")["items"] if one["agent"]),
    GuardedCommandRecord: lambda at: at.http("GET", "/runs/run-of-guarded-x"),
    RunDetailRecord: lambda at: at.http("GET", f"/runs/{at.dead}"),
    AttemptRecord: lambda at: at.http("GET", f"/runs/{at.dead}")["attempts"][0],
    LiveRunRecord: lambda at: at.http("GET", "/ps")["items"][0],
    DeadLetterRecord: lambda at: at.http("GET", "/dead")["items"][0],
    ScheduleRecord: lambda at: at.http("GET", "/schedules")["items"][0],
    ScheduleDetailRecord: lambda at: at.http("GET", "/schedules/nightly"),
    AgentRecord: lambda at: at.http("GET", "/agents/digest"),
    VersionRecord: lambda at: at.http("GET", "/schedules/nightly/history")["versions"][0],
    PauseRecord: lambda at: at.http("POST", "/schedules/nightly/pause", json={"note": "x"}),
    DecidedTickRecord: lambda at: at.http("GET", "/schedules/nightly/ticks")["items"][0],
    PreviewedTickRecord: lambda at: at.http("GET", "/ticks", params={"schedule": "nightly"})["ticks"][0],
    AnswerRecord: lambda at: at.http("GET", "/schedules/nightly/why")["answers"][0],
    LeaseRecord: lambda at: at.http("GET", "/leases")["items"][0],
    LedgerEntryRecord: lambda at: at.http("GET", "/ledger")["items"][0],
    AuditEntryRecord: lambda at: at.http("GET", "/audit")["items"][0],
    AuditReportRecord: lambda at: at.http("GET", "/audit/verify"),
    KeyRecord: lambda at: at.http("GET", "/keys")["items"][0],
    NewKeyRecord: lambda at: at.http("POST", "/keys", 201, json={"name": "ci"}),
    NewLinkRecord: lambda at: at.http("POST", "/keys/link", 201, json={}),
    NoticeRecord: lambda at: at.http("GET", "/notices")["items"][0],
    ScheduleProofRecord: lambda at: at.http("GET", "/prove")["schedules"][0],
    PlannedRecord: lambda at: at.http("POST", "/plan", json={"definitions": TOML}),
}
MCP: dict[type[Record], Asked] = {
    RunRecord: lambda at: next(one for one in at.mcp("list_runs")["runs"] if one["agent"]),
    RunDetailRecord: lambda at: without(at.mcp("show_run", run=at.dead), "last_lines"),
    AttemptRecord: lambda at: at.mcp("show_run", run=at.dead)["attempts"][0],
    GuardedCommandRecord: lambda at: at.mcp("show_run", run="run-of-guarded-x"),
    LiveRunRecord: lambda at: at.mcp("queue")["waiting"][0],
    DeadLetterRecord: lambda at: at.mcp("list_dead")["dead"][0],
    DeadDetailRecord: lambda at: without(at.mcp("show_dead", run=at.dead), "last_lines"),
    ScheduleRecord: lambda at: at.mcp("list_schedules")["schedules"][0],
    ScheduleDetailRecord: lambda at: at.mcp("show_schedule", schedule="nightly"),
    AgentRecord: lambda at: at.mcp("list_agents")["agents"][0],
    PauseRecord: lambda at: at.mcp("pause", schedule="nightly")["pause"],
    AnswerRecord: lambda at: at.mcp("why", schedule="nightly")["answers"][0],
    PlannedRecord: lambda at: at.mcp("plan", definitions=TOML),
}
PYTHON: dict[type[Record], Asked] = {
    RunRecord: lambda at: without(as_json(at.python.runs()[0]), "earlier"),
}
CLI_ACTS: dict[type[Record], Asked] = {
    PauseRecord: lambda at: without(at.cli("schedule", "pause", "nightly")[0], "name", "paused_since"),
    AgentChangeRecord: lambda at: at.cli("apply", at.file)[0],
    ScheduleChangeRecord: lambda at: at.cli("apply", at.file)[-1],
}
HTTP_ACTS: dict[type[Record], Asked] = {
    PauseRecord: lambda at: at.http("POST", "/halt", json={}),
    AgentChangeRecord: lambda at: at.http("POST", "/apply", json={"definitions": TOML})["agents"][0],
    ScheduleChangeRecord: lambda at: at.http("POST", "/apply", json={"definitions": TOML})["schedules"][0],
}
DOORS: dict[str, dict[type[Record], Asked]] = {
    "cli": CLI,
    "http": HTTP,
    "mcp": MCP,
    "python": PYTHON,
    "cli-act": CLI_ACTS,
    "http-act": HTTP_ACTS,
    "cli-halt": {PauseRecord: lambda at: without(at.cli("halt")[0], "tenant", "halted_since")},
    "cli-plan": {ScheduleChangeRecord: lambda at: at.cli("plan", at.file)[-1]},
}
ASKED = [
    pytest.param(record, ask, id=f"{door}-{record.__name__}")
    for door, ways in DOORS.items()
    for record, ask in ways.items()
]


@pytest.mark.parametrize(("record", "ask"), ASKED)
def test_a_door_gives_a_noun_with_the_fields_of_its_record_and_their_types(
    doors: Doors, record: type[Record], ask: Asked
) -> None:
    found, shape = ask(doors), cast("Any", record)

    assert set(found) == set(record._fields)
    model_of(shape).model_validate(found)  # by type, too: the model is made of the record


def test_the_command_line_http_mcp_and_python_say_the_same_about_a_run(doors: Doors) -> None:
    said = [
        next(one for one in doors.cli("runs") if one["id"] == doors.dead),
        next(one for one in doors.http("GET", "/runs")["items"] if one["id"] == doors.dead),
        next(one for one in doors.mcp("list_runs")["runs"] if one["id"] == doors.dead),
        without(as_json(next(one for one in doors.python.runs() if one.id == doors.dead)), "earlier"),
    ]

    assert [one == said[0] for one in said] == [True] * 4


def test_a_command_has_every_field_of_a_run() -> None:
    assert set(RunRecord._fields) <= set(CommandRecord._fields)


def test_python_gives_instants_and_exact_dollars_and_no_way_to_change_them(doors: Doors) -> None:
    run = doors.python.show(doors.dead)

    assert isinstance(run, Run)
    assert isinstance(run.created_at, datetime)
    assert (run.ended, run.succeeded, run.earlier) == (True, False, False)
    assert run == doors.python.show(doors.dead)
    with pytest.raises(AttributeError, match="stays as it was"):
        run.state = "ready"  # type: ignore[misc]


def test_a_record_refuses_a_field_that_it_does_not_know_and_one_that_it_lacks() -> None:
    with pytest.raises(TypeError, match="until"):
        PauseRecord(since=None, note="", by="me")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="untill"):
        PauseRecord(since=None, until=None, untill=None, note="", by="me")  # type: ignore[call-arg]
