"""Every guarded command leaves a row: `runs`, `why LOCK` and the figures tell of what `exec` ran, on both stores."""

import json
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost import wiring
from fencepost.model.lease import Granted
from fencepost.stores import guarded_commands
from fencepost.stores.metering import SqlMetering
from tests.stores.rig import claim
from tests.support.desk import RUN_FIELDS
from tests.support.ground import Ground, until

HOLDER = ["sh", "-c", "echo up > up; until [ -e enough ]; do sleep 0.02; done"]
TTL = ("--ttl", "3s")


def rows(ground: Ground, *words: str) -> list[dict[str, Any]]:
    told = ground.run("runs", "--json", "--store", ground.store_url, *words)
    assert told.code == 0, told
    return [json.loads(line) for line in told.out.splitlines()]


def why(ground: Ground, *words: str) -> str:
    told = ground.run("why", *words, "--store", ground.store_url)
    assert told.code == 0, told
    return " ".join(told.out.decode().split())


def counted(ground: Ground) -> dict[str, int]:
    store = wiring.open_runtime(ground.store_url)
    try:
        return dict(SqlMetering(store.dialect).figures("default").commands)
    finally:
        store.close()


@pytest.mark.parametrize(("line", "state", "code"), [("exit 0", "succeeded", 0), ("exit 3", "failed", 3)])
def test_a_command_leaves_one_row_with_its_end(any_ground: Ground, line: str, state: str, code: int) -> None:
    any_ground.run("exec", "--lock", "digest", "--", "sh", "-c", line)
    (row,) = rows(any_ground)
    assert row.keys() >= set(RUN_FIELDS)
    assert (row["state"], row["exit_code"], row["resource"]) == (state, code, "lock:digest")
    assert (row["trigger"], row["refused"]) == ("exec", 0)
    assert row["fence"] > 0
    assert row["started_at"] <= row["ended_at"]
    assert counted(any_ground) == {state: 1}
    table = any_ground.run("runs", "--store", any_ground.store_url).out.decode()
    assert row["id"] in table
    assert ("exit code 3" in table) == (code == 3)


def test_rows_are_chosen_as_runs_are(ground: Ground) -> None:
    ground.run("exec", "--lock", "a", "--", "true")
    ground.run("exec", "--lock", "b", "--", "false")
    assert [row["resource"] for row in rows(ground)] == ["lock:b", "lock:a"]
    assert [row["resource"] for row in rows(ground, "--limit", "1")] == ["lock:b"]
    assert [row["resource"] for row in rows(ground, "--state", "succeeded")] == ["lock:a"]
    assert [row["resource"] for row in rows(ground, "--state", "dead")] == ["lock:b"]
    assert rows(ground, "--state", "ready") == rows(ground, "--since", "2100-01-01T00:00:00Z") == []


def test_those_who_came_in_vain_are_counted_with_the_one_in_their_way(any_ground: Ground) -> None:
    holder = any_ground.start("exec", "--lock", "digest", "--", *HOLDER)
    any_ground.wait_for("up")
    for _ in range(2):
        assert any_ground.run("exec", "--lock", "digest", "--", "true").code == 75
    assert any_ground.run("exec", "--lock", "another", "--", "true").code == 0
    (row,) = (row for row in rows(any_ground) if row["resource"] == "lock:digest")
    assert (row["state"], row["refused"], row["ended_at"]) == ("running", 2, None)
    assert "is still running. Meanwhile 2 other commands came in vain" in why(any_ground, "digest")
    Path(any_ground.path("enough")).touch()
    assert any_ground.told(holder).code == 0
    assert counted(any_ground) == {"refused": 2, "succeeded": 2}


def test_one_that_waits_has_not_come_in_vain(any_ground: Ground) -> None:
    holder = any_ground.start("exec", "--lock", "digest", "--", *HOLDER)
    any_ground.wait_for("up")
    waiting = any_ground.start("exec", "--lock", "digest", "--wait", "--", "true")
    until(lambda: any_ground.run("lease", "list", "--json").code == 0, "it has come")
    Path(any_ground.path("enough")).touch()
    assert (any_ground.told(holder).code, any_ground.told(waiting).code) == (0, 0)
    assert [(row["state"], row["refused"]) for row in rows(any_ground)] == [("succeeded", 0)] * 2


def test_one_that_was_killed_is_lost_and_its_successor_counts_it(any_ground: Ground) -> None:
    holder = any_ground.start("exec", "--lock", "digest", *TTL, "--", *HOLDER)
    any_ground.wait_for("up")
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert any_ground.run("exec", "--lock", "digest", "--wait", *TTL, "--", "true").code == 0
    assert [row["state"] for row in rows(any_ground)] == ["succeeded", "lost"]
    assert counted(any_ground) == {"lost": 1, "succeeded": 1}


def test_one_whose_lease_was_broken_is_lost_before_anybody_succeeds_it(any_ground: Ground) -> None:
    holder = any_ground.start("exec", "--lock", "digest", *TTL, "--", *HOLDER)
    any_ground.wait_for("up")
    assert any_ground.run("lease", "break", "lock:digest").code == 0
    assert any_ground.told(holder).code == 76
    (row,) = rows(any_ground)
    assert (row["state"], row["reason"]) == ("lost", "lost")
    assert "Its lease was lost" in why(any_ground, "lock:digest")
    assert counted(any_ground) == {"lost": 1}


def test_one_that_never_started_leaves_no_row(ground: Ground) -> None:
    told = ground.run("exec", "--lock", "digest", "--gate", "file:/no/such/folder/file", "--", "true")
    assert told.code not in (0, 75), told
    assert rows(ground) == []
    assert counted(ground) == {}


