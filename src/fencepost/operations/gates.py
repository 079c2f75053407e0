"""What may be asked of gates: write through one, raise some, look at them, or ask whether a write would pass."""

import os

from fencepost.model.errors import FencepostError, FenceRefused, Invalid, SupervisorSilent
from fencepost.model.fast_typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, NamedTuple, TypeVar
from fencepost.model.gate import FENCE_MAX, Proof
from fencepost.model.lease import parse_resource
from fencepost.model.run_key import key_in
from fencepost.operations.gate_kinds import file_gate, open_gate

if TYPE_CHECKING:
    from fencepost.gates.s3.gate import S3Gate
    from fencepost.ports.gate import Gate, GateStatus, Stream

Ask = Callable[..., Mapping[str, Any]]  # a verb and its fields to the run's supervisor; raises what is refused

T = TypeVar("T")


class GateWriter(NamedTuple):
    """Who wants to write: the proof, and the supervisor to ask first if it was handed out by a run."""

    proof: Proof
    supervisor: Ask | None


class WriteDone(NamedTuple):
    """What a write has put in place."""

    target: str
    fence: int
    bytes: int


def write_file(writer: GateWriter, path: str, data: "bytes | Iterable[bytes] | Stream") -> WriteDone:
    """Replace a file through its gate; inside a run, only one that the run has declared."""
    gate = file_gate(path)
    ask_first(writer, gate)
    size = let_in(writer, lambda: gate.write(writer.proof, data))
    return WriteDone(gate.target, writer.proof.fence, size)


def publish_directory(writer: GateWriter, source: str, path: str) -> WriteDone:
    """Switch a directory to a copy of another one, through its gate."""
    from fencepost.gates.directory import DirectoryGate

    gate = _declared(writer, f"dir:{path}")
    assert isinstance(gate, DirectoryGate)
    size = let_in(writer, lambda: gate.publish(writer.proof, source))
    return WriteDone(gate.target, writer.proof.fence, size)


def write_sql(writer: GateWriter, target: str, script: str) -> WriteDone:
    """Run SQL statements in one transaction that passes the gate of their database."""
    from fencepost.gates.sql.gate import SqlGate

    gate = _declared(writer, target)
    if not isinstance(gate, SqlGate):
        raise Invalid(f"{gate.target} is no database; write-sql is for gates of kind sql.")
    let_in(writer, lambda: gate.run_script(writer.proof, script))
    return WriteDone(gate.target, writer.proof.fence, len(script.encode()))


