"""The other side of a plain `git push` in a run: a gated branch goes through its gate, everything else goes on as it came."""

import os
import subprocess
import sys
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from fencepost.gates.git.addresses import Likeness, likeness, read_address, rewritten
from fencepost.gates.git.clone import Clone
from fencepost.gates.git.gate import Along, GitGate, push_all
from fencepost.gates.git.helper import Options, Spec, serve
from fencepost.gates.git.push_settings import SECTION, environment_before
from fencepost.gates.git.refs import DEFAULT_BRANCH, FENCES, branch_ref, fence_ref
from fencepost.host.secrets import own_secret
from fencepost.model.errors import FencepostError
from fencepost.model.target import parse_target
from fencepost.operations.gate_kinds import git_gate
from fencepost.operations.gates import ask_first, let_in, writer_from

RULES = r"^url\..*\.(push)?insteadof$"
PUSH_SECONDS = 3600.0  # of a large push; the end of the lease ends it earlier
NEVER = ("push.followTags=false", "push.recurseSubmodules=no", "push.gpgSign=false", "push.pushOption=")
MARKS_ARE_OURS = "the marks of a gate move with its branch alone"
NOT_DELETED = "a gate only moves its branch forward; it does not delete it. Nothing was pushed"


class Gated(NamedTuple):
    """A gate of this run, and where it stands."""

    target: str
    address: str

    @property
    def branch(self) -> str:
        """Return the ref that it guards."""
        return branch_ref(parse_target(self.target).option("branch", DEFAULT_BRANCH))

    @property
    def marks(self) -> str:
        """Return the ref of its marks."""
        return fence_ref(self.branch.removeprefix("refs/heads/"))


def serve_git(address: str) -> None:
    """Be git's helper for a remote: gated branches go through their gates, everything else goes on as it came."""
    serve(RemoteSide(address, os.environ), sys.stdin, sys.stdout)


