"""`fencepost simulate`: no store needed, nothing changed, and a person can read it."""

import json
from pathlib import Path

import pytest

from fencepost.cli.main import main
from tests.support.desk import Desk

FILE = """
[fencepost]
timezone = "Europe/Berlin"

[agents.close]
command = ["false"]

[schedules.nightly]
agent = "close"
cron = "30 2 * * *"
missed = "coalesce"

[schedules.often]
agent = "close"
cron = "*/10 * * * *"
"""
SPAN = ("--from", "2027-03-20", "--until", "2027-04-03")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fencepost.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("FENCEPOST_CONFIG", "FENCEPOST_STORE", "FENCEPOST_TENANT"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main(["simulate", *words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_file_is_enough_and_nothing_is_left_behind(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nightly, often, total = rows(capsys, *SPAN)

    assert (nightly["owed"], nightly["runs"], nightly["skipped"]) == (14, 13, {"dst_gap": 1})
    assert often["owed"] == 14 * 144
    assert total["runs"] == 13 + 14 * 144 - 6
    assert [path.name for path in folder.iterdir()] == ["fencepost.toml"]


def test_the_page_tells_what_stands_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001  # it is there
    assert main(["simulate", *SPAN, "--outage", "2027-03-21..2027-03-22", "--duration", "often=12m"]) == 0
    said = capsys.readouterr().out

    assert said.splitlines()[0] == "13d23h from 2027-03-19T23:00:00Z, 2 workers, 1 outage, down for 1d in all"
    assert "nightly: a run takes 5m (assumed)" in said
    assert "often: a run takes 12m (--duration)" in said
    assert "2027-03-28: 02:30 does not exist: skipped" in said
    assert "1 run caught up on ticks that were missed" in said
    assert "overlaps prevented" in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_a_run_of_which_nothing_is_known_is_assumed_to_leave_room_for_the_next_tick(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "fencepost.toml").write_text(
        '[fencepost]\ntimezone = "UTC"\n[agents.a]\ncommand = ["true"]\ntimeout = "5m"\n'
        '[schedules.minutely]\nagent = "a"\ncron = "* * * * *"\n[schedules.daily]\nagent = "a"\ncron = "0 0 * * *"\n'
    )

    daily, minutely, _ = sorted(rows(capsys, "--for", "60d"), key=lambda row: str(row.get("schedule", "~")))

    assert minutely["run_seconds"] == 30
    assert (minutely["owed"], minutely["runs"]) == (60 * 1440, 60 * 1440)
    assert daily["run_seconds"] == 150, "half of its time-out"


def test_costs_are_summed_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    nightly, _, total = rows(capsys, *SPAN, "--cost", "nightly=0.30")

    assert nightly["spend_usd"] == "3.90"
    assert total["spend_usd"] == "3.90"


def test_a_seed_decides_the_crashes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001
    def crashes(seed: str) -> object:
        return rows(capsys, *SPAN, "--schedule", "nightly", "--crashes", "3", "--seed", seed)[-1]["outages"]

    assert crashes("1") == crashes("1") != crashes("2")


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--outage", "2027-03-21"), "is no stretch of time"),
        (("--outage", "2027-03-22..2027-03-21"), "ends before it begins"),
        (("--for", "3 weeks"), "7d is a week"),
        (("--until", "2027-01-01"), "swap them"),
        (("--for", "14d"), "--until or --for"),
        (("--duration", "nigthly=3m"), 'Did you mean "nightly"'),
        (("--duration", "0s"), "a run takes some time"),
        (("--cost", "cheap"), "is no amount"),
        (("--schedule", "weekly"), "there is no schedule"),
        (("--applied", "fencepost.toml"), "not both"),
    ],
)
def test_what_cannot_be_meant_is_explained(
    folder: Path,  # noqa: ARG001
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    hint: str,
) -> None:
    span = SPAN[:2] if words in (("--for", "3 weeks"), ("--until", "2027-01-01")) else SPAN
    assert main(["simulate", *span, *words]) == 2
    assert hint in capsys.readouterr().err


def test_what_is_applied_is_simulated_with_what_its_runs_have_needed(desk: Desk) -> None:
    desk.schedule("hourly", cron="0 * * * *", timezone="UTC")
    desk.clock.pass_time(3600)
    desk.tick()
    leased = desk.lease()
    desk.clock.pass_time(90)
    desk.settle(leased, cost_micro=20_000)
    (row, total) = desk.json("simulate", "--applied", "--from", "2027-03-20", "--for", "1d")

    assert (row["runs"], row["run_seconds"], row["run_seconds_from"]) == (24, 90.0, "median of 1 run")
    assert (row["spend_usd"], row["cost_usd_from"]) == ("0.48", "mean of 1 run")
    assert total["schedules"] == 1


def test_nothing_but_a_file_or_the_registry_can_be_simulated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FENCEPOST_CONFIG", raising=False)

    assert main(["simulate"]) == 2
    assert "fencepost init" in capsys.readouterr().err


def test_the_load_of_many_such_agents_is_reckoned(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "fencepost.toml").write_text(
        '[fencepost]\ntimezone = "UTC"\n[agents.a]\ncommand = ["true"]\n[schedules.often]\nagent = "a"\ncron = "*/10 * * * *"\n'
    )
    span = ("--from", "2027-01-01", "--for", "10d", "--duration", "5m")

    load = rows(capsys, *span, "--agents", "6000", "--workers", "30")[-1]["load"]
    assert main(["simulate", *span, "--agents", "6000", "--workers", "30"]) == 0
    said = capsys.readouterr().out

    assert isinstance(load, dict)
    assert (load["ticks_per_second"], load["runs_per_second"]) == (10, 10)
    assert load["agents_at_work"] == pytest.approx(3000, rel=0.01)
    assert load["renewals_per_second"] == pytest.approx(300, rel=0.01)
    assert load["renewing_per_second"] == 3, "each worker renews its hundred leases together, every ten seconds"
    assert load["connections"] == 31 * 4
    assert "what a PostgreSQL server has to do for 6000 such agents by 30 workers" in " ".join(said.split())
    assert "124 connections" in said
    assert all(len(line) <= 80 for line in said.splitlines())


def test_without_agents_no_load_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:  # noqa: ARG001  # it is there
    assert "load" not in rows(capsys, *SPAN)[-1]
