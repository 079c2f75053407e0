"""The git gate's real code before a made-up remote: refs that move together or not at all, with hooks or without."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest.mock import patch

from fencepost.gates.git import gate as git_gate
from fencepost.gates.git import receive_hooks
from fencepost.gates.git.clone import Clone as Source
from fencepost.gates.git.command import GitRefused
from fencepost.gates.git.gate import GitGate
from fencepost.gates.git.refs import NOTHING, branch_ref, fence_ref
from fencepost.gates.git.scratch import RemoteState
from fencepost.host.secrets import own_secret
from fencepost.model.errors import FenceRefused, GateUnreachable
from fencepost.model.gate import Mark, Proof
from fencepost.model.target import Target
from tests.simulation.gates.targets import Landed, TargetScene

MAIN, FENCE = branch_ref("main"), fence_ref("main")

REMOTES: "dict[str, Clone]" = {}  # whose turn it is to talk to which remote, for the code that opens it by its address


@dataclass
class Remote:
    """A bare repository."""

    hooked: bool
    refs: dict[str, str] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    marks: dict[str, dict[str, Mark]] = field(default_factory=dict)

    def judge(self, moves: tuple[tuple[str, str, str], ...]) -> None:
        """Let the real hook look at what is about to move."""
        lines = [f"{old} {new} {ref}" for ref, old, new in moves]
        asked = patch.object(receive_hooks, "_current", lambda ref: self.refs.get(ref, ""))
        with asked, patch.object(receive_hooks, "_marks", lambda commit, _: self.marks[commit]):
            receive_hooks.judge(lines)

    def take(self, scene: TargetScene, moves: tuple[tuple[str, str, str], ...]) -> None:
        """Receive a push: look, and look again while the refs are locked; raise Failed if one is not as expected."""
        if self.hooked:
            self.judge(moves)
            scene.pause()
            self.judge(moves)
        if any(self.refs.get(ref, NOTHING) != old for ref, old, _ in moves):
            raise GitRefused("stale info")
        self.refs.update({ref: new for ref, _, new in moves})


class Clone:
    """A process's way to the remote; stands in for the gate's scratch repository."""

    def __init__(self, scene: TargetScene, remote: Remote) -> None:
        self._scene = scene
        self._remote = remote
        self.landed: Landed = lambda: None

    def see(self, branch: str) -> RemoteState:
        del branch
        self._scene.pause()
        fence = self._remote.refs.get(FENCE, NOTHING)
        return RemoteState(self._remote.refs.get(MAIN, NOTHING), fence, self._remote.marks.get(fence, {}))

    def seal(self, marks: dict[str, Mark], *, parent: str) -> str:
        made = f"fence{len(self._remote.marks)}"
        self._remote.marks[made] = marks
        self._remote.parents[made] = parent
        return made

    def commit(self, value: int, parent: str) -> str:
        """Make a commit on top of another one."""
        made = f"commit{len(self._remote.values)}"
        self._remote.values[made], self._remote.parents[made] = value, parent
        return made

    def values(self, refs: tuple[str, ...]) -> dict[str, str]:
        self._scene.pause()
        return {ref: value for ref, value in self._remote.refs.items() if ref in refs}

    def push(self, *moves: tuple[str, str, str], dry_run: bool = False, **alone: object) -> None:
        assert not dry_run
        assert not any(alone.values())
        self._scene.pause()
        try:
            self._remote.take(self._scene, moves)
        except FenceRefused as refused:
            raise GitRefused(f"remote: {refused}") from None
        if any(ref == MAIN for ref, _, _ in moves):
            self.landed()

    def is_ancestor(self, old: str, new: str) -> bool:
        while new not in (old, NOTHING):
            new = self._remote.parents[new]
        return new == old


class KnownGate(GitGate):
    """The real gate, but for asking git which commit is meant."""

    def push(self, proof: Proof, revision: str = "HEAD", *, clone: str = ".", meanwhile: object = None) -> str:
        git_gate.push_all([(self, revision)], proof, Source(clone), meanwhile=meanwhile)
        return revision


class GitBehind:
    """A counter in the newest commit of a branch. The agent commits on top of what it has read."""

    hooked = False

    def __init__(self, scene: TargetScene) -> None:
        self._scene = scene
        self._remote: Remote = scene.shared.setdefault(scene.path, Remote(self.hooked))
        self._clone = Clone(scene, self._remote)
        self._real = KnownGate(Target("git", scene.path, ()), clock=scene.clock, fetch=own_secret)
        self._address = f"{scene.path}@{scene.process.name}"
        self._real.remote = self._address
        REMOTES[self._address] = self._clone
        self._head = NOTHING

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        self._real.raise_fence(proof, adopt=adopt)

    def read(self) -> int:
        self._head = self._remote.refs.get(MAIN, NOTHING)
        return self._remote.values.get(self._head, 0)

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        self._clone.landed = landed
        self._real.push(proof, self._clone.commit(value, self._head))


class HookedBehind(GitBehind):
    """The same with the server's hooks; an agent that was refused once forgets the gate and pushes as everybody does."""

    hooked = True

    def __init__(self, scene: TargetScene) -> None:
        super().__init__(scene)
        self._stubborn = False

    def write(self, proof: Proof, value: int, landed: Landed) -> None:
        try:
            if not self._stubborn:
                super().write(proof, value, landed)
                return
        except FenceRefused:
            self._stubborn = True
            raise
        self._scene.world.totals["plain pushes"] += 1
        self._clone.landed = landed
        try:
            self._clone.push((MAIN, self._head, self._clone.commit(value, self._head)))
        except GitRefused as said:
            raise (FenceRefused if "remote:" in str(said) else GateUnreachable)(str(said)) from None


@contextmanager
def _scratch(remote: str, target: str, *, clone: object = None, seconds: float = 0) -> Iterator[Clone]:
    del target, clone, seconds
    yield REMOTES[remote]


@contextmanager
def made_up_remotes() -> Iterator[None]:
    """Let the gate find made-up remotes where it would run git."""
    with patch.object(git_gate, "scratch", _scratch):
        try:
            yield
        finally:
            REMOTES.clear()