class RemoteSide:
    """One remote that git pushes to, by the address that git was given."""

    def __init__(self, address: str, environ: Mapping[str, str]) -> None:
        self._given = address
        self._environ = environ
        before = dict(self._settings(r"^fencepost\.system$", dict(environ))).get("fencepost.system", "")
        self._env = environment_before(environ, before)

    def refs(self) -> dict[str, str]:
        """Return what the remote has, less the marks, which only a gate moves."""
        refs = self._refs
        return {ref: value for ref, value in refs.items() if not (self._gates and ref.startswith(FENCES))}

    def push(self, specs: list[Spec], options: Options) -> dict[str, str | None]:
        """Push; a refusal of one gated branch keeps back everything that was to go with it."""
        gates = self._gates
        gated = [spec for spec in specs if spec.ref in gates or (gates and spec.ref.startswith(FENCES))]
        if not gated:
            return self._pass_on(specs, options)
        try:
            self._push_gated(gated, [spec for spec in specs if spec not in gated], options)
        except FencepostError as error:
            return dict.fromkeys((spec.ref for spec in specs), str(error).rstrip("."))
        return {}

    def _push_gated(self, gated: list[Spec], others: list[Spec], options: Options) -> None:
        clone = Clone(".", os.path.abspath(self._environ.get("GIT_DIR", ".git")), goes_its_way=True)
        writer = writer_from(self._environ)
        wanted: list[tuple[GitGate, str]] = []
        for spec in gated:
            gate = self._gates.get(spec.ref)
            if gate is None or not spec.source:
                raise FencepostError(MARKS_ARE_OURS if gate is None else NOT_DELETED)
            opened = self._opened(gate)
            ask_first(writer, opened)
            wanted.append((opened, clone.commit(spec.source)))
        along = Along(
            tuple(_resolved(spec, clone).text for spec in others),
            tuple(word for word in _allowed(options, others).words() if word != "--atomic"),
            PUSH_SECONDS,
            _repeat,
        )
        let_in(writer, lambda: push_all(wanted, writer.proof, clone, along=along))

    def _opened(self, gate: Gated) -> GitGate:
        return git_gate(parse_target(gate.target), own_secret, remote=self._address)

    def _pass_on(self, specs: list[Spec], options: Options) -> dict[str, str | None]:
        """Let git push as it would have; its hook has run before, for what we stand in for."""
        settings = [word for setting in NEVER for word in ("-c", setting)]
        words = ["push", "--no-verify", "--porcelain", *options.words(), "--", self._address]
        ran = subprocess.run(
            ["git", *settings, *words, *(spec.text for spec in specs)],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
        told = _porcelain(ran.stdout.decode(errors="replace"))
        missing = None if ran.returncode == 0 else "git could not push it"
        return {spec.ref: told.get(spec.ref, missing) for spec in specs}

    @cached_property
    def _gates(self) -> dict[str, Gated]:
        """Return the gates of this run that stand at this remote, by the branch that they guard."""
        found = {}
        for gate in self._declared():
            alike = self._likeness(gate.address)
            if alike is Likeness.SAME or (alike is Likeness.ALIKE and gate.marks in self._refs):
                found[gate.branch] = gate
        return found

    def _likeness(self, address: str) -> Likeness:
        alike = likeness(self._address, address)
        if alike is not Likeness.OTHER:
            return alike
        here, there = read_address(self._address), read_address(address)
        if here.scheme == "ssh" and here.path.casefold() == there.path.casefold() and here.host != there.host:
            return Likeness.ALIKE if there.host in (_ssh_host(here.host), here.host) else Likeness.OTHER
        return Likeness.OTHER

    def _declared(self) -> list[Gated]:
        found = self._settings(rf"^{SECTION}\..*\.address$", dict(self._environ))
        return [Gated(key[len(SECTION) + 1 : -len(".address")], value) for key, value in found]

    @cached_property
    def _address(self) -> str:
        """Return where git would push to without us: users have rules of their own that rewrite addresses."""
        return rewritten(self._given, self._settings(RULES, self._env))

    @cached_property
    def _refs(self) -> dict[str, str]:
        ran = subprocess.run(
            ["git", "ls-remote", "--refs", "--", self._address],
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            check=False,
        )
        if ran.returncode:
            raise FencepostError(f"{self._address} cannot be reached.")
        lines = (line.partition("\t") for line in ran.stdout.decode(errors="surrogateescape").splitlines())
        return {ref: value for value, _, ref in lines}

    def _settings(self, names: str, env: dict[str, str]) -> list[tuple[str, str]]:
        ran = subprocess.run(
            ["git", "config", "--null", "--get-regexp", names],
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        pairs = (part.partition("\n") for part in ran.stdout.decode(errors="surrogateescape").split("\0") if part)
        return [(key, value) for key, _, value in pairs]


def _resolved(spec: Spec, clone: Clone) -> Spec:
    """Name the object itself: the repository that pushes has none of the clone's names."""
    return spec._replace(source=clone.object(spec.source)) if spec.source else spec


def _allowed(options: Options, others: list[Spec]) -> Options:
    """Keep what was expected of other refs; what a gated branch is expected at is the gate's business."""
    refs = {spec.ref for spec in others}
    return options._replace(expected=tuple(one for one in options.expected if one.rpartition(":")[0] in refs))


def _ssh_host(name: str) -> str:
    """Return the host that a name of ~/.ssh/config stands for."""
    if name.startswith("-"):
        return ""
    try:
        ran = subprocess.run(["ssh", "-G", name], capture_output=True, check=False, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next((line[9:].strip().lower() for line in ran.stdout.splitlines() if line.startswith("hostname ")), "")


def _porcelain(said: str) -> dict[str, str | None]:
    """Read what `git push --porcelain` says of each ref: None if it was moved, else why not."""
    found: dict[str, str | None] = {}
    for line in said.splitlines():
        flag, tab, rest = line.partition("\t")
        names, _, summary = rest.partition("\t")
        if tab and len(flag) == 1:
            reason = summary.partition("(")[2].rpartition(")")[0] or summary
            found[names.rpartition(":")[2]] = reason if flag == "!" else None
    return found


def _repeat(said: str) -> None:
    """Pass on what the server says to the program that pushes."""
    for line in said.splitlines():
        if line.startswith("remote:"):
            sys.stderr.write(f"{line}\n")
