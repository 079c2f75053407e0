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
