"""What a service with a gate answers below `/.fencepost/`: raise, check and status, to holders of the gate's key."""

import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fencepost.gates.http.headers import BAD, FORBIDDEN, MISSING, GateAnswer, answered, refusal
from fencepost.gates.http.marks import WAIT_SECONDS, RequestMarks, RequestPassage
from fencepost.model.errors import FencepostError, Invalid
from fencepost.model.gate import FENCE_MAX, Proof, check

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock

PATH = "/.fencepost/"
BODY_MAX = 65_536
KEY_MIN = 16


class ServiceDoor:
    """The gate of one service: its marks, and the key that it takes to raise them."""

    def __init__(
        self, folder: str, key: str, *, clock: "Clock", name: str = "this service", wait_seconds: float = WAIT_SECONDS
    ) -> None:
        if len(key) < KEY_MIN:
            raise Invalid(f"the key of a gate has at least {KEY_MIN} characters: its holder can shut writers out.")
        self._key = key.encode()
        self.name = name
        self.marks = RequestMarks(folder, clock=clock, wait_seconds=wait_seconds)

    def enter(self, proof: Proof) -> RequestPassage:
        """Let a request in, or raise FenceRefused."""
        return self.marks.enter(proof, self.name)

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> GateAnswer:
        """Answer a request below `/.fencepost/`; names of headers are in lower case."""
        given = headers.get("authorization", "").removeprefix("Bearer ")
        if not hmac.compare_digest(given.encode(), self._key):
            return answered({"code": "unauthorised", "message": "the gate's key is missing or wrong."}, FORBIDDEN)
        verb = path.removeprefix(PATH)
        if method != "POST" or verb not in ("raise", "check", "status"):
            return answered({"code": "invalid", "message": "POST raise, check or status."}, MISSING)
        try:
            return self._do(verb, body)
        except FencepostError as error:
            return refusal(error)
        except (ValueError, KeyError, TypeError):
            return answered({"code": "invalid", "message": "this is no proof."}, BAD)

    def _do(self, verb: str, body: bytes) -> GateAnswer:
        if verb != "status":
            document = json.loads(body)
            target, proof = str(document["target"]), _proof(document["proof"])
            if verb == "raise":
                self.marks.raise_fence(proof, target, adopt=document.get("adopt") is True)
            else:
                check(proof, self.marks.read(), target=target)
        return answered({"marks": {key: mark._asdict() for key, mark in self.marks.read().items()}})


def _proof(fields: Mapping[str, object]) -> Proof:
    proof = Proof(**fields)  # type: ignore[arg-type]  # looked at in the next lines
    texts = (proof.tenant, proof.host, proof.run_id, *proof.resources)
    if (
        type(proof.fence) is not int
        or not 0 < proof.fence <= FENCE_MAX
        or not all(isinstance(text, str) for text in texts)
    ):
        raise TypeError
    if proof.store is not None and not isinstance(proof.store, str):
        raise TypeError
    return proof._replace(resources=tuple(proof.resources))
