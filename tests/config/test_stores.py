"""Where a tenant is kept: one store each, by the configuration's map; who names two is told so."""

import os
from pathlib import Path

import pytest

from fencepost.config.load import load
from fencepost.config.problems import InvalidConfig
from fencepost.model.errors import Misconfigured
from fencepost.wiring import store_choice
from tests.support.site import Site

MAP = """[fencepost]
store = "sqlite:main.db"
timezone = "UTC"
[fencepost.stores]
finance = "sqlite:finance.db"
[agents.a]
command = ["true"]
[schedules.s]
agent = "a"
cron = "* * * * *"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("FENCEPOST_STORE", "FENCEPOST_TENANT", "FENCEPOST_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fencepost.toml").write_text(MAP)
    return tmp_path


def test_a_tenant_is_kept_where_the_map_says_and_all_others_in_the_store(folder: Path) -> None:
    assert store_choice.store_url(None, "finance") == f"sqlite:{folder}/finance.db"
    assert store_choice.store_url(None, "ops") == store_choice.store_url(None) == f"sqlite:{folder}/main.db"


def test_whoever_names_the_tenant_for_all_commands_means_its_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_TENANT", "finance")
    assert store_choice.store_url(None) == f"sqlite:{folder}/finance.db"


def test_a_user_without_a_configuration_may_have_a_map_too(folder: Path) -> None:
    settings = folder / "settings" / "fencepost"
    settings.mkdir(parents=True)
    os.rename(folder / "fencepost.toml", settings / "fencepost.toml")
    assert store_choice.store_url(None, "finance") == f"sqlite:{settings}/finance.db"
    assert store_choice.store_url(None, "ops") == f"sqlite:{settings}/main.db"


@pytest.mark.parametrize("how", ["--store", "FENCEPOST_STORE"])
def test_definitions_go_to_no_second_store_of_their_tenant(
    folder: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    config = load(str(folder / "fencepost.toml"))
    named = "sqlite:/elsewhere.db"
    if how == "FENCEPOST_STORE":
        monkeypatch.setenv(how, named)
    explicit = named if how == "--store" else None
    with pytest.raises(Misconfigured, match=f"keeps tenant finance in .*finance.db, and {how} names another store"):
        store_choice.store_of_config(explicit, config, "finance")
    assert store_choice.store_of_config(explicit, config, "ops") == named


@pytest.mark.parametrize("wrong", ['finance = "mysql://db"', "finance = 3", '"Fin ance" = "sqlite:a.db"'])
def test_a_map_that_cannot_be_right_is_refused(folder: Path, wrong: str) -> None:
    text = MAP.replace('finance = "sqlite:finance.db"', wrong)
    (folder / "fencepost.toml").write_text(text)
    with pytest.raises(InvalidConfig):
        load(str(folder / "fencepost.toml"))


def test_every_door_goes_to_the_tenants_own_store(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "fencepost.toml").write_text(MAP)
    site.fencepost("apply")
    site.fencepost("apply", "--tenant", "finance")
    run_id = site.fencepost("run", "a", "--tenant", "finance").split()[-1]
    assert {one["id"] for one in site.rows("ps", "--tenant", "finance")} == {run_id}
    assert site.rows("ps") == []
    assert (tmp_path / "finance.db").exists()
    assert run_id in site.fencepost("runs", "--tenant", "finance")
    for words in (("schedule", "show", "s"), ("key", "list"), ("audit",), ("dead", "list"), ("prove",), ("why", "s")):
        site.fencepost(*words, "--tenant", "finance", code=None)
    assert {path.name for path in tmp_path.rglob("*.db")} == {"main.db", "finance.db"}

    moved = ("store", "backup", "finance.backup", "--tenant", "finance", "--move")
    assert "Tenant finance has left" in site.fencepost(*moved)
    assert "of tenant finance; its leases are void" in site.fencepost(
        "store", "restore", "finance.backup", "--store", f"sqlite:{tmp_path}/main.db"
    )
    refused = site.try_fencepost("run", "a", "--tenant", "finance")
    assert (refused.returncode, "never spans two" in refused.stderr) == (78, True)
    (tmp_path / "fencepost.toml").write_text(MAP.replace("finance.db", "main.db"))
    assert {one["id"] for one in site.rows("ps", "--tenant", "finance")} == {run_id}
