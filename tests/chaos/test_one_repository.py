"""Two agents at work in one repository at the same time, each in a worktree of its own."""

from collections import Counter
from pathlib import Path

import pytest

from fencepost.host.log_files import read_log
from tests.support.repository import git, make_repository
from tests.support.site import Site

TURNS = 5
# What agents do to what worktrees share: refs, the stash, the configuration, the objects. Git asks one of two who come at
# the same moment to come again; so does this.
SCRIPT = f"""
set -e
again() {{
    for try in 1 2 3 4 5 6 7 8 9 10 11 12; do "$@" && return; sleep 0.05; done
    return 1
}}
me=$FENCEPOST_SCHEDULE
touch ../../here-$me
while [ ! -e ../../here-one ] || [ ! -e ../../here-two ]; do sleep 0.02; done
for turn in $(seq {TURNS}); do
    echo $turn >> $me.txt
    again git add $me.txt
    again git commit -qm "$me $turn"
    echo $turn > $me-aside.txt
    again git add $me-aside.txt
    again git stash push -qm "$me aside $turn"
    again git config work.$me $turn
    again git tag $me-$turn
    git gc -q || true
done
touch ../../over-$me
"""
CONFIG = """
[projects.shared]
path = "repo"
isolation = "worktree"
worktrees_dir = "trees"
[agents.worker]
project = "shared"
command = ["sh", "../../agent.sh"]
[schedules.one]
agent = "worker"
every = "1h"
[schedules.two]
agent = "worker"
every = "1h"
"""


@pytest.fixture
def repo(site: Site) -> Path:
    make_repository(site.folder / "repo")
    git(site.folder / "repo", "config", "user.name", "Ada")
    git(site.folder / "repo", "config", "user.email", "ada@example.org")
    (site.folder / "agent.sh").write_text(SCRIPT)
    return site.folder / "repo"


def test_two_agents_at_once_damage_nothing_that_their_worktrees_share(site: Site, repo: Path) -> None:
    """F72: commits stay apart; stash, tags and settings of both are all there, and so is every object."""
    before = git(repo, "rev-parse", "HEAD")
    site.configure(CONFIG)
    site.up("--workers", "2")
    site.until(lambda: sum(run.ended_us is not None for run in site.runs()) == 2, seconds=60)
    failed = [(run.reason, run.exit_code, read_log(run.log or "")) for run in site.runs() if run.state != "succeeded"]
    assert failed == [], site.said()

    for run in site.runs():
        written = git(repo, "log", "--format=%s", f"main..fencepost/{run.id}").splitlines()
        assert written == [f"{run.schedule} {turn}" for turn in range(TURNS, 0, -1)]
    names = {f"{name} aside {turn}" for name in ("one", "two") for turn in range(1, TURNS + 1)}
    aside = Counter(line.partition(": ")[2] for line in git(repo, "stash", "list", "--format=%gs").splitlines())
    assert aside == Counter(names), "nobody's stash was lost or taken"
    assert {git(repo, "config", f"work.{name}") for name in ("one", "two")} == {str(TURNS)}
    assert len(git(repo, "tag").splitlines()) == 2 * TURNS
    assert git(repo, "rev-parse", "HEAD") == before
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "fsck", "--full", "--no-dangling", "--no-progress") == ""
