"""A configuration that was only found is used if no other user could have put it there."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.config.find import config_path, store_url_of_user
from fencepost.config.load import load
from fencepost.model.errors import Invalid
from tests.support.site import Site

ANOTHER = 54_321
TEXTS = {
    "fencepost.toml": '[fencepost]\ntenant = "theirs"\n',
    "pyproject.toml": '[tool.fencepost]\ntenant = "theirs"\n',
}
GiveAway = Callable[[Path], None]


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> GiveAway:
    """Let a path, and where that takes root's rights nothing else, belong to another user."""

    def to_another(path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(path, ANOTHER, ANOTHER, follow_symlinks=False)
        else:
            monkeypatch.setattr(os, "geteuid", lambda: ANOTHER)

    return to_another


@pytest.fixture(params=sorted(TEXTS))
def found(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A configuration, with a folder below to find it from."""
    tmp_path.chmod(0o755)
    path = tmp_path / str(request.param)
    path.write_text(TEXTS[path.name])
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    return path


def find(found: Path, **environ: str) -> str | None:
    return config_path(environ, str(found.parent / "deep" / "deeper"))


def test_ones_own_is_found_also_with_a_umask_of_002(found: Path) -> None:
    assert find(found) == str(found)
    os.chown(found, -1, os.getegid())
    found.chmod(0o664)
    found.parent.chmod(0o775)
    if os.getegid() in (0, os.geteuid()):  # a private group, as on the systems with that umask
        assert find(found) == str(found)


def test_another_users_is_refused_and_taken_when_it_is_named(found: Path, give_away: GiveAway) -> None:
    give_away(found)

    with pytest.raises(Invalid) as refused:
        find(found)
    said = str(refused.value)
    assert said.startswith(f"{found} belongs to another user, ")
    assert "what it says would be run as you" in said
    assert f"name it: --config {found} (or FENCEPOST_CONFIG)" in said
    assert find(found, FENCEPOST_CONFIG=str(found)) == str(found)
    assert load(str(found)).settings.tenant == "theirs"


@pytest.mark.parametrize("folder", [".", "deep", "deep/deeper"])
def test_another_users_folder_on_the_way_is_refused(found: Path, give_away: GiveAway, folder: str) -> None:
    give_away(found.parent / folder)
    with pytest.raises(Invalid, match="belongs to another user"):
        find(found)


@pytest.mark.parametrize("folder", [".", "deep", "deep/deeper"])
def test_a_folder_that_all_may_write_is_refused_with_the_cure(found: Path, folder: str) -> None:
    open_to_all = (found.parent / folder).resolve()
    open_to_all.chmod(0o777)

    with pytest.raises(Invalid) as refused:
        find(found)
    assert f"the folder {open_to_all}, on the way to {found}, may be changed by every user" in str(refused.value)
    assert f"chmod o-w {open_to_all}." in str(refused.value)

    open_to_all.chmod(0o1777)
    assert find(found) == str(found), "in a sticky folder nobody can replace what is ours"


def test_what_all_or_another_group_may_write_is_refused(found: Path) -> None:
    found.chmod(0o666)
    with pytest.raises(Invalid, match="chmod o-w"):
        find(found)
    mine = (0, os.getegid(), os.geteuid())
    others = [ANOTHER] if os.geteuid() == 0 else [group for group in os.getgroups() if group not in mine]
    for group in others[:1]:  # who is in one group alone cannot hand a file to another
        os.chown(found, -1, group)
        found.chmod(0o664)
        with pytest.raises(Invalid, match=r"may be changed by the group .*chmod g-w"):
            find(found)


def test_a_link_counts_by_who_made_it_and_by_what_it_leads_to(tmp_path: Path, give_away: GiveAway) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "fencepost.toml").write_text("")
    (tmp_path / "fencepost.toml").symlink_to(tmp_path / "real" / "fencepost.toml")
    assert config_path({}, str(tmp_path)) is not None

    (tmp_path / "real").chmod(0o777)
    with pytest.raises(Invalid, match="chmod o-w"):
        config_path({}, str(tmp_path))
    (tmp_path / "real").chmod(0o755)
    give_away(tmp_path / "fencepost.toml")
    with pytest.raises(Invalid, match="belongs to another user"):
        config_path({}, str(tmp_path))


@pytest.mark.parametrize(
    "words", [["up", "--no-web"], ["plan"], ["apply"], ["runs"], ["exec", "--project", "x", "true"]]
)
def test_every_command_says_so_and_does_nothing(site: Site, words: list[str]) -> None:
    site.configure("")
    site.folder.chmod(0o777)

    refused = site.try_fencepost(*words)

    assert refused.returncode == 2
    assert f"chmod o-w {site.folder}" in refused.stderr
    assert site.try_fencepost("runs", "--config", "fencepost.toml").returncode == 0


def test_root_by_sudo_takes_the_file_of_who_called_it(found: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    person = os.geteuid()
    if person == 0:
        person = ANOTHER
        os.chown(found, person, person)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    assert find(found, SUDO_UID=str(person)) == str(found)
    with pytest.raises(Invalid, match="belongs to another user"):
        find(found, SUDO_UID="1")


def test_a_pyproject_that_does_not_speak_of_us_is_no_matter_whosoever_it_is(
    tmp_path: Path, give_away: GiveAway
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["fencepost"]\n')
    (tmp_path / "pyproject.toml").chmod(0o666)
    give_away(tmp_path / "pyproject.toml")

    assert config_path({}, str(tmp_path / "deep")) is None


def test_the_users_own_settings_are_refused_when_they_are_another_users(tmp_path: Path, give_away: GiveAway) -> None:
    path = tmp_path / "fencepost" / "fencepost.toml"
    path.parent.mkdir()
    path.write_text('[fencepost]\nstore = "sqlite:/tmp/theirs.db"\n')
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert store_url_of_user(environ) == "sqlite:/tmp/theirs.db"

    give_away(path)
    with pytest.raises(Invalid, match=r"belongs to another user.*set XDG_CONFIG_HOME"):
        store_url_of_user(environ)