def send_http(writer: GateWriter, target: str, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Send a request with the run's fence to a gated service, and return its status and body."""
    from fencepost.gates.http.gate import HttpGate

    gate = _declared(writer, target)
    if not isinstance(gate, HttpGate):
        raise Invalid(f"{gate.target} is no service; send is for gates of kind http.")
    return let_in(writer, lambda: gate.send(writer.proof, method, path, body))


def write_s3(writer: GateWriter, target: str, data: bytes) -> WriteDone:
    """Replace an object of an S3-compatible store through its gate."""
    gate = _declared(writer, target)
    size = let_in(writer, lambda: _s3_gate(gate).write(writer.proof, data))
    return WriteDone(gate.target, writer.proof.fence, size)


def read_s3(target: str) -> bytes | None:
    """Return the newest data of such an object, None if nothing was ever written."""
    return _s3_gate(open_gate(target)).read()


def _s3_gate(gate: "Gate") -> "S3Gate":
    from fencepost.gates.s3.gate import S3Gate

    if not isinstance(gate, S3Gate):
        raise Invalid(f"{gate.target} is no object of S3; write-s3 and read-s3 are for gates of kind s3.")
    return gate


def write_redis(writer: GateWriter, target: str, key: str, value: bytes) -> WriteDone:
    """Set a key of a Redis server through its gate."""
    from fencepost.gates.redis.gate import RedisGate

    gate = _declared(writer, target)
    if not isinstance(gate, RedisGate):
        raise Invalid(f"{gate.target} is no Redis server; write-redis is for gates of kind redis.")
    let_in(writer, lambda: gate.write(writer.proof, key, value))
    return WriteDone(gate.target, writer.proof.fence, len(value))


def push_git(writer: GateWriter, target: str, revision: str, *, clone: str) -> str:
    """Push a commit to a gated branch and return it."""
    from fencepost.gates.git.gate import GitGate

    gate = _declared(writer, target)
    if not isinstance(gate, GitGate):
        raise Invalid(f"{gate.target} is no repository; git-push is for gates of kind git.")
    return let_in(writer, lambda: gate.push(writer.proof, revision, clone=clone))


def install_git_hooks(repository: str) -> list[str]:
    """Put the gate's hooks into a bare repository and return their paths."""
    from fencepost.gates.git.receive_hooks import install

    return install(repository)


def judge_git(moves: Iterable[str], *, refs_are_locked: bool) -> None:
    """Be such a hook: raise FenceRefused if git must not make these moves."""
    from fencepost.gates.git.receive_hooks import judge

    judge(moves, refs_are_locked=refs_are_locked)


def guard_tables(
    target: str, tables: Iterable[str], *, resource: str = "", tenant: str = "default", remove: bool = False, act: bool
) -> list[str]:
    """Return the definitions that put tables behind their database's gate, or take them out; carry them out if asked."""
    from fencepost.gates.sql.gate import SqlGate

    gate = open_gate(target)
    if not isinstance(gate, SqlGate):
        raise Invalid(f"{gate.target} is no database; sql-guard is for gates of kind sql.")
    found = [
        definition
        for table in tables
        for definition in gate.guard(
            table, resource=resource and parse_resource(resource), tenant=tenant, remove=remove
        )
    ]
    definitions = list(dict.fromkeys(found))
    if act:
        gate.install(definitions)
    return definitions


def _declared(writer: GateWriter, target: str) -> "Gate":
    """Open a gate to write through; inside a run, only one that the run has declared."""
    gate = open_gate(target)
    ask_first(writer, gate)
    return gate


def ask_first(writer: GateWriter, gate: "Gate") -> None:
    """Ask the supervisor whether this may be tried; where it is silent, the target may know why: a newer run has started.

    Only a first look: the lease may be lost a moment later, and then the mark at the target decides.
    """
    if writer.supervisor is None:
        return
    try:
        writer.supervisor("gate", gate=gate.target)
    except SupervisorSilent as silence:
        try:
            gate.check(writer.proof)
        except FenceRefused:
            raise
        except FencepostError:
            raise silence from None  # the target cannot be reached: it knows no better
        raise


def let_in(writer: GateWriter, write: Callable[[], T]) -> T:
    """Write; a refusal is also told to the supervisor, who counts it, if there is one that hears."""
    try:
        return write()
    except FenceRefused:
        from contextlib import suppress

        if writer.supervisor is not None:
            with suppress(FencepostError):  # that it was refused is what counts, not that it was counted
                writer.supervisor("refused")
        raise


def raise_gate(writer: GateWriter, target: str, *, adopt: bool = False) -> "GateStatus":
    """Raise a gate to the writer's fence and return what it remembers now."""
    gate = open_gate(target)
    if writer.supervisor is not None:
        writer.supervisor("check")
    gate.raise_fence(writer.proof, adopt=adopt)
    return gate.status()


def check(writer: GateWriter, target: str | None) -> None:
    """Raise FenceRefused if the lease is lost, or if the target would refuse a write now."""
    gate = open_gate(target) if target else None
    if gate is None and writer.supervisor is None:
        raise Invalid("outside of a run there is only a target to check; name one: fencepost gate check file:PATH")
    if writer.supervisor is not None:
        writer.supervisor("check")
    if gate is not None:
        gate.check(writer.proof)


def status(target: str) -> "GateStatus":
    """Return what a gate remembers."""
    return open_gate(target).status()


def writer_from(environ: Mapping[str, str], *, resources: Iterable[str] = (), fence: str | None = None) -> GateWriter:
    """Take the proof from what was given, and what is missing from the environment of the run."""
    named = tuple(resources) or tuple(environ.get("FENCEPOST_RESOURCE", "").split())
    number = fence if fence is not None else environ.get("FENCEPOST_FENCE")
    if not named or not number:
        missing = "resource" if not named else "fence"
        raise Invalid(
            f"there is no {missing}: run this below 'fencepost exec', which sets FENCEPOST_{missing.upper()}, "
            "or give both, for example: --resource lock:nightly --fence 42"
        )
    proof = Proof(
        tenant=environ.get("FENCEPOST_TENANT") or "default",
        resources=tuple(parse_resource(name) for name in named),
        fence=_fence(number),
        store=environ.get("FENCEPOST_STORE_ID") or None,
        host=os.uname().nodename,
        run_id=environ.get("FENCEPOST_RUN_ID", ""),
    )
    inside = fence is None and environ.get("FENCEPOST_SOCKET") and key_in(environ)
    return GateWriter(proof, _supervisor() if inside else None)


def _fence(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(FENCE_MAX)) and 0 < int(text) <= FENCE_MAX):
        raise Invalid(f"{text!r} is no fence; a fence is a whole number from 1 to {FENCE_MAX}.")
    return int(text)


def _supervisor() -> Ask:
    from fencepost.operations.supervisor_client import ask

    return ask
