"""What `up` says of a run that has ended: one calm line, whatever became of it."""

import json
import os
from contextlib import suppress
from datetime import UTC, datetime

import pytest

from fencepost.model.outcome import Settlement
from fencepost.model.run import Reason, RunState
from fencepost.ports.runs import Ended, LeasedRun, Report, RunRow
from fencepost.service.end_lines import COUNT_SECONDS, EndLine, LaneTelling, end_of
from fencepost.wiring.serving import say_end

EMPTY = RunRow(*[None] * len(RunRow._fields))  # type: ignore[arg-type]
LATER = datetime(2026, 11, 16, 4, 0, 10, tzinfo=UTC)


def run(run_id: str, schedule: str | None = None) -> RunRow:
    return EMPTY._replace(id=run_id, tenant="default", agent="sweep", schedule=schedule)


def ended(run_id: str, settlement: Settlement, report: Report) -> Ended:
    return Ended(LeasedRun(run(run_id), None, (), None), settlement, report)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settlement", "report", "told"),
    [
        (
            Settlement(RunState.SUCCEEDED),
            Report("succeeded", exit_code=0),
            EndLine("nightly r1 succeeded after 1m30s", "good"),
        ),
        (
            Settlement(RunState.READY, Reason.RETRY, ready_at=LATER),
            Report("failed", exit_code=3),
            EndLine("nightly r1 exit code 3 after 1m30s, again at 2026-11-16T04:00:10Z"),
        ),
        (
            Settlement(RunState.DEAD, Reason.EXIT_CODE),
            Report("failed", exit_code=3),
            EndLine("nightly r1 dead after 1m30s: exit code 3; see: fencepost show r1", "bad"),
        ),
        (
            Settlement(RunState.DEAD, Reason.TIMEOUT),
            Report("timedout", exit_code=143),
            EndLine("nightly r1 dead after 1m30s: timeout; see: fencepost show r1", "bad"),
        ),
        (
            Settlement(RunState.CANCELLED, Reason.CANCELLED),
            Report("stopped", exit_code=143),
            EndLine("nightly r1 cancelled after 1m30s: cancelled"),
        ),
    ],
)
def test_each_end_has_its_line(settlement: Settlement, report: Report, told: EndLine) -> None:
    said = end_of(run("r1", "nightly"), settlement, report, seconds=90.0)
    assert (said.text, said.tone) == (told.text, told.tone)
    assert dict(said.facts).items() >= {("run_id", "r1"), ("schedule", "nightly"), ("state", settlement.state.value)}


@pytest.mark.parametrize(("seconds", "said"), [(0.0312, "30ms"), (8.13, "8s"), (3724.9, "1h2m5s"), (-1.0, "0s")])
def test_how_long_it_took_is_said_as_exactly_as_anybody_wants_to_know(seconds: float, said: str) -> None:
    told = end_of(run("r1"), Settlement(RunState.SUCCEEDED), Report("succeeded"), seconds=seconds)
    assert told.text == f"sweep r1 succeeded after {said}"


def test_a_line_says_whose_run_it_was_where_that_is_not_the_tenant_of_all() -> None:
    theirs = run("r1", "nightly")._replace(tenant="acme")
    told = end_of(theirs, Settlement(RunState.SUCCEEDED), Report("succeeded"), seconds=2)
    assert told.text == "acme: nightly r1 succeeded after 2s"


def test_a_lane_counts_what_succeeds_and_names_what_does_not() -> None:
    said: list[str] = []
    now = [0]
    telling = LaneTelling(lambda told: said.append(told.text), lambda: now[0])
    fine, bad = Settlement(RunState.SUCCEEDED), Settlement(RunState.DEAD, Reason.EXIT_CODE)
    report = Report("succeeded", exit_code=0)

    telling.tell([ended(f"r{number}", fine, report) for number in range(3)], lost=["r2"])
    telling.tell([ended("r7", bad, Report("failed", exit_code=1))], lost=[])
    telling.count()
    assert said == ["sweep r7 dead: exit code 1; see: fencepost show r7"]

    now[0] = round(COUNT_SECONDS * 1e9)
    telling.count()
    telling.count(last=True)
    assert said[1:] == ["2 short runs succeeded"]


def test_a_machine_that_collects_logs_gets_the_facts_apart(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FENCEPOST_LOG_FORMAT", "json")
    with open(os.dup(2), "w") as errors:
        monkeypatch.setattr("sys.stderr", errors)
        say_end(end_of(run("r1"), Settlement(RunState.DEAD, Reason.EXIT_CODE), Report("failed", exit_code=3)))
    line = json.loads(capfd.readouterr().err)
    assert (line["level"], line["run_id"], line["state"], line["exit_code"]) == ("warning", "r1", "dead", 3)


def test_nobody_waits_for_a_reader_who_has_stopped_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with open(writer, "w") as pipe, open(reader, "rb") as rest:
        monkeypatch.setattr("sys.stderr", pipe)
        say_end(EndLine("nightly r1 succeeded"))
        assert os.read(reader, 100) == b"fencepost: nightly r1 succeeded\n"
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        say_end(EndLine("nightly r2 succeeded"))
        os.set_blocking(reader, False)
        assert b"r2" not in rest.read()
