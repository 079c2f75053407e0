"""What in a clone's settings leads a plain `git push` around its gate: `plan`, `apply` and `doctor` tell of exactly that."""

import pytest

from fencepost.gates.git.detours import detours
from tests.gates.test_plain_git_push import RAISE, Site, site

__all__ = ["site"]

HUB = "url.{folder}/.insteadOf", "hub:"
# The settings of git, by their scope, and the one of them that leads around the gate.
SETTINGS: dict[str, tuple[list[tuple[str, str, str]], str]] = {
    "none": ([], ""),
    "pushurl": ([("local", "remote.origin.pushurl", "{remote}")], "remote.origin.pushurl"),
    "pushurl of the user": ([("global", "remote.origin.pushurl", "{remote}")], "remote.origin.pushurl"),
    "pushurl as a link": ([("local", "remote.origin.pushurl", "../linked")], "remote.origin.pushurl"),
    "pushurl by a rule": (
        [("local", "remote.origin.pushurl", "hub:remote.git"), ("global", *HUB)],
        "remote.origin.pushurl",
    ),
    "pushurl to another remote": ([("local", "remote.origin.pushurl", "{other}")], ""),
    "a rule for pushes": ([("local", "url.{folder}/.pushInsteadOf", "{folder}/")], "url.{folder}/.pushinsteadof"),
    "a rule for pushes of the user": ([("global", "url.{folder}/.pushInsteadOf", "{folder}/")], ""),
    "a rule for pushes to another remote": ([("local", "url.{other}.pushInsteadOf", "{remote}")], ""),
    "a rule for other remotes": ([("local", "url.{folder}/.pushInsteadOf", "nowhere:")], ""),
}


@pytest.fixture(params=SETTINGS)
def set_up(request: pytest.FixtureRequest, site: Site) -> str:
    """Make the settings, and return the name of the one that leads around the gate."""
    (site.folder / "linked").symlink_to(site.remote)
    places = {"folder": site.folder, "remote": site.remote, "other": site.another("other.git", "HEAD")}
    settings, around = SETTINGS[request.param]
    for scope, key, value in settings:
        site.git("config", f"--{scope}", key.format(**places), value.format(**places))
    return around.format(**places)


def test_a_setting_is_told_of_if_a_stale_push_gets_past_the_gate_by_it(site: Site, set_up: str) -> None:
    before, _ = site.at(), site.commit("zombie")

    site.push("origin", "HEAD:main", first=RAISE.format(target=f"'{site.target}'"))

    assert (site.at() != before) == bool(set_up), "this is what git does"
    assert [one.key for one in detours(str(site.clone), str(site.remote), site.ground.env)] == [set_up] * bool(set_up)


def test_what_is_said_of_it_undoes_it(site: Site) -> None:
    site.git("config", "remote.origin.pushurl", str(site.remote))
    (found,) = detours(str(site.clone), str(site.remote), site.ground.env)
    command = found.words(str(site.clone)).partition("(")[2].partition(")")[0]

    site.git(*command.split()[1:])

    assert list(detours(str(site.clone), str(site.remote), site.ground.env)) == []


@pytest.mark.parametrize("command", ["plan", "apply", "doctor"])
def test_it_is_told_before_the_first_run(site: Site, command: str) -> None:
    (site.folder / "fencepost.toml").write_text(
        f'[fencepost]\nstore = "sqlite:{site.folder}/s.db"\ntimezone = "UTC"\n'
        '[projects.site]\npath = "clone"\n[gates.main]\nkind = "git"\n'
        f'url = "{site.remote}"\nbranch = "main"\n'
        '[agents.writer]\ncommand = ["true"]\nproject = "site"\ngates = ["main"]\n'
    )
    words = "gate main: git push goes around it: remote.origin.pushurl"
    for value, told in (("", False), (str(site.remote), True)):
        if value:
            site.git("config", "remote.origin.pushurl", value)
        said = site.ground.run(command, cwd=site.folder, env=site.ground.env)
        assert (words in " ".join(f"{said.out.decode()} {said.err}".split())) is told, said


def test_a_folder_without_a_repository_has_no_way_around(site: Site) -> None:
    assert list(detours(str(site.folder), str(site.remote), site.ground.env)) == []
    assert list(detours(str(site.folder / "gone"), str(site.remote), site.ground.env)) == []
