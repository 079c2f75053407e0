"""A slip of the pen in a store's path: nobody is shown a new store in which nothing ever happened."""

from pathlib import Path

import pytest

from fencepost.cli.main import main
from tests.support.ground import Ground

LOOKING = [
    ["ps"],
    ["queue"],
    ["runs"],
    ["show", "r1"],
    ["why", "nightly"],
    ["prove"],
    ["dst-check"],
    ["schedule", "list"],
    ["schedule", "pause", "nightly"],
    ["halt"],
    ["dead", "list"],
    ["lease", "list"],
    ["ledger", "list"],
    ["audit", "list"],
    ["key", "list"],
    ["run", "nightly"],
    ["cancel", "r1"],
    ["store", "bump"],
    ["store", "prune"],
    ["mcp"],
    ["mcp", "--http", "0"],
    ["web", "--port", "0"],
]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("FENCEPOST_STORE", "FENCEPOST_CONFIG", "FENCEPOST_TENANT", "FENCEPOST_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_a_command_that_looks_or_acts_refuses_a_file_that_is_not_there(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--store", f"sqlite:{tmp_path}/typo.db"]) == 69

    said = capsys.readouterr().err
    assert f"there is no store at {tmp_path}/typo.db, which --store names" in said
    assert "fencepost apply" in said
    assert list(tmp_path.iterdir()) == []


def test_the_variable_is_named_where_it_is_the_one_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FENCEPOST_STORE", f"sqlite:{tmp_path}/typo.db")

    assert main(["ps"]) == 69
    assert "which FENCEPOST_STORE names" in capsys.readouterr().err


def test_doctor_calls_it_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--store", f"sqlite:{tmp_path}/typo.db"]) == 1
    assert "there is no store at" in capsys.readouterr().out
    assert not (tmp_path / "typo.db").exists()


def test_a_key_may_be_made_before_anything_else(tmp_path: Path) -> None:
    assert main(["key", "create", "ci", "--store", f"sqlite:{tmp_path}/new.db"]) == 0
    assert main(["key", "list", "--store", f"sqlite:{tmp_path}/new.db"]) == 0


def test_an_empty_ledger_says_whose_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["store", "migrate", "--store", f"sqlite:{tmp_path}/new.db"])
    main(["ledger", "list", "--store", f"sqlite:{tmp_path}/new.db"])

    assert f"the ledger of sqlite:{tmp_path}/new.db has no entries" in capsys.readouterr().out


def test_a_plan_makes_no_store_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "fencepost.toml").write_text('[agents.a]\ncommand = ["true"]\n')

    assert main(["plan", "--store", f"sqlite:{tmp_path}/typo.db"]) == 0
    said = capsys.readouterr().out
    assert f"sqlite:{tmp_path}/typo.db (new), tenant default" in said
    assert "+ agent a: added" in said
    assert [one.name for one in tmp_path.iterdir()] == ["fencepost.toml"]


def test_commands_go_to_the_users_store_and_bare_exec_does_not(ground: Ground) -> None:
    folder = Path(ground.path(".config/fencepost"))
    folder.mkdir(parents=True)
    (folder / "fencepost.toml").write_text('[fencepost]\nstore = "sqlite:mine.db"\n')

    assert ground.run("exec", "--lock", "z", "--", "true").code == 0
    assert not (folder / "mine.db").exists()
    assert str(folder / "mine.db") in ground.run("lease", "list").out.decode()
