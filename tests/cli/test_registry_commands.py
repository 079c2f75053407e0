"""init, plan, apply, schedule, halt and unhalt as people and scripts meet them."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fencepost.cli import main as door
from tests.support.terminal import on_a_terminal

TOML = """\
[fencepost]
timezone = "America/New_York"

[agents.echo]
command = ["echo", "hi"]
on_lost = "restart"

[schedules.nightly]
agent = "echo"
cron = "30 2 * * *"
"""


class Answer(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str

    def objects(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


Command = Callable[..., Answer]


@pytest.fixture
def fencepost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in an empty folder with a state of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("USER", "ada")
    for name in ("FENCEPOST_STORE", "FENCEPOST_CONFIG", "FENCEPOST_TENANT", "FENCEPOST_RUN_ID", "TZ"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv: str) -> Answer:
        capsys.readouterr()
        try:
            code = door.main(list(argv))
        except SystemExit as end:  # argparse ends in this way
            code = int(str(end.code))
        said = capsys.readouterr()
        return Answer(code, said.out, said.err)

    return run


@pytest.fixture
def applied(fencepost: Command) -> Command:
    write(TOML)
    assert fencepost("apply").code == 0
    return fencepost


def write(text: str, name: str = "fencepost.toml") -> None:
    Path(name).write_text(text)


def test_init_writes_a_file_that_plan_and_apply_take_at_once(fencepost: Command) -> None:
    assert fencepost("init", "--yes").code == 0
    planned = fencepost("plan")
    assert planned.code == 0
    assert "+ schedule hello-every-minute: added, version 1" in planned.out
    assert planned.out.count("    next  ") == 3
    assert "warning" not in planned.out
    assert "2 added" in fencepost("apply").out


@pytest.mark.parametrize("command", ["init", "import"])
def test_what_is_written_for_a_person_can_be_applied_whatever_the_umask(fencepost: Command, command: str) -> None:
    write("0 9 * * * true\n", "crontab.txt")
    words = {
        "init": ["init", "--yes"],
        "import": ["import", "crontab", "--file", "crontab.txt", "--write", "fencepost.toml"],
    }[command]
    before = os.umask(0)
    try:
        assert fencepost(*words).code == 0
    finally:
        os.umask(before)
    assert Path("fencepost.toml").stat().st_mode & 0o777 == 0o644
    assert fencepost("apply").code == 0


def test_init_never_overwrites(fencepost: Command) -> None:
    write("# mine")
    refused = fencepost("init", "--yes")
    assert (refused.code, refused.out) == (2, "")
    assert Path("fencepost.toml").read_text() == "# mine"


def test_init_leaves_nothing_half_written_where_there_is_no_room(fencepost: Command) -> None:
    script = f"ulimit -f 0; exec {sys.executable} -m fencepost init --yes"
    told = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert told.returncode == 2, told
    assert "fencepost.toml cannot be written" in told.stderr
    assert fencepost("init", "--yes").code == 0


def test_init_takes_a_zone_and_refuses_a_wrong_one(fencepost: Command) -> None:
    assert "Did you mean" in fencepost("init", "--timezone", "Europe/Berln").err.replace("did", "Did")
    assert not Path("fencepost.toml").exists()
    fencepost("init", "--timezone", "Europe/Berlin")
    assert 'timezone = "Europe/Berlin"' in Path("fencepost.toml").read_text()


def test_plan_changes_nothing(fencepost: Command) -> None:
    write(TOML)
    assert "2 added" in fencepost("plan").out
    assert fencepost("schedule", "list", "--json").out == ""


def test_plan_says_field_by_field_what_changes(applied: Command) -> None:
    write(TOML.replace("30 2", "45 2").replace('"hi"', '"ho"'))
    planned = applied("plan")
    assert '~ agent echo: changed\n    command: ["echo", "hi"] -> ["echo", "ho"]' in planned.out
    assert '~ schedule nightly: changed, version 2\n    cron: "30 2 * * *" -> "45 2 * * *"' in planned.out
    found = {one["name"]: one for one in applied("plan", "--json").objects()}
    assert found["nightly"]["fields"] == [{"field": "cron", "old": "30 2 * * *", "new": "45 2 * * *"}]
    assert found["nightly"]["agent_changed"] is True
    assert len(found["nightly"]["next"]) == 3


def test_plan_tells_what_the_clock_change_does(fencepost: Command) -> None:
    write(TOML.replace("30 2 * * *", "30 2,4 * 3 SUN#2"))  # when clocks in New York jump from 02:00 to 03:00
    assert "skipped, 02:30 does not exist" in fencepost("plan").out


@pytest.mark.parametrize(
    ("extra", "part"),
    [
        ('overlap = "allow_parallel"\n', "do not fence one another"),
        ('missed = "coalesce"\n', "one late run covers all"),
        ('missed = "replay"\n', "up to 10 late runs"),
        ("queue_max = 3\n", 'queue_max has no effect under overlap = "forbid"'),
        ("parallel_max = 3\n", "parallel_max has no effect"),
        ('catchup_window = "1d"\n', 'no effect under missed = "skip"'),
        ("end = 2020-01-01T00:00:00Z\n", "no tick to come"),
    ],
)
def test_plan_warns_about_what_is_probably_not_meant(fencepost: Command, extra: str, part: str) -> None:
    write(TOML + extra)
    planned = fencepost("plan")
    assert planned.code == 0
    assert part in planned.out
    assert any(part in text for one in fencepost("plan", "--json").objects() for text in one["warnings"])


def test_a_hook_whose_agent_nobody_has_defined_is_warned_about_until_some_file_defines_it(fencepost: Command) -> None:
    one_store = '[fencepost]\nstore = "sqlite:one.db"\n'
    ours = TOML.replace("[fencepost]\n", one_store)
    write(ours + '[hooks.push]\nagent = "reviewer"\nscheme = "github"\nsecret = "env:SECRET"\n')
    words = 'hook push: there is no agent "reviewer"; until some file defines it, deliveries are refused.'
    assert f"! {words}" in fencepost("plan").out.splitlines()
    assert f"warning: {words}" in fencepost("apply").out.splitlines()

    write(one_store + '[agents.reviewer]\ncommand = ["true"]\n', "other.toml")
    assert fencepost("apply", "other.toml").code == 0
    assert words not in fencepost("plan").out


def test_a_project_that_is_not_here_is_named_once(fencepost: Command) -> None:
    write(TOML + '[projects.away]\npath = "no-such-folder"\n')
    line = next(line for line in fencepost("plan").out.splitlines() if line.startswith("!"))
    assert line == f"! project away: {Path.cwd()}/no-such-folder does not exist. A worker elsewhere must have it."


def test_plan_does_not_warn_about_an_agent_that_writes_nothing(fencepost: Command) -> None:
    text = TOML.replace("on_lost", "writes = false\non_lost") + 'overlap = "allow_parallel"\nmissed = "replay"\n'
    write(text)
    assert "warning" not in fencepost("plan").out


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ('cron = "30 2 * * *"', 'at = "2020-01-01T00:00:00Z"', "lies in the past"),
        ('cron = "30 2 * * *"', 'every = "15m"', "counted from the end of a run"),
        ('on_lost = "restart"', "", "ends its run as interrupted"),
        ('on_lost = "restart"', 'on_lost = "restart"\nenv = { API_KEY = "x" }', "looks like a secret"),
    ],
)
def test_plan_warns_about_more(fencepost: Command, old: str, new: str, part: str) -> None:
    write(TOML.replace(old, new))
    assert part in fencepost("plan").out


def test_on_a_terminal_what_is_long_is_folded_and_in_a_pipe_it_is_one_line(fencepost: Command, tmp_path: Path) -> None:
    write(TOML.replace('on_lost = "restart"\n', "") + '[projects.away]\npath = "/nowhere/at/all"\n')
    for command in ("plan", "apply"):
        piped = fencepost(command).out
        seen = on_a_terminal(command, cwd=tmp_path)

        assert any(len(line) > 100 for line in piped.splitlines()), command
        assert max(len(line) for line in seen.splitlines() if "fencepost.toml ->" not in line) <= 80, seen
        assert " ".join(seen.split()).count("as interrupted, for a person to look at;") == 1
        assert "project away: /nowhere/at/all does not exist" in " ".join(seen.split())
        assert "project away: project away" not in piped


def test_applying_twice_says_unchanged(applied: Command) -> None:
    assert applied("apply").out == "2 unchanged\n"


def test_a_bad_file_leaves_the_old_definitions_in_force(applied: Command) -> None:
    before = applied("schedule", "show", "nightly", "--json").objects()
    write(TOML.replace("30 2 * * *", "99 2 * * *"))
    refused = applied("apply")
    assert refused.code == 2
    assert "fencepost.toml:10:1: schedules.nightly.cron" in refused.err
    (after,) = applied("schedule", "show", "nightly", "--json").objects()
    assert after["version"] == before[0]["version"]


def test_show_says_how_much_of_a_budget_is_used(fencepost: Command) -> None:
    write(TOML + 'budget_usd_per_day = 5\nmax_runs_per_hour = 2\nmax_time_per_day = "1h30m"\n')
    fencepost("apply")
    shown = fencepost("schedule", "show", "nightly").out
    (fields,) = fencepost("schedule", "show", "nightly", "--json").objects()

    assert "$0.00 of $5.00 of this day; 0 of 2 runs within the last hour; 0s of 1h30m of this day" in shown
    assert {one["limit"]: one["allowed"] for one in fields["budget"]} == {
        "budget_usd_per_day": 5.0,
        "max_runs_per_hour": 2,
        "max_time_per_day": 5400.0,
    }


def test_an_unknown_agent_is_told_with_its_line(fencepost: Command) -> None:
    write(TOML.replace('agent = "echo"', 'agent = "ecoh"'))
    refused = fencepost("apply")
    assert refused.code == 2
    assert 'fencepost.toml:9:1: schedule "nightly" runs the unknown agent "ecoh"; did you mean "echo"?' in refused.err
    assert fencepost("plan").code == 2


def test_two_files_of_one_store_conflict_until_one_takes_over(applied: Command, tmp_path: Path) -> None:
    store = f"sqlite:{tmp_path}/shared.db"
    write(TOML + "grace = '2m'\n", "other.toml")
    assert applied("apply", "--store", store).code == 0
    refused = applied("apply", "other.toml", "--store", store)
    assert refused.code == 2
    assert "fencepost.toml" in refused.err
    assert "other.toml" in refused.err
    taken = applied("apply", "other.toml", "--store", store, "--take-over")
    assert "> agent echo: moved" in taken.out
    assert "~ schedule nightly: changed, version 2" in taken.out


def test_the_same_file_in_two_places_is_one_and_an_old_copy_of_it_is_not_applied(
    applied: Command, tmp_path: Path
) -> None:
    store = f"sqlite:{tmp_path}/shared.db"
    named = TOML.replace("[fencepost]", '[fencepost]\nname = "site"')
    write(named)
    write(named, "copy.toml")
    assert applied("apply", "--store", store).code == 0
    assert "2 unchanged" in applied("apply", "copy.toml", "--store", store).out
    write(named + "grace = '2m'\n")
    assert applied("apply", "--store", store).code == 0

    for command in ("plan", "apply"):
        refused = applied(command, "copy.toml", "--store", store)
        assert refused.code == 2
        assert "a later version has replaced it" in " ".join((refused.out + refused.err).split())
    assert applied("plan", "copy.toml", "--store", store, "--rollback").code == 0
    assert "changed, version 3" in applied("apply", "copy.toml", "--store", store, "--rollback").out


def test_the_list_fits_a_terminal_and_scripts(applied: Command) -> None:
    write(TOML + '\n[schedules.a-name-that-is-much-too-long-for-a-table]\nagent = "echo"\nevery = "15m"\n')
    applied("apply")
    listed = on_a_terminal("schedule", "list").splitlines()
    assert all(len(line) <= 80 for line in listed)
    assert listed[0].split() == ["NAME", "STATE", "NEXT", "CURSOR", "WHEN"]
    assert "a-name-that-is-much-too-long-for-a-table" in applied("schedule", "list").out
    objects = applied("schedule", "list", "--json").objects()
    assert [one["name"] for one in objects] == ["a-name-that-is-much-too-long-for-a-table", "nightly"]
    assert objects[1]["state"] == "active"
    assert objects[1]["next_at"].endswith("Z")
    assert objects[1]["cursor_age_seconds"] >= 0
    assert len(applied("schedule", "list", "--json", "--limit", "1").objects()) == 1


TENANT_COMMANDS = [
    ["runs"], ["ps"], ["queue"], ["dead", "list"], ["schedule", "list"], ["lease", "list"], ["ledger", "list"],
    ["audit", "list"], ["key", "list"], ["key", "link"], ["notice", "list"], ["prove"], ["halt"], ["dst-check"],
]  # fmt: skip


@pytest.mark.parametrize("words", TENANT_COMMANDS, ids=" ".join)
def test_a_tenant_that_is_not_there_is_said(applied: Command, words: list[str]) -> None:
    unknown = applied(*words, "--tenant", "nosuch")
    assert (unknown.code, unknown.out) == (2, "")
    assert 'holds nothing of a tenant "nosuch". There are: default.' in unknown.err
    assert 'Did you mean "default"?' in applied(*words, "--tenant", "defualt").err
    assert applied(*words, "--tenant", "*").code == 2


@pytest.mark.parametrize("words", [["apply"], ["plan"], ["key", "create", "ci"], ["key", "link"]], ids=" ".join)
def test_nothing_is_made_for_a_tenant_that_cannot_exist(applied: Command, words: list[str]) -> None:
    refused = applied(*words, "--tenant", "*")
    assert (refused.code, refused.out) == (2, "")
    assert "'*' is no name: a-z, 0-9, dot, dash and underscore" in refused.err


def test_a_tenant_begins_with_its_first_key_or_apply(applied: Command) -> None:
    assert applied("key", "create", "ci", "--tenant", "acme").code == 0
    assert applied("runs", "--tenant", "acme").out == "no runs\n"
    assert applied("apply", "--tenant", "harbor").code == 0
    assert applied("schedule", "list", "--tenant", "harbor").code == 0


def test_what_runs_once_has_one_next_tick(fencepost: Command) -> None:
    write(TOML.replace('cron = "30 2 * * *"', 'cron = "30 2 * * *"\nonce = true'))
    (line,) = [line for line in fencepost("plan").out.splitlines() if line.startswith("    next  ")]
    assert line.endswith("once")
    (planned,) = [one for one in fencepost("plan", "--json").objects() if one["what"] == "schedule"]
    assert len(planned["next"]) == 1
    fencepost("apply")
    assert len(fencepost("ticks", "nightly", "--json").objects()) == 1


def test_pause_and_resume_are_seen_and_leave_the_next_tick(applied: Command) -> None:
    (before,) = applied("schedule", "list", "--json").objects()
    assert "until it is resumed" in applied("schedule", "pause", "nightly", "--note", "moving house").out
    (paused,) = applied("schedule", "list", "--json").objects()
    assert (paused["state"], paused["pause_note"]) == ("paused", "moving house")
    assert paused["next_at"] == before["next_at"]
    assert applied("schedule", "resume", "nightly").code == 0
    assert applied("schedule", "resume", "nightly").err == "fencepost: nightly is not paused.\n"
    history = applied("schedule", "history", "nightly", "--json").objects()
    assert [one["kind"] for one in history] == ["version", "pause"]
    assert history[1]["by"].startswith("ada@")


def test_a_pause_takes_an_instant_or_a_duration(applied: Command) -> None:
    assert (
        "until 2100-01-01T00:00:00Z" in applied("schedule", "pause", "nightly", "--until", "2100-01-01T00:00:00Z").out
    )
    assert applied("schedule", "pause", "nightly", "--until", "2h").code == 0
    wall = applied("schedule", "pause", "nightly", "--until", "2100-01-01T00:00")
    assert "until 2100-01-01T05:00:00Z" in wall.out, "midnight in New York, where the schedule is"
    assert "not in the future" in applied("schedule", "pause", "nightly", "--until", "2020-01-01T00:00:00Z").err
    assert "is no wall time" in applied("schedule", "pause", "nightly", "--until", "tomorrow").err


def test_skip_next_says_which_ticks(applied: Command) -> None:
    (skips,) = applied("schedule", "skip-next", "nightly", "2", "--json").objects()
    assert len(skips["skips"]) == 2
    (shown,) = applied("schedule", "show", "nightly", "--json").objects()
    assert shown["skip_next"] == 2
    assert applied("schedule", "skip-next", "nightly", "0").out == "nightly skips nothing.\n"
    assert applied("schedule", "skip-next", "nightly", "5000").code == 2


def test_an_unknown_name_is_refused_with_a_suggestion(applied: Command) -> None:
    for verb in ("show", "pause", "resume", "skip-next", "history"):
        refused = applied("schedule", verb, "nigthly")
        assert refused.code == 2
        assert refused.err == 'fencepost: there is no schedule "nigthly". Did you mean "nightly"?\n'


def test_a_retired_schedule_is_shown_and_not_paused(applied: Command) -> None:
    write(TOML.partition("[schedules")[0])
    applied("apply")
    (shown,) = applied("schedule", "show", "nightly", "--json").objects()
    assert shown["state"] == "retired"
    assert "was retired at" in applied("schedule", "pause", "nightly").err
    lines = applied("schedule", "show", "nightly").out.splitlines()
    assert [line for line in lines if line.startswith("next")] == [], "no tick of it is to come"


def test_halt_stops_everything_until_unhalt(applied: Command) -> None:
    assert applied("halt", "--note", "stop").code == 0
    (listed,) = applied("schedule", "list", "--json").objects()
    assert (listed["state"], listed["pause_note"]) == ("halted", "stop")
    applied("schedule", "pause", "nightly")
    assert "everything is halted" in applied("schedule", "resume", "nightly").out
    assert applied("unhalt").code == 0
    assert "nothing is halted" in applied("unhalt").err


def test_a_tenant_sees_only_its_own(applied: Command) -> None:
    assert applied("key", "create", "ci", "--tenant", "other").code == 0
    assert applied("schedule", "list", "--json", "--tenant", "other").out == ""
    assert applied("schedule", "show", "nightly", "--tenant", "other").code == 2


def test_what_a_run_asks_for_is_recorded_under_its_name(applied: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_RUN_ID", "r-1")
    applied("schedule", "pause", "nightly")
    assert applied("schedule", "history", "nightly", "--json").objects()[1]["by"] == "run:r-1"


def test_without_a_file_the_way_to_one_is_told(fencepost: Command) -> None:
    assert "fencepost init" in fencepost("apply").err
    assert "none.toml is not a file" in fencepost("apply", "none.toml").err


def test_pyproject_is_found_upwards(fencepost: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TOML.replace("[fencepost]", "[tool.fencepost]")
    write(
        text.replace("[agents", "[tool.fencepost.agents").replace("[sched", "[tool.fencepost.sched"), "pyproject.toml"
    )
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    assert "2 added" in fencepost("apply").out


def test_exec_pays_for_none_of_this() -> None:
    program = "import sys; from fencepost.cli import exec; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    dear = {"argparse", "fencepost.config.load", "fencepost.model.registry_plan", "fencepost.model.definition"}
    assert not dear.intersection(loaded)


@pytest.mark.parametrize("words", [("--ttl", "5"), ("--workers", "100000"), ("--drain-timeout", "soon")])
def test_up_with_a_bad_option_applies_nothing(fencepost: Command, words: tuple[str, str]) -> None:
    write(TOML)
    answer = fencepost("up", "--no-web", *words)
    assert answer.code == 2
    assert "applied" not in answer.err
    assert fencepost("schedule", "list", "--json").objects() == []


def test_a_missing_file_is_reported_with_what_may_have_named_it(
    fencepost: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_CONFIG", "other.toml")  # the option wins, and sets it
    answer = fencepost("up", "--no-web", "--config", "nope.toml")
    assert answer.code == 2
    assert "nope.toml is not a file; --config or FENCEPOST_CONFIG names it" in answer.err
