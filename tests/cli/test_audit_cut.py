"""What a machine remembers of the audit outside of the store: an end that was cut off is seen, said and never sealed over."""

import json
import os
from pathlib import Path

import pytest

from fencepost import wiring
from fencepost.service.chores import sealing
from fencepost.wiring import audit_sealing
from tests.support.desk import Desk


def decide(desk: Desk, name: str) -> None:
    """Leave an entry in the audit."""
    desk.schedule(name, cron="0 * * * *", timezone="UTC")


def seal(desk: Desk) -> list[str]:
    """Do what `up` does every few seconds, started anew; return what it says."""
    key = audit_sealing.audit_key(create=True)
    assert key is not None
    said: list[str] = []
    chore = sealing(key, lambda _: None, audit_sealing.kept_seals, said.append)
    for _ in range(3):
        chore.step(desk.store)
    return said


def tamper(desk: Desk, *statements: str) -> None:
    for statement in statements:
        desk.store.dialect.write(lambda tx, text=statement: tx.tables()._connection.execute(text))  # type: ignore[misc]


def cut(desk: Desk) -> None:
    """Take all seals and an entry away, as somebody with access to the database can, and let `up` go on."""
    for name in ("one", "two", "three"):
        decide(desk, name)
        assert seal(desk) == []
    tamper(desk, "DELETE FROM seal", "DELETE FROM audit WHERE seq = 2", "UPDATE audit SET place = NULL, hash = NULL")


def test_up_says_once_that_the_end_was_cut_off_and_seals_no_more(desk: Desk) -> None:
    cut(desk)

    (said,) = seal(desk)

    assert said.startswith("warning: seal 3 of the audit of tenant default is remembered on this machine")
    assert "fencepost audit accept" in said
    told = desk.cli("audit", "verify")
    assert told.code == 1
    assert b"completeness: seal 3: the end was cut off" in told.out
    told = desk.cli("doctor", "--json")
    rows = {row["check"]: row for row in map(json.loads, told.out.splitlines())}
    assert (told.code, rows["audit"]["status"]) == (1, "fail")


def test_another_store_id_does_not_make_the_machine_forget(desk: Desk) -> None:
    cut(desk)
    tamper(desk, "UPDATE meta SET value = 'another' WHERE key = 'store_id'")

    assert len(seal(desk)) == 1
    assert desk.cli("audit", "verify").code == 1


def test_a_person_accepts_a_loss_with_a_reason_and_the_chain_goes_on(desk: Desk) -> None:
    cut(desk)
    assert desk.cli("audit", "accept").code == 2, "a reason is asked for"

    assert "goes on after seal 0; seal 3 is lost" in desk.text("audit", "accept", "--note", "the disk died")

    assert seal(desk) == []
    told = desk.text("audit", "verify")
    assert "good:" in told
    assert "the disk died" in told, "what was accepted stays said"
    (row,) = desk.json("audit", "list", "--verb", "audit_accept")
    assert "the disk died" in json.dumps(row)
    told_again = desk.cli("audit", "accept", "--note", "once more")
    assert (told_again.code, "nothing to accept" in told_again.err) == (2, True)


def test_a_restore_goes_on_and_says_which_seals_are_lost(desk: Desk, tmp_path: Path) -> None:
    decide(desk, "one")
    seal(desk)
    file = str(tmp_path / "monday.backup")
    assert desk.cli("store", "backup", file).code == 0
    decide(desk, "two")
    seal(desk)

    told = desk.cli("store", "restore", file, "--yes")

    assert told.code == 0
    assert b"The audit of tenant default goes on after seal 1; seals up to 2" in told.out
    desk.store.close()
    desk.store = wiring.open_runtime(desk.url)
    assert seal(desk) == []
    assert "accepted by" in desk.text("audit", "verify")


def test_a_restore_that_loses_no_seal_says_nothing_of_it(desk: Desk, tmp_path: Path) -> None:
    decide(desk, "one")
    seal(desk)
    file = str(tmp_path / "monday.backup")
    desk.cli("store", "backup", file)

    assert b"seal" not in desk.cli("store", "restore", file, "--yes").out


def test_what_is_remembered_is_this_users_alone_and_must_be_readable(desk: Desk) -> None:
    decide(desk, "one")
    seal(desk)
    folder = Path(os.environ["XDG_STATE_HOME"], "fencepost", "audit-seals")
    (file,) = folder.glob("*/*.seal")
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    file.write_text("nonsense")

    told = desk.cli("audit", "verify")

    assert (told.code, str(file) in told.err) == (78, True)


@pytest.mark.parametrize("words", [("accept", "--note", "x"), ("verify",)])
def test_a_machine_that_remembers_nothing_has_nothing_to_compare(desk: Desk, words: tuple[str, ...]) -> None:
    decide(desk, "one")

    told = desk.cli("audit", *words)

    assert told.code == (2 if words[0] == "accept" else 0)
