"""`fencepost audit verify` and `export`: integrity and completeness, told apart, by exit code and in words."""

import json
import os
from pathlib import Path

import pytest

from fencepost.flow.notary import Notary
from fencepost.model.audit_chain import Seal, head_line
from fencepost.stores.audit import SqlAudit
from fencepost.wiring import audit_sealing
from tests.support.desk import Desk


def decide(desk: Desk) -> None:
    """Leave two entries in the audit."""
    desk.schedule(cron="0 * * * *", timezone="UTC")
    desk.schedule("other", cron="0 * * * *", timezone="UTC")


def seal(desk: Desk) -> list[Seal]:
    """Do what `up` does every few seconds, with this machine's own key."""
    key = audit_sealing.audit_key(create=True)
    assert key is not None
    heads: list[Seal] = []
    Notary(SqlAudit(desk.store.dialect), key, desk.clock.wall_us, heads.append, batch=2).step()
    return heads


def test_an_audit_that_is_whole_verifies(desk: Desk) -> None:
    decide(desk)
    seal(desk)

    assert "good: 2 entries in 1 seal, unchanged and without a gap" in desk.text("audit", "verify")
    (found,) = desk.json("audit", "verify")
    assert (found["good"], found["integrity"], found["completeness"]) == (True, "good", "good")
    assert (found["first_fault"], found["unsealed"]) == (None, 0)


def test_a_changed_entry_is_named_and_the_exit_code_is_1(desk: Desk) -> None:
    decide(desk)
    seal(desk)
    desk.store.dialect.write(
        lambda tx: tx.tables()._connection.execute("UPDATE audit SET actor = 'eve' WHERE seq = 2")  # type: ignore[attr-defined]
    )

    told = desk.cli("audit", "verify")
    assert told.code == 1
    assert b"integrity: entry 2: the entry at place 2 was changed (apply" in told.out
    found = json.loads(desk.cli("audit", "verify", "--json").out)
    assert (found["integrity"], found["completeness"], found["good"]) == ("bad", "good", False)


def test_a_head_kept_elsewhere_shows_that_the_end_was_cut_off(desk: Desk, tmp_path: Path) -> None:
    decide(desk)
    seal(desk)
    kept = tmp_path / "heads.jsonl"
    kept.write_bytes(desk.cli("audit", "export", "--head").out)
    assert "1 exported head compared" in desk.text("audit", "verify", "--heads", str(kept))

    desk.store.dialect.write(lambda tx: tx.tables()._connection.execute("DELETE FROM seal"))  # type: ignore[attr-defined]
    desk.store.dialect.write(lambda tx: tx.tables()._connection.execute("DELETE FROM audit"))  # type: ignore[attr-defined]

    assert desk.cli("audit", "verify").code == 0  # an empty chain has nothing wrong in it
    told = desk.cli("audit", "verify", "--heads", str(kept))
    assert told.code == 1
    assert b"the end was cut off" in told.out


def test_an_entry_that_was_changed_does_not_hide_that_the_end_was_cut_off(desk: Desk, tmp_path: Path) -> None:
    decide(desk)
    seal(desk)
    desk.schedule("third", cron="0 * * * *", timezone="UTC")
    (head,) = seal(desk)
    kept = tmp_path / "heads.jsonl"
    kept.write_text(head_line(head))
    for statement in (
        "UPDATE audit SET actor = 'eve' WHERE seq = 1",
        "DELETE FROM seal WHERE number = 2",
        "DELETE FROM audit WHERE place > 2",
    ):
        desk.store.dialect.write(lambda tx, text=statement: tx.tables()._connection.execute(text))  # type: ignore[misc]

    told = desk.cli("audit", "verify", "--heads", str(kept))
    assert told.code == 1
    assert b"integrity: entry 1: the entry at place 1 was changed" in told.out
    assert b"completeness: seal 2: the end was cut off" in told.out
    found = json.loads(desk.cli("audit", "verify", "--heads", str(kept), "--json").out)
    assert (found["integrity"], found["completeness"]) == ("bad", "bad")
    assert [one["where"] for one in found["faults"]] == ["entry 1", "seal 2"]


def test_an_export_is_json_lines(desk: Desk) -> None:
    decide(desk)
    (head,) = seal(desk)

    lines = desk.cli("audit", "export").out.decode().splitlines()
    assert [json.loads(line)["audit"]["verb"] for line in lines[:2]] == ["apply", "apply"]
    assert lines[2] == head_line(head)


def test_nothing_sealed_yet_is_said(desk: Desk) -> None:
    told = desk.cli("audit", "export", "--head")
    assert told.code == 2
    assert "nothing is sealed yet" in told.err


def test_seals_by_a_key_that_is_not_here_are_not_called_good(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    decide(desk)
    seal(desk)
    path = Path(os.environ["XDG_STATE_HOME"], "fencepost", "audit.key")
    monkeypatch.setenv("OLD_KEY", path.read_text())
    path.unlink()

    told = desk.cli("audit", "verify")
    assert told.code == 1
    assert b"cannot be checked without it; add --key" in told.out
    assert desk.cli("audit", "verify", "--key", "env:OLD_KEY").code == 0


def test_a_key_that_others_may_read_is_refused(desk: Desk) -> None:
    decide(desk)
    seal(desk)
    Path(os.environ["XDG_STATE_HOME"], "fencepost", "audit.key").chmod(0o644)

    told = desk.cli("audit", "verify")
    assert told.code == 78
    assert "chmod 600" in told.err


@pytest.mark.parametrize("reference", ["nonsense", "env:", "env:NOT_SET", "file:/nowhere"])
def test_a_key_that_is_none_is_refused(desk: Desk, reference: str) -> None:
    assert desk.cli("audit", "verify", "--key", reference).code == 78


def test_heads_that_are_none_are_refused(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "heads").write_text("hello\n")
    told = desk.cli("audit", "verify", "--heads", str(tmp_path / "heads"))
    assert (told.code, "line 1 is no exported head" in told.err) == (2, True)
    assert desk.cli("audit", "verify", "--heads", str(tmp_path / "missing")).code == 2
