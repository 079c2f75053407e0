"""The git gate: branch and marks move together, forward, or not at all; with hooks, also for those who only know git."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.gates.git.gate import GitGate
from fencepost.gates.git.receive_hooks import install
from fencepost.model.errors import FenceRefused, GateUnreachable, Invalid, Misconfigured
from fencepost.operations.gate_kinds import open_gate
from tests.gates.harness import GitHarness
from tests.gates.proofs import proof

IDENTITY = ("-c", "user.name=a", "-c", "user.email=a@example.com")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[GitHarness]:
    with GitHarness.made(tmp_path, lambda _: None) as made:
        yield made


@pytest.fixture
def gate(site: GitHarness) -> GitGate:
    opened = site.gate()
    assert isinstance(opened, GitGate)
    opened.raise_fence(proof(5))
    site.write(proof(5), "first")
    return opened


def clone(site: GitHarness) -> Path:
    return Path(site.place) / "clone"


def remote(site: GitHarness) -> Path:
    return Path(site.place) / "remote.git"


def refs(site: GitHarness) -> str:
    return site.git("for-each-ref", folder=remote(site))


def plain_push(site: GitHarness, *specs: str) -> "subprocess.CompletedProcess[str]":
    words = ["git", *IDENTITY, "push", "origin", *specs]
    return subprocess.run(words, cwd=clone(site), capture_output=True, text=True, check=False)


def test_a_fetch_in_between_does_not_help_a_stale_pusher(site: GitHarness, gate: GitGate) -> None:
    gate.raise_fence(proof(6))
    site.git("fetch", "origin", "+refs/*:refs/remotes/all/*", folder=clone(site))

    with pytest.raises(FenceRefused):
        site.write(proof(5), "zombie")
    assert site.content() == "first"


def test_a_raise_between_the_look_and_the_push_refuses_the_push(site: GitHarness, gate: GitGate) -> None:
    with pytest.raises(FenceRefused, match="has seen fence 6"):
        site.write(proof(5), "zombie", lambda: gate.raise_fence(proof(6)))

    assert site.content() == "first"


def test_who_takes_the_marks_away_lets_nobody_push_until_they_are_raised_again(site: GitHarness, gate: GitGate) -> None:
    """As a mirroring push does from a clone that never had them."""
    gate.raise_fence(proof(6))
    site.git("push", "--quiet", "origin", ":refs/fencepost/main", folder=clone(site))

    with pytest.raises(Misconfigured, match="has no marks"):
        gate.push(proof(5), site.commit("zombie"), clone=str(clone(site)))
    gate.raise_fence(proof(6))
    with pytest.raises(FenceRefused):
        gate.push(proof(5), site.commit("zombie"), clone=str(clone(site)))


def test_a_branch_only_moves_forward(site: GitHarness, gate: GitGate) -> None:
    tree = site.git("rev-parse", f"{site.commit('x')}^{{tree}}", folder=clone(site)).strip()
    beside = site.git("commit-tree", tree, "-m", "beside", folder=clone(site)).strip()
    before = refs(site)

    with pytest.raises(Misconfigured, match="does not descend from"):
        gate.push(proof(5), beside, clone=str(clone(site)))
    assert refs(site) == before


@pytest.mark.usefixtures("gate")
def test_somebody_elses_push_in_between_is_told_and_not_overwritten(site: GitHarness) -> None:
    other = site.commit("theirs")

    def meanwhile() -> None:
        site.git("push", "--quiet", "origin", f"{other}:refs/heads/main", folder=clone(site))

    with pytest.raises(Misconfigured, match="does not descend from"):
        site.write(proof(5), "mine", meanwhile)
    assert site.content() == "theirs"


def test_what_is_there_already_is_not_pushed_again(site: GitHarness, gate: GitGate) -> None:
    commit = site.commit("second")
    gate.push(proof(5), commit, clone=str(clone(site)))
    before = refs(site)

    assert gate.push(proof(5), commit, clone=str(clone(site))) == commit
    assert refs(site) == before


def test_hooks_and_settings_of_the_clone_do_not_run(site: GitHarness, gate: GitGate, tmp_path: Path) -> None:
    commit = site.commit("second")
    hook = clone(site) / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/owned\nexit 1\n")
    hook.chmod(0o755)
    site.git("config", "core.sshCommand", f"touch {tmp_path}/owned", folder=clone(site))
    site.git("config", "core.fsmonitor", f"touch {tmp_path}/owned", folder=clone(site))

    gate.push(proof(5), commit, clone=str(clone(site)))

    assert site.content() == "second"
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "branch",
    ["--upload-pack=x", "-d", "a..b", "a b", "a^", "a:b", "HEAD", "x.lock", "a//b", "/a", "a/", "ü", "a\nb", "@{1}"],
)
def test_hostile_names_of_branches_are_refused(branch: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        open_gate(f"git:{tmp_path}/remote.git#branch={branch}")


@pytest.mark.parametrize("where", ["--upload-pack=touch x", "ext::sh -c touch% x", "a::b"])
def test_hostile_remotes_are_refused(where: str) -> None:
    with pytest.raises(Invalid):
        open_gate(f"git:{where}#branch=main")


def test_a_revision_that_looks_like_an_option_is_refused(site: GitHarness, gate: GitGate) -> None:
    with pytest.raises(Misconfigured, match="is no revision"):
        gate.push(proof(5), "--output=x", clone=str(clone(site)))


def test_a_remote_that_is_away_is_told(tmp_path: Path) -> None:
    gate = open_gate(f"git:{tmp_path}/missing.git#branch=main")

    with pytest.raises(GateUnreachable, match="cannot be reached"):
        gate.raise_fence(proof(5))


def test_a_probe_tells_whether_the_remote_can_and_writes_nothing(site: GitHarness, gate: GitGate) -> None:
    before = refs(site)
    gate.probe()
    assert refs(site) == before

    site.git("config", "receive.advertiseAtomic", "false", folder=remote(site))
    with pytest.raises(Misconfigured, match="cannot move two refs at once"):
        gate.probe()
    with pytest.raises(Misconfigured, match="cannot move two refs at once"):
        gate.raise_fence(proof(6))


@pytest.mark.parametrize("refuses", ["receive.denyNonFastForwards", "receive.hideRefs", "a hook of the server's"])
def test_a_probe_is_refused_where_the_marks_would_be(site: GitHarness, gate: GitGate, refuses: str) -> None:
    """As servers do that know only branches and tags; a dry run asks no server."""
    if refuses == "receive.denyNonFastForwards":
        site.git("config", refuses, "true", folder=remote(site))
        gate.probe()  # for branches only
        return
    before = refs(site)
    if refuses == "receive.hideRefs":
        site.git("config", refuses, "refs/fencepost-probe", folder=remote(site))
    else:
        write_hook(
            site, "update", 'case "$1" in refs/heads/*|refs/tags/*) ;; *) echo "only branches" >&2; exit 1;; esac'
        )

    with pytest.raises(Misconfigured, match="so a gate cannot keep its marks there"):
        gate.probe()
    assert refs(site) == before


def test_a_probe_leaves_nothing_to_trip_over_where_nobody_may_delete(site: GitHarness, gate: GitGate) -> None:
    site.git("config", "receive.denyDeletes", "true", folder=remote(site))

    gate.probe()
    gate.probe()
    gate.raise_fence(proof(6))


def write_hook(site: GitHarness, name: str, command: str) -> None:
    hook = remote(site) / "hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{command}\n")
    hook.chmod(0o755)


@pytest.mark.parametrize("words", [("pack-refs", "--all"), ("pack-refs", "--all", "--no-prune"), ("gc", "--quiet")])
def test_with_hooks_the_server_keeps_house_and_the_gate_stays_shut(
    site: GitHarness, gate: GitGate, words: tuple[str, ...]
) -> None:
    install(str(remote(site)))
    for fence in (5, 6, 7):  # the branch is packed while its marks move on, and the other way round
        gate.raise_fence(proof(fence))
        before = refs(site)
        site.git(*words, folder=remote(site))
        assert refs(site) == before
    gate.push(proof(7), site.commit("second"), clone=str(clone(site)))
    site.git(*words, folder=remote(site))
    before = refs(site)

    for specs in ([":refs/heads/main"], [":refs/fencepost/main"], [f"{site.commit('zombie')}:refs/heads/main"]):
        assert plain_push(site, *specs).returncode != 0
    for ref in ("refs/heads/main", "refs/fencepost/main"):
        with pytest.raises(subprocess.CalledProcessError):
            site.git("update-ref", "-d", ref, folder=remote(site))
    assert refs(site) == before
    gate.raise_fence(proof(8))


def test_with_hooks_a_plain_push_to_a_gated_branch_is_refused_and_others_are_not(
    site: GitHarness, gate: GitGate
) -> None:
    install(str(remote(site)))
    commit = site.commit("plain")
    before = refs(site)

    refused = plain_push(site, f"{commit}:refs/heads/main")
    assert refused.returncode != 0
    assert "main is behind a gate, and this push shows no fence" in refused.stderr
    assert plain_push(site, ":refs/heads/main").returncode != 0, "nor may it be deleted"
    assert refs(site) == before

    assert plain_push(site, f"{commit}:refs/heads/other").returncode == 0
    gate.push(proof(5), commit, clone=str(clone(site)))
    gate.raise_fence(proof(6))
    assert site.content() == "plain"


def test_with_hooks_marks_cannot_be_taken_back_by_a_plain_push(site: GitHarness, gate: GitGate) -> None:
    install(str(remote(site)))
    old = site.git("rev-parse", "refs/fencepost/main", folder=remote(site)).strip()
    site.git("fetch", "-q", "origin", "refs/fencepost/main", folder=clone(site))
    gate.raise_fence(proof(6))
    commit = site.commit("zombie")
    before = refs(site)

    for specs in (
        [f"+{old}:refs/fencepost/main"],
        [":refs/fencepost/main"],
        ["--atomic", f"+{old}:refs/fencepost/main", f"{commit}:refs/heads/main"],
        [f"{commit}:refs/heads/main", f"+{commit}:refs/fencepost/main"],
    ):
        options = [one for one in specs if one.startswith("--")]
        refused = plain_push(site, *options, *[one for one in specs if one not in options])
        assert refused.returncode != 0, refused
        assert refs(site) == before


@pytest.mark.usefixtures("gate")
def test_a_push_that_is_not_atomic_cannot_slip_between_the_look_and_the_change(site: GitHarness) -> None:
    """Without one transaction for both refs, the branch's own transaction shows no fence."""
    install(str(remote(site)))
    os.unlink(remote(site) / "hooks" / "pre-receive")  # as if another push came after it had looked
    commit = site.commit("zombie")
    fence = site.git("rev-parse", "refs/fencepost/main", folder=remote(site)).strip()
    site.git("fetch", "-q", "origin", "refs/fencepost/main", folder=clone(site))
    tree = site.git("rev-parse", f"{fence}^{{tree}}", folder=clone(site)).strip()
    again = site.git("commit-tree", tree, "-p", fence, "-m", "again", folder=clone(site)).strip()

    refused = plain_push(site, f"{commit}:refs/heads/main", f"{again}:refs/fencepost/main")

    assert refused.returncode != 0
    assert site.content() == "first"


def test_a_hook_of_somebody_else_is_left_alone(site: GitHarness) -> None:
    hook = remote(site) / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\n")

    with pytest.raises(Misconfigured, match="is there already, and not ours"):
        install(str(remote(site)))
    assert hook.read_text() == "#!/bin/sh\n"
    assert not (remote(site) / "hooks" / "reference-transaction").exists()
