"""Pushes to gated branches of one remote: with their marks, and with whatever else is pushed along, all or nothing."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from fencepost.gates.git.command import SECONDS
from fencepost.gates.git.scratch import scratch
from fencepost.model.errors import Busy

if TYPE_CHECKING:
    from fencepost.gates.git.clone import Clone
    from fencepost.gates.git.gate import GitGate
    from fencepost.model.gate import Proof

TRIES = 8


class Along(NamedTuple):
    """What goes with a gated push: other refs, as git spells a move, and options of git's own."""

    specs: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    seconds: float = SECONDS
    hear: Callable[[str], None] | None = None  # what the server says


ALONE = Along()


def push_all(
    wanted: "Sequence[tuple[GitGate, str]]",
    proof: "Proof",
    clone: "Clone",
    *,
    along: Along = ALONE,
    meanwhile: object = None,
) -> None:
    """Move each branch forward to its commit, or raise FenceRefused and move nothing.

    A branch is expected where the remote has it now, and its commit must descend from there: what the clone's index or
    its remote-tracking branches say does not matter.
    """
    first = wanted[0][0]
    with scratch(first.remote, first.target, clone=clone, seconds=along.seconds) as place:
        for _ in range(TRIES):
            moves = [move for gate, commit in wanted for move in gate.moves(place, proof, commit)]
            if not moves and not along.specs:
                return
            if callable(meanwhile):
                meanwhile()
            if first.moved(place, *moves, along=along):
                return
    raise Busy(f"{first.target} moves all the time; nothing was pushed. Try again later.")
