"""A gate in the hands of a run: the supervisor is asked first, and the mark at the target decides."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from fencepost.model.errors import FencepostError, FenceRefused, Misconfigured
from fencepost.model.gate import Proof
from fencepost.ports.gate import Gate, GateStatus

Ask = Callable[..., Mapping[str, Any]]


class RunGate:
    """One declared gate of a run.

    `write` is for kinds that take a whole payload: a file takes its data, redis a key and a value. For others, `port` is the gate of that kind itself
    and `proof` what its verbs want to see.
    """

    def __init__(self, port: Gate, proof: Proof, ask: Ask) -> None:
        self.port = port
        self.proof = proof
        self._ask = ask

    @property
    def target(self) -> str:
        """Where it leads, as `kind:where`."""
        return self.port.target

    def check(self) -> None:
        """Raise if this run may not write here now: FenceRefused, or Misconfigured if the gate is not declared."""
        self._ask("gate", gate=self.port.target)

    def write(self, *payload: Any, **options: Any) -> Any:  # noqa: ANN401  # each kind has its own payload and answer
        """Write through the gate, all or nothing, or raise FenceRefused: then stop, nothing was written."""
        write = getattr(self.port, "write", None)
        if write is None:
            kind = self.target.partition(":")[0]
            raise Misconfigured(
                f"a {kind} gate takes no whole payload; use gate.port and gate.proof with its own verbs."
            )
        self.check()
        try:
            return write(self.proof, *payload, **options)
        except FenceRefused:
            with suppress(FencepostError):  # that it was refused is what counts, not that it was counted
                self._ask("refused")
            raise

    def status(self) -> GateStatus:
        """Return what the gate remembers."""
        return self.port.status()
