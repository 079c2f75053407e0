"""`fencepost doctor`: one line for each check, and what to do."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.host.identity import this_host
from fencepost.model.lease import Claim, Granted
from fencepost.model.process import ProcessId
from fencepost.model.run import Reason, RunState
from fencepost.operations import open_transactions
from fencepost.stores.sqlite.dialect import SqliteTransaction
from tests.support.desk import Desk


def found(desk: Desk, check: str) -> tuple[str, str]:
    told = desk.cli("doctor", "--json")
    rows = [json.loads(line) for line in told.out.splitlines()]
    return next((row["status"], row["message"]) for row in rows if row["check"] == check)


def test_a_fresh_machine_passes(desk: Desk) -> None:
    text = desk.text("doctor")

    assert "ok    store: sqlite:" in text
    assert "\nfail" not in text


def test_overdue_schedules_are_a_failure_with_the_command_that_helps(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    assert found(desk, "scheduler") == ("warn", "1 schedule, none overdue yet, but no scheduler drives them")
    lead = Claim("l", "default", ("scheduler:default",), "r", 30, ProcessId(this_host(), 1, "1"))
    assert isinstance(desk.store.acquire(lead), Granted)
    assert found(desk, "scheduler") == ("ok", "1 schedule, none overdue")
    desk.clock.go_to("2026-03-27T15:00:00Z")

    told = desk.cli("doctor")

    assert told.code == 1
    assert "fail  scheduler: overdue: 1 of 1 schedule, the oldest was due 2h ago" in told.out.decode()
    assert "→ start it: fencepost up" in told.out.decode()


def test_a_run_without_a_lease_is_noticed(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    leased = desk.lease()
    assert found(desk, "runs")[0] == "ok"
    desk.clock.pass_time(31)

    assert found(desk, "runs") == (
        "warn",
        f"1 run marked running although their lease is not held, such as {leased.run.id}",
    )


def test_what_is_on_record_is_counted_once(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting takes the longer the more runs have ended; what is not sealed yet need not be counted at all."""
    asked: list[str] = []
    real = SqliteTransaction.rows

    def noting(self: SqliteTransaction, name: str, /, **values: object) -> list[tuple[object, ...]]:
        asked.append(name)
        return real(self, name, **values)

    monkeypatch.setattr(SqliteTransaction, "rows", noting)

    assert desk.cli("doctor").code == 0
    assert (asked.count("look_health"), asked.count("loose_count")) == (1, 0)


def test_dead_letters_are_counted(desk: Desk) -> None:
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.tick("2026-03-27T13:00:01Z")
    desk.settle(desk.lease(), RunState.DEAD, Reason.EXIT_CODE, exit_code=1)

    assert found(desk, "dead letters") == ("warn", "1 wait for a person")


def test_a_store_that_does_not_answer_hides_no_other_check(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("this is no database, although it is long enough to be one " * 20)

    desk.url = f"sqlite:{tmp_path}/no.db"
    told = desk.cli("doctor")

    assert told.code == 1
    assert "fail  store:" in told.out.decode()
    assert "ok    sqlite:" in told.out.decode()


def test_a_broken_configuration_is_a_failure(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "fencepost.toml").write_text("[fencepost\n")

    status, message = found(desk, "config")

    assert status == "fail"
    assert "fencepost.toml" in message


def test_a_synced_state_folder_is_a_failure(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "Dropbox" / "state"))
    os.makedirs(tmp_path / "Dropbox")

    assert found(desk, "sync")[0] == "fail"


def test_a_state_folder_that_others_may_read_is_a_warning(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "state" / "fencepost"
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)

    assert found(desk, "state")[0] == "warn"


READER = """
import sys, apsw
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
connection.execute("BEGIN")
connection.execute("SELECT count(*) FROM run").fetchall()
print(flush=True)
sys.stdin.read()
"""


def test_whoever_keeps_the_write_ahead_log_from_being_cleared_is_named(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F48, F60 on SQLite: the size alone is no alarm, nor is a reader who lets go."""
    monkeypatch.setattr(open_transactions, "LOG_BIG_BYTES", 200_000)
    path = desk.url.removeprefix("sqlite:")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdout
    assert reader.stdout.readline() == "\n"
    for turn in range(60):
        desk.registry.halt("default", note="x" * 2000, actor=str(turn))
        desk.registry.unhalt("default", actor="test")

    status, message = found(desk, "transactions")
    assert (status, f"1 process {reader.pid} kept a read open" in message) == ("warn", True), message

    reader.communicate("")
    status, message = found(desk, "transactions")
    assert (status, "no program keeps a read open" in message) == ("ok", True), message


def test_a_log_of_usual_size_is_no_matter(desk: Desk) -> None:
    assert found(desk, "transactions") == ("ok", "the write-ahead log has 0 MB")
