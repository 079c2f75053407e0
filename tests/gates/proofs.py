"""What the tests of gates show at a gate."""

from fencepost.model.gate import Proof


def proof(
    fence: int, *resources: str, store: str | None = "A", tenant: str = "default", run: str | None = None
) -> Proof:
    return Proof(tenant, resources or ("lock:z",), fence, store, "host-1", f"run-{fence}" if run is None else run)
