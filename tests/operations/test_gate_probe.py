"""plan and apply try the remotes of git gates."""

from pathlib import Path

from tests.gates.harness import GitHarness
from tests.support.site import Site

AGENT = '[agents.writer]\ncommand = ["true"]\ngates = ["pages"]\n[gates.pages]\nkind = "git"\nurl = "{remote}"\n'


def test_plan_says_when_a_remote_cannot_move_two_refs_at_once_or_is_away(site: Site, tmp_path: Path) -> None:
    folder = tmp_path / "git"
    folder.mkdir()
    with GitHarness.made(folder, lambda _: None) as harness:
        remote = folder / "remote.git"
        site.configure(AGENT.format(remote=remote))
        assert "cannot" not in site.fencepost("plan")

        harness.git("config", "receive.advertiseAtomic", "false", folder=remote)
        assert "gate pages" in site.fencepost("plan")
        assert "two refs at once" in " ".join(site.fencepost("plan").split())

        remote.rename(folder / "elsewhere.git")
        assert "cannot be reached" in " ".join(site.fencepost("plan").split())
