"""What an agent says by itself, `git push`, in a run with a git gate: git for real, from clones of every kind."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gates.test_frozen_holder import asleep
from tests.support.debian import program
from tests.support.ground import Ground, Told, children, ground_at, send
from tests.support.scratch import wait_until
from tests.support.sshd import SshServer

INSIDE = ("FENCEPOST_SOCKET", "FENCEPOST_RUN_KEY")
BRANCH = "refs/heads/main"
MARKS = "refs/fencepost/main"
RAISE = "fencepost gate raise --resource lock:z --fence $((FENCEPOST_FENCE + 1)) {target} >/dev/null"  # as a newer run would


class Site:
    """A remote with a gate before `main`, a clone, and runs that push from it."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.folder = ground.folder
        self.remote = self.folder / "remote.git"
        self.clone = self.folder / "clone"
        self.git("init", "--quiet", "--bare", "-b", "main", str(self.remote), folder=self.folder)
        self.git("clone", "--quiet", str(self.remote), str(self.clone), folder=self.folder)
        self.commit("first")
        self.git("push", "--quiet", "origin", "HEAD:main")
        self.target = f"git:{self.remote}#branch=main"

    def git(self, *words: str, folder: Path | None = None) -> str:
        ran = subprocess.run(
            ["git", *words], cwd=folder or self.clone, env=self.ground.env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.strip()

    def commit(self, text: str, folder: Path | None = None) -> str:
        """Commit in a clone and return the commit."""
        (folder or self.clone).joinpath("report.txt").write_text(text)
        self.git("add", "-A", folder=folder)
        self.git("commit", "--quiet", "-m", text, folder=folder)
        return self.git("rev-parse", "HEAD", folder=folder)

    def push(self, *words: str, folder: Path | None = None, first: str = ":", **env: str) -> Told:
        """Run an agent that does something first and then says `git push`."""
        push = " ".join(f"'{word}'" for word in words)
        return self.run(f"{first} && git push {push}", folder=folder, **env)

    def run(self, command: str, folder: Path | None = None, wait: str = "--wait=30s", **env: str) -> Told:
        words = ("exec", "--lock", "z", wait, "--gate", self.target, "--", "sh", "-c", command)
        return self.ground.run(*words, cwd=folder or self.clone, env={**self.ground.env, **env}, seconds=60)

    def at(self, ref: str = BRANCH, remote: Path | None = None) -> str:
        """Return where a ref of a remote is, nothing if it is not there."""
        return self.git("for-each-ref", "--format=%(objectname)", ref, folder=remote or self.remote)

    def another(self, name: str, content: str = "") -> Path:
        """Make another bare remote, with the commits of a clone if need be."""
        path = self.folder / name
        self.git("init", "--quiet", "--bare", "-b", "main", str(path), folder=self.folder)
        if content:
            self.git("push", "--quiet", str(path), f"{content}:main")
        return path


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ground_at(tmp_path) as ground:
        ground.env["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        (tmp_path / ".gitconfig").write_text("[user]\n\tname = agent\n\temail = agent@example.com\n")
        yield Site(ground)


def test_a_plain_push_moves_the_branch_with_its_marks(site: Site) -> None:
    commit = site.commit("second")

    told = site.push("origin", "HEAD:main")

    assert told.code == 0, told
    assert site.at() == commit
    assert site.at("refs/remotes/origin/main", site.clone) == commit, "git's own view of the remote follows"
    marks = json.loads(site.git("show", f"{MARKS}:marks.json", folder=site.remote))
    assert "lock:z" in json.dumps(marks)


def test_a_stale_push_is_refused_with_the_reason_in_gits_own_output(site: Site) -> None:
    before, _ = site.at(), site.commit("zombie")

    told = site.push("origin", "HEAD:main", first=RAISE.format(target=f"'{site.target}'"))

    assert told.code == 1
    assert "[remote rejected] HEAD -> main" in told.err
    assert "a newer run has started. Nothing was written; stop" in told.err
    assert site.at() == before


def test_an_agent_that_wakes_after_its_lease_and_says_git_push_is_refused(site: Site) -> None:
    ground = site.ground
    site.commit("zombie")
    words = ("exec", "--lock", "z", "--ttl", "1s", "--gate", site.target, "--")
    old = ground.start(*words, "sh", "-c", "env > ../env; echo >> ../env; sleep 600", cwd=site.clone)
    ground.wait_for("env")
    zombie = asleep(f"cd {site.clone} && git push origin HEAD:main", ground, "GIT_CONFIG_SYSTEM", *INSIDE)
    guard = ground.guard_of(old)
    ground.freeze(old.pid, guard, *children(guard))
    new = site.run("git push", folder=_newer(site), wait="--wait=60s")
    assert new.code == 0, new
    done = site.at()

    send(zombie.pid, signal.SIGCONT)
    said = zombie.communicate(timeout=60)[1].decode()

    assert zombie.returncode == 1, said
    assert "[remote rejected]" in said
    assert "a newer run has started. Nothing was written; stop" in said, "also where its supervisor is silent"
    assert site.at() == done
    send(old.pid, signal.SIGCONT)
    assert ground.told(old).code == 76


def _newer(site: Site) -> Path:
    newer = site.folder / "newer"
    site.git("clone", "--quiet", str(site.remote), str(newer), folder=site.folder)
    site.commit("new", newer)
    return newer


def test_force_never_passes(site: Site) -> None:
    beside = site.git("commit-tree", "HEAD^{tree}", "-m", "beside")
    before = site.at()

    for words in (["--force"], [f"--force-with-lease=main:{before}"], ["--force", "--no-verify"]):
        told = site.push(*words, "origin", f"{beside}:refs/heads/main")
        assert told.code == 1
        assert "does not descend from" in told.err, told
    plus = site.push("origin", f"+{beside}:refs/heads/main")

    assert plus.code == 1
    assert site.at() == before


def test_a_gated_branch_is_not_deleted_and_its_marks_are_nobodys_to_move(site: Site) -> None:
    site.push("origin", "HEAD:main")
    before, marks = site.at(), site.at(MARKS)

    deleted = site.push("origin", ":main")
    taken = site.push("--force", "origin", "HEAD:refs/fencepost/main")
    mirrored = site.push("--mirror", "origin")

    assert "does not delete it" in deleted.err
    assert "move with its branch alone" in taken.err
    assert mirrored.code == 0 or "rejected" in mirrored.err
    assert (site.at(), site.at(MARKS) != "") == (before, True)
    assert marks


def test_other_branches_and_tags_go_their_way_alone_and_together_with_the_gated_one(site: Site) -> None:
    first, second = site.at(), site.commit("second")
    site.git("tag", "-m", "v1", "v1")

    alone = site.push("origin", "HEAD:topic")
    forced = site.push("--force", "origin", f"{first}:topic")
    together = site.push("origin", "HEAD:main", "HEAD:other", "v1")

    assert (alone.code, forced.code, together.code) == (0, 0, 0), (alone, forced, together)
    assert (site.at("refs/heads/topic"), site.at("refs/heads/other"), site.at()) == (first, second, second)
    assert site.at("refs/tags/v1") == site.git("rev-parse", "v1")


def test_what_goes_with_a_refused_branch_stays_behind_too(site: Site) -> None:
    site.commit("zombie")

    told = site.push("origin", "HEAD:main", "HEAD:other", first=RAISE.format(target=f"'{site.target}'"))

    assert told.code == 1
    assert site.at("refs/heads/other") == ""


def test_remotes_that_look_alike_are_left_alone(site: Site) -> None:
    """A gate would want marks there, and go forward only."""
    commit = site.git("commit-tree", "HEAD^{tree}", "-m", "beside")
    for name in ("remote.git2", "remote.gitx.git", "other/remote.git", "remote"):
        path = site.another(name, "HEAD")
        told = site.push("--force", str(path), f"{commit}:refs/heads/main")
        assert told.code == 0, told
        assert site.at(remote=path) == commit
        assert site.at(MARKS, path) == ""


@pytest.mark.parametrize(
    "spelling",
    [
        "../remote.git",
        "file://{remote}",
        "file://localhost{folder}/rem%6Fte.git",
        "{remote}/",
        "../linked",
        "../clone/../remote",
    ],
)
def test_every_spelling_of_the_remote_leads_to_the_gate(site: Site, spelling: str) -> None:
    (site.folder / "linked").symlink_to(site.remote)
    site.git("remote", "set-url", "origin", spelling.format(remote=site.remote, folder=site.folder))
    before, _ = site.at(), site.commit("zombie")

    told = site.push("origin", "HEAD:main", first=RAISE.format(target=f"'{site.target}'"))

    assert "a newer run has started" in told.err, told
    assert site.at() == before


def test_a_rule_of_the_users_own_leads_not_around_the_gate(site: Site) -> None:
    """They fetch by one address and push by another, as many do with https and ssh."""
    with (site.folder / ".gitconfig").open("a") as file:
        file.write(f'[url "{site.folder}/"]\n\tpushInsteadOf = "hub:"\n[url "{site.folder}/"]\n\tinsteadOf = "pull:"\n')
    site.git("remote", "set-url", "origin", "hub:remote.git")
    before, good = site.at(), site.commit("second")

    stale = site.push("origin", "HEAD:main", first=RAISE.format(target=f"'{site.target}'"))
    assert "a newer run has started" in stale.err, stale
    assert site.at() == before

    site.git("remote", "set-url", "origin", "pull:remote.git")
    passed = site.run(f"sleep 0; fencepost gate raise '{site.target}' >/dev/null; git push origin HEAD:main")
    assert passed.code == 0, passed
    assert site.at() == good


def test_the_systems_own_settings_stay_in_force(site: Site) -> None:
    own = site.folder / "system"
    own.write_text("[fencetest]\n\tword = kept\n")

    with_own = site.run("git config fencetest.word", GIT_CONFIG_SYSTEM=str(own))
    without = site.push(
        "origin", "HEAD:topic", first="! git config fencetest.word", GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_SYSTEM=str(own)
    )

    assert with_own.out == b"kept\n"
    assert without.code == 0, without
    assert "fencepost::" in without.err


@pytest.mark.parametrize("allowed", ["file", "file:ssh"])
def test_a_list_of_allowed_protocols_lets_the_road_be(site: Site, allowed: str) -> None:
    commit = site.commit("second")

    told = site.push("origin", "HEAD:main", GIT_ALLOW_PROTOCOL=allowed)
    narrowed = site.push("origin", "HEAD:topic", first="export GIT_ALLOW_PROTOCOL=file")

    assert told.code == 0, told
    assert site.at() == commit
    assert narrowed.code != 0, "what the agent sets itself keeps the push back, and leads it nowhere else"


def test_a_worktree_of_the_clone_pushes_its_own_commit(site: Site) -> None:
    site.git("worktree", "add", "--quiet", "-b", "side", "../side")
    commit = site.commit("from the side", site.folder / "side")
    (site.folder / "side" / "deep").mkdir()

    told = site.push("origin", "HEAD:main", folder=site.folder / "side" / "deep")

    assert told.code == 0, told
    assert site.at() == commit


@pytest.mark.parametrize("how", [("--depth=1",), ("--filter=blob:none",), ("--filter=tree:0",), ("--bare",)])
def test_a_clone_that_has_not_everything_pushes(site: Site, how: tuple[str, ...]) -> None:
    site.git("config", "uploadpack.allowFilter", "true", folder=site.remote)
    for number in range(3):
        site.commit(f"before {number}")
    site.git("push", "--quiet", "origin", "HEAD:main")
    part = site.folder / "part"
    site.git("clone", "--quiet", "--no-checkout", *how, f"file://{site.remote}", str(part), folder=site.folder)
    commit = site.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "from a part", folder=part)
    shallow = (part / ".git" / "shallow").exists()

    told = site.push("origin", f"{commit}:refs/heads/main", folder=part)
    stale = site.push(
        "origin", f"{commit}^:refs/heads/main", folder=part, first=RAISE.format(target=f"'{site.target}'")
    )

    assert told.code == 0, told
    assert site.at() == commit
    assert (part / ".git" / "shallow").exists() == shallow
    assert stale.code != 0


def test_large_files_go_along(site: Site) -> None:
    """Git LFS uploads in a hook of git's push, and finds out by itself where to."""
    program("git-lfs", packages=["git-lfs"])
    site.git("remote", "set-url", "origin", f"file://{site.remote}")
    for words in (("lfs", "install", "--local"), ("lfs", "track", "*.bin")):
        site.git(*words)
    (site.clone / "large.bin").write_bytes(b"large" * 1000)
    commit = site.commit("with a large file")

    told = site.push("origin", "HEAD:main")

    assert told.code == 0, told
    assert site.at() == commit
    assert list((site.remote / "lfs" / "objects").rglob("*")), "the file itself has arrived"


def test_the_hooks_of_the_clone_run_once(site: Site) -> None:
    hook = site.clone / ".git" / "hooks" / "pre-push"
    hook.write_text(f"#!/bin/sh\necho ran >> {site.folder}/hooks\n")
    hook.chmod(0o755)
    site.commit("second")

    site.push("origin", "HEAD:main")
    site.push("origin", "HEAD:topic")

    assert (site.folder / "hooks").read_text() == "ran\nran\n"


def test_the_servers_words_and_push_options_arrive(site: Site) -> None:
    site.git("config", "receive.advertisePushOptions", "true", folder=site.remote)
    hook = site.remote / "hooks" / "pre-receive"
    hook.write_text('#!/bin/sh\necho "heard $GIT_PUSH_OPTION_0"\n')
    hook.chmod(0o755)
    site.commit("second")

    gated = site.push("-o", "ci.skip", "origin", "HEAD:main")
    other = site.push("-o", "ci.skip", "origin", "HEAD:topic")

    assert "remote: heard ci.skip" in gated.err, gated
    assert "remote: heard ci.skip" in other.err, other


def test_by_ssh_the_settings_of_the_clone_lead_there(site: Site) -> None:
    keys = site.folder / "sshd"
    keys.mkdir()
    with SshServer.running(keys) as server:
        url = server.url(site.remote).replace("git+ssh", "ssh")
        site.git("remote", "set-url", "origin", url)
        site.git("config", "core.sshCommand", server.command)
        site.target = f"git:{url}#branch=main"
        site.ground.env["GIT_SSH_COMMAND"] = server.command
        commit = site.commit("second")

        told = site.push("origin", "HEAD:main", first="unset GIT_SSH_COMMAND")
        user, _, place = url.removeprefix("ssh://").partition("@")
        by_name = site.push(f"ssh://{user}@{place}/", "HEAD:main", first=RAISE.format(target=f"'{site.target}'"))

    assert told.code == 0, told
    assert site.at() == commit
    assert by_name.code == 0 or "a newer run" in by_name.err


CONFIG = """
[fencepost]
timezone = "Europe/Berlin"

[projects.site]
path = "clone"

[gates.site]
kind = "git"
url = "{remote}"
branch = "main"

[agents.writer]
command = ["sh", "-c", "unset PATH; /usr/bin/git push origin HEAD:main"]
project = "site"
gates = ["site"]
"""


def test_a_scheduled_run_pushes_through_its_gate_whatever_its_shell_makes_of_path(site: Site) -> None:
    git = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (site.folder / "fencepost.toml").write_text(CONFIG.format(remote=site.remote).replace("/usr/bin/git", git))
    commit = site.commit("second")
    up = site.ground.start("up", "--no-web", "--workers", "1")
    assert up.stderr is not None
    try:
        while b"Ctrl-C" not in up.stderr.readline():
            assert up.poll() is None
        told = site.ground.run("run", "writer", "--wait", seconds=60)
    finally:
        send(up.pid, signal.SIGTERM)
        site.ground.told(up)

    assert told.code == 0, told
    assert site.at() == commit
    wait_until(lambda: bool(site.at(MARKS)), what="the marks moved with it")
