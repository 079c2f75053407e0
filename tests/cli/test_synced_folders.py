"""A folder that a service copies to other machines: no place for a store, and told where agents write."""

from pathlib import Path

import pytest

from fencepost.model.errors import StoreUnavailable
from fencepost.wiring import open_store
from tests.support.site import Site
from tests.support.terminal import on_a_terminal

SERVICES = {
    "Dropbox": "Dropbox",
    "OneDrive - Company": "OneDrive",
    "Google Drive": "Google Drive",
    "Library/Mobile Documents/com~apple~CloudDocs": "iCloud Drive",
}
AGENT = """\
[agents.writer]
command = ["true"]
gates = ["page", "folder"]
{project}
[gates.page]
kind = "file"
path = "{there}/page.html"
[gates.folder]
kind = "dir"
path = "{there}/folder"
"""


@pytest.mark.parametrize("folder", SERVICES)
def test_a_store_there_is_refused_and_a_cell_is_named_instead(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(
        StoreUnavailable, match=rf"{SERVICES[folder]} copies to other machines.*FENCEPOST_STORE=git\+ssh"
    ):
        open_store(f"sqlite:{tmp_path}/{folder}/deeper/state.db")
    assert not list((tmp_path / folder).iterdir())


def test_syncthing_is_known_by_its_marker(tmp_path: Path) -> None:
    (tmp_path / ".stfolder").mkdir()
    with pytest.raises(StoreUnavailable, match="Syncthing copies"):
        open_store(f"sqlite:{tmp_path}/state.db")


@pytest.mark.parametrize("command", ["exec --lock a -- true", "apply", "plan", "up --no-web"])
def test_every_command_refuses_such_a_store(site: Site, command: str) -> None:
    there = site.folder / "Dropbox"
    there.mkdir()
    (site.folder / "fencepost.toml").write_text("[agents.writer]\ncommand = ['true']\n")
    name, *words = command.split()
    ran = site.try_fencepost(name, "--store", f"sqlite:{there}/state.db", *words)
    assert ran.returncode == 69, ran
    assert "Dropbox copies to other machines" in " ".join(ran.stderr.split())
    assert not list(there.iterdir())


@pytest.mark.parametrize(("gate", "told"), [("file:Dropbox/page", 1), ("dir:Dropbox/folder", 1), ("file:page", 0)])
def test_a_guarded_command_at_a_terminal_is_told_of_gates_there(site: Site, gate: str, told: int) -> None:
    (site.folder / "Dropbox").mkdir()
    line = ["exec", "--lock", "a", "--gate", gate, "--", "echo", "done"]
    shown = " ".join(on_a_terminal(*line, cwd=site.folder, env=site.environment(), errors=True).split())
    assert shown.count("Dropbox copies this folder to other machines, where the gate guards nothing.") == told
    assert shown.endswith("done")
    assert "copies" not in site.try_fencepost(*line).stderr  # cron would mail it each time


def test_plan_tells_of_gates_there_and_of_folders_that_agents_work_in(site: Site) -> None:
    there = site.folder / "Dropbox"
    there.mkdir()
    site.configure(AGENT.format(there="out", project=""))
    assert "Dropbox" not in site.fencepost("plan")

    site.configure(AGENT.format(there=there, project=""))
    told = " ".join(site.fencepost("plan").split())
    for gate in ("page", "folder"):
        assert f"gate {gate}: Dropbox copies its folder to other machines, where the gate guards nothing." in told

    site.configure(AGENT.format(there="out", project='project = "site"') + f"[projects.site]\npath = '{there}'\n")
    assert f"Dropbox copies its folder {there} to other machines" in " ".join(site.fencepost("plan").split())
