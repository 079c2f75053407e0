"""Command line before environment before the project's file before the user's own before the defaults."""

from pathlib import Path

import pytest

from fencepost.config.find import store_url_of, store_url_of_user, tenant_of
from fencepost.config.load import load, load_settings
from fencepost.config.problems import InvalidConfig

SCHEDULE = '[agents.echo]\ncommand = ["echo"]\n[schedules.daily]\nagent = "echo"\ncron = "0 9 * * *"\n'


@pytest.fixture
def user_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    path = tmp_path / "config" / "fencepost" / "fencepost.toml"
    path.parent.mkdir(parents=True)
    return path


def test_the_users_own_file_fills_in_what_a_configuration_leaves_out(tmp_path: Path, user_file: Path) -> None:
    user_file.write_text('[fencepost]\ntimezone = "Asia/Tokyo"\ntenant = "mine"\ndrain_timeout = "5s"\n')
    project = tmp_path / "fencepost.toml"
    project.write_text('[fencepost]\ntenant = "theirs"\n' + SCHEDULE)

    config = load(str(project))
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert config.schedules["daily"].timezone == "Asia/Tokyo"
    assert config.settings.tenant == "theirs" == tenant_of(str(project), environ)
    assert config.settings.drain_timeout == "5s" == load_settings().drain_timeout
    assert tenant_of(None, environ) == "mine"


def test_a_relative_store_of_the_users_lies_beside_the_users_file(tmp_path: Path, user_file: Path) -> None:
    user_file.write_text('[fencepost]\nstore = "sqlite:mine.db"\n')
    project = tmp_path / "fencepost.toml"
    project.write_text(SCHEDULE.replace("cron", 'timezone = "UTC"\ncron'))

    mine = f"sqlite:{user_file.parent.resolve()}/mine.db"
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "config")}
    assert store_url_of(str(project), environ) == mine == store_url_of_user(environ)
    assert load(str(project)).settings.store == mine
    assert store_url_of_user({"XDG_CONFIG_HOME": "/nowhere"}) is None


def test_what_is_wrong_with_the_users_file_is_told_with_its_place(tmp_path: Path, user_file: Path) -> None:
    user_file.write_text('[fencepost]\ntimezon = "UTC"\ntenant = "a b"\n' + SCHEDULE)
    project = tmp_path / "fencepost.toml"
    project.write_text(SCHEDULE)

    with pytest.raises(InvalidConfig) as refused:
        load(str(project))
    said = str(refused.value)
    assert 'fencepost.toml:2:1: fencepost.timezon: there is no such key. Did you mean "timezone"?' in said
    assert "fencepost.toml:3:1: fencepost.tenant: 'a b' is no name" in said
    assert "fencepost.toml:4:1: agents: only [fencepost] stands in a user's own file" in said
