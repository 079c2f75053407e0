"""`fencepost store …` as a person types it."""

import json
import subprocess
import sys
from pathlib import Path
from random import Random  # noqa: TID251  # seeded

import pytest

from fencepost import wiring
from fencepost.cli import store as door
from fencepost.cli.main import main
from tests.stores.rig import claim
from tests.stores.test_audit_packs import entry, seal, write


@pytest.fixture(autouse=True)
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:{tmp_path}/state.db"
    monkeypatch.setenv("FENCEPOST_STORE", url)
    return url


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["store", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_migrate_says_from_where_to_where_and_may_be_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "migrate", "--json")
    first = json.loads(out)
    assert (code, first["from"]) == (0, 0)
    assert first["to"] >= 1

    _, out, _ = run(capsys, "migrate", "--json")
    assert json.loads(out) == {"from": first["to"], "to": first["to"]}
    _, out, _ = run(capsys, "migrate")
    assert out == f"the store already has schema {first['to']}.\n"


def test_backup_and_restore_say_what_they_did_and_what_is_lost(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, url: str
) -> None:
    wiring.open_store(url).acquire(claim("lock:a"))
    file = str(tmp_path / "backup")
    code, out, _ = run(capsys, "backup", file)
    assert code == 0
    assert file in out

    code, _, err = run(capsys, "restore", file)
    assert code == 2
    assert "--yes" in err
    code, out, _ = run(capsys, "restore", file, "--yes")
    assert code == 0
    assert "every lease is void" in out
    assert "What happened between" in out
    code, out, _ = run(capsys, "restore", file, "--yes", "--json")
    assert set(json.loads(out)) == {"store", "tenant", "rows", "floor", "lost_from", "lost_until", "lost_seals"}


def test_bump_prints_the_new_floor(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "migrate")
    code, out, _ = run(capsys, "bump", "--to", str(4 * 10**15), "--json")

    assert code == 0
    assert json.loads(out) == {"floor": 4 * 10**15}
    code, out, _ = run(capsys, "bump")
    assert out == f"every fence from now on is above {4 * 10**15}.\n"


def test_compact_packs_the_audit_and_tells_before_what_it_would_pack(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    store = wiring.open_runtime(url)
    _, out, _ = run(capsys, "compact")
    assert out == "there is nothing to pack yet.\n"
    write(store, [entry(Random(n), "default") for n in range(2_500)])
    seal(store)
    store.close()

    assert run(capsys, "compact", "--dry-run")[:2] == (0, "would pack 1500 entries of the audit and move 0 runs.\n")
    assert run(capsys, "compact")[:2] == (0, "packed 1000 entries of the audit and moved 0 runs.\n")
    assert json.loads(run(capsys, "compact", "--json")[1]) == {"dry_run": False, "entries": 0, "runs": 0}


def test_bump_makes_no_store_at_a_mistyped_path(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = run(capsys, "bump", "--store", f"sqlite:{tmp_path}/sate.db")

    assert (code, out) == (69, "")
    assert "sate.db" in err
    assert not (tmp_path / "sate.db").exists()


def test_a_backup_that_is_none_is_a_sentence_and_exit_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello")
    code, out, err = run(capsys, "restore", str(tmp_path / "notes"))

    assert (code, out) == (2, "")
    assert err.startswith("fencepost: ")


def test_a_store_that_is_not_there_is_a_sentence_and_exit_69(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "bump", "--store", "postgresql://postgres@127.0.0.1:1/none")

    assert code == 69
    assert "no server listens there" in err


def test_help_has_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        door.main(["--help"])

    assert end.value.code == 0
    assert "examples:" in capsys.readouterr().out


def test_leasing_never_pays_for_psycopg_or_the_store_s_keeper() -> None:
    """`exec` starts from crontabs: what only PostgreSQL and backups need is not loaded for SQLite."""
    script = """
import sys
from fencepost.stores.sqlite.store import Opening
heavy = {"psycopg", "dataclasses", "logging", "pathlib", "subprocess", "datetime", "hashlib", "argparse"}
heavy |= {"fencepost.stores.maintenance", "fencepost.stores.backup", "fencepost.stores.postgres", "fencepost.stores.sqlite.tables"}
print(sorted(heavy & set(sys.modules)))
"""
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
