"""Tries a remote before the first run: can it do all that a gate needs? A dry run is no answer, since no server takes part in it."""

import os
from contextlib import suppress

from fencepost.gates.git.command import GitRefused
from fencepost.gates.git.refs import NOTHING, PROBES
from fencepost.gates.git.scratch import Scratch
from fencepost.model.errors import Misconfigured

NO_ATOMIC = "does not support --atomic push"
WORDS_MAX = 300
SAYS = ("remote:", "error:", "fatal:", "!")
GIT_SAYS_ALWAYS = ("Another git process seems", "error: failed to push some refs")


def probe(place: Scratch, target: str) -> None:
    """Make two refs, swap them, lose a swap with one wrong value, and delete them; raise Misconfigured for the first failure."""
    stem = f"{PROBES}{os.urandom(8).hex()}"
    names = (f"{stem}/branch", f"{stem}/fence")
    one, two = place.seal({}, parent=NOTHING), place.seal({}, parent=NOTHING)
    try:
        _do(place, target, "make", *((name, NOTHING, one) for name in names))
        _do(place, target, "swap", *((name, one, two) for name in names))
        _demand_loss(place, target, (names[0], two, one), (names[1], one, one))
    finally:
        with suppress(GitRefused):  # a server that refuses to delete is a good gate all the same
            place.push(*((name, value, "") for name, value in place.values(names).items()))


def not_atomic(target: str) -> Misconfigured:
    """Return what is wrong with a server that moves refs one by one."""
    return Misconfigured(
        f"{target} cannot move two refs at once (git push --atomic), so a gate cannot be kept there; "
        "use a server that can, or its pre-receive hook: fencepost gate git-hook --help"
    )


def reason(said: str) -> str:
    """Return what git and the server said, without what they always say."""
    lines = [line.strip() for line in said.splitlines() if line.startswith(SAYS)]
    told = [line for line in lines if line.removeprefix("remote:").strip() and not _is_usual(line)]
    return "; ".join(told[:3])[:WORDS_MAX] or said[:WORDS_MAX]


def _is_usual(line: str) -> bool:
    return line.removeprefix("remote:").strip().startswith(GIT_SAYS_ALWAYS)


def _do(place: Scratch, target: str, verb: str, *moves: tuple[str, str, str]) -> None:
    try:
        place.push(*moves)
    except GitRefused as error:
        if NO_ATOMIC in str(error):
            raise not_atomic(target) from None
        raise Misconfigured(
            f"{target} does not let us {verb} refs beside its branches, such as {moves[0][0]}, so a gate cannot keep its "
            f"marks there: {reason(str(error))}"
        ) from None


def _demand_loss(place: Scratch, target: str, right: tuple[str, str, str], wrong: tuple[str, str, str]) -> None:
    """Push one move that is right with one that is not: neither may be made."""
    with suppress(GitRefused):
        place.push(right, wrong)
        raise Misconfigured(f"{target} moved a ref from another value than was expected, so it cannot be a gate.")
    if place.values((right[0],)) != {right[0]: right[1]}:
        raise Misconfigured(f"{target} moved one of two refs that were to move together, so it cannot be a gate.")