def test_why_tells_of_a_lock_at_an_instant(ground: Ground) -> None:
    ground.run("exec", "--lock", "digest", "--", "sh", "-c", "exit 4")
    (row,) = rows(ground)
    assert f"run {row['id']} with fence {row['fence']}" in why(ground, "digest")
    assert "It failed with exit code 4" in why(ground, "lock:digest")
    early = why(ground, "digest", "--at", "2020-01-01T00:00:00Z")
    assert "Nothing ran under lock:digest at 2020-01-01T00:00:00Z. The one after it" in early
    late = why(ground, "digest", "--at", "2100-01-01T00:00:00Z")
    assert "The command before that under lock:digest" in late
    told = ground.run("why", "nobody", "--store", ground.store_url)
    assert told.code == 2
    assert "nobody" in told.err


def test_why_tells_how_far_the_ticks_of_a_crontab_line_are(any_ground: Ground) -> None:
    ticking = ("exec", "--tick", "* * * * *", "--timezone", "UTC", "--lock", "digest", "--", "true")
    assert any_ground.run(*ticking).code in (0, 75)
    assert "Ticks of digest (* * * * *, UTC): the newest one dealt with is" in why(any_ground, "digest")


def test_rows_that_are_too_old_are_cleared_away_by_later_ones(
    any_ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    for lock in ("a", "b"):
        any_ground.run("exec", "--lock", lock, "--", "true")
    monkeypatch.setattr(guarded_commands, "KEPT_US", -1_000_000)
    monkeypatch.setattr(guarded_commands, "FORGET_EVERY", 1)
    with closing(any_ground.store()) as store:
        answer = store.acquire(claim("lock:c")._replace(is_command=True))
        assert isinstance(answer, Granted)
        assert [row["resource"] for row in rows(any_ground)] == ["lock:c"], "the one that runs stays"
        store.release(answer.lease, clean=True, code=0)


def shown(ground: Ground, run: str) -> tuple[str, dict[str, Any]]:
    """Return how `show` tells of a command, to people and to scripts."""
    told, as_json = (ground.run("show", run, *words, "--store", ground.store_url) for words in ((), ("--json",)))
    assert (told.code, as_json.code) == (0, 0), (told, as_json)
    return " ".join(told.out.decode().split()), json.loads(as_json.out)


@pytest.mark.parametrize(
    ("line", "words"),
    [("exit 0", "state succeeded after"), ("exit 3", "state failed after"), ("exit 3", "exit code 3")],
)
def test_a_command_is_shown_as_a_run_is(any_ground: Ground, line: str, words: str) -> None:
    any_ground.run("exec", "--lock", "digest", "--", "sh", "-c", line)
    (row,) = rows(any_ground)
    told, fields = shown(any_ground, row["id"])
    assert words in told
    assert "under lock:digest" in told
    assert f"fence {row['fence']}" in told
    assert fields == row
    assert shown(any_ground, row["id"][:-1])[1] == row, "the beginning of its id is enough"


def test_one_that_runs_and_one_that_waits_for_its_project_are_shown_by_the_ids_that_ps_has(ground: Ground) -> None:
    holder = ground.start("exec", "--project", ".", "--", *HOLDER)
    ground.wait_for("up")
    waiting = ground.start("exec", "--project", ".", "--wait", "--", "true")

    def live() -> list[dict[str, Any]]:
        told = ground.run("ps", "--json", "--store", ground.store_url).out
        return [json.loads(one) for one in told.splitlines()]

    until(lambda: len(live()) == 2, "both are there")
    inside, in_line = live()
    assert "state running for" in shown(ground, inside["id"])[0]
    told, fields = shown(ground, in_line["id"])
    assert f"queued · position 1 · behind {inside['id']}" in told
    assert (fields["state"], fields["position"]) == ("ready", 1)
    Path(ground.path("enough")).touch()
    assert (ground.told(holder).code, ground.told(waiting).code) == (0, 0)
    assert shown(ground, in_line["id"])[1]["state"] == "succeeded", "from then on it has a row"


def test_a_beginning_that_several_have_is_refused_with_their_names(ground: Ground) -> None:
    for _ in range(2):
        ground.run("exec", "--lock", "digest", "--", "true")
    first, second = sorted(row["id"] for row in rows(ground))
    told = ground.run("show", first[:2], "--store", ground.store_url)
    assert told.code == 2
    assert first in told.err
    assert second in told.err
    assert "there is no run" in ground.run("show", "nosuch", "--store", ground.store_url).err


def test_a_folder_with_a_configuration_tells_of_the_machines_own_commands_too(ground: Ground) -> None:
    ground.run("exec", "--lock", "digest", "--", "false")
    (row,) = rows(ground)
    project = ground.folder / "project"
    project.mkdir()
    (project / "fencepost.toml").write_text(f'[fencepost]\nstore = "sqlite:{project}/own.db"\n')
    assert ground.run("store", "migrate", cwd=project).code == 0

    def told(*words: str) -> str:
        answer = ground.run(*words, cwd=project)
        assert answer.code == 0, answer
        return answer.out.decode()

    table = told("runs")
    assert table.startswith(f"no runs\n\nof commands without a configuration, in {ground.store_url}:\n")
    assert row["id"] in table
    assert "exit code 1" in table
    assert json.loads(told("runs", "--json", "--state", "dead")) == row
    assert json.loads(told("show", row["id"], "--json")) == row
    for words in (
        ["--state", "succeeded"],
        ["--since", "2100-01-01T00:00:00Z"],
        ["--store", f"sqlite:{project}/own.db"],
    ):
        assert told("runs", *words) == "no runs\n"
    assert "there is no run" in ground.run("show", "nosuch", cwd=project).err
