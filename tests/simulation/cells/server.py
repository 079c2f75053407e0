"""A server that compares and swaps, behind a network that delays, drops and repeats nothing but trouble."""

from collections.abc import Collection
from itertools import count

from fencepost.model import cell as rules
from fencepost.model.errors import StoreUnavailable
from fencepost.ports.cells import Answer, CellFacts, Read, SwapOutcome
from tests.simulation.world import MILLISECOND, SECOND, World

TTL = 8.0
_doors = count(1)


class Server:
    """Documents with numbers for tags; no number is given twice."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.documents: dict[str, tuple[bytes, str]] = {}
        self._tags = count(1)
        self._made_ns: dict[str, int] = {}
        self._taken_over: dict[str, set[str]] = {}  # by the tag that was swapped: the replaced lease, and the new one

    def read(self, name: str) -> Read:
        document, tag = self.documents.get(name, (None, None))
        return Read(document, tag)

    def swap(self, name: str, tag: str | None, document: bytes | None) -> SwapOutcome:
        before, now = self.documents.get(name, (None, None))
        if now != tag:
            self._count_equal_sightings(tag, document)
            return SwapOutcome(None, Answer.CONFLICT)
        if document is None:
            del self.documents[name]
            return SwapOutcome("")
        new = str(next(self._tags))
        if tag is None:
            self._made_ns[name] = self._world.now_ns
        elif len(leases := {_lease_in(before), _lease_in(document)} - {""}) > 1:
            self._taken_over[tag] = leases
        self.documents[name] = (document, new)
        return SwapOutcome(new)

    def _count_equal_sightings(self, tag: str | None, document: bytes | None) -> None:
        """Count a machine that would have taken over the same silent lease, and came a moment after the one that did."""
        lease = _lease_in(document)
        if lease and tag in self._taken_over and lease not in self._taken_over[tag]:
            self._world.totals["equal sightings"] += 1

    def is_settled(self, name: str) -> bool:
        """Tell whether a cell has been there for so long that no request is under way which expects nothing there.

        Nothing has no tag: a cell that is deleted twice within moments cannot be told from one that was never made.
        """
        return self._world.now_ns - self._made_ns[name] > 2 * TTL * SECOND

    def delete(self, name: str) -> None:
        """Lose a cell, as when somebody cleans up."""
        self.documents.pop(name, None)


def _lease_in(document: bytes | None) -> str:
    lease = rules.decode(document, where="").lease if document else None
    return lease.id if lease else ""


class Link:
    """A machine's way to the network, which may be cut for a while."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._until_ns = 0

    def cut_for(self, ns: int) -> None:
        self._until_ns = max(self._until_ns, self._world.now_ns + ns)

    @property
    def is_cut(self) -> bool:
        return self._world.now_ns < self._until_ns


class SimCells:
    """One machine's way to the server."""

    def __init__(self, world: World, server: Server, link: Link) -> None:
        self._world = world
        self._server = server
        self._link = link
        self.facts = CellFacts("sim", f"sim://{next(_doors)}", TTL, 1.0)

    def read(self, names: Collection[str], *, seconds: float) -> dict[str, Read]:
        self._travel(seconds, "read")
        found = {name: self._server.read(name) for name in names}
        self._travel(seconds, "read")
        return found

    def swap(self, name: str, tag: str | None, document: bytes | None, *, seconds: float) -> SwapOutcome:
        world, limit = self._world, round(seconds * SECOND)
        if self._link.is_cut:
            world.pause(limit)
            return SwapOutcome(None, Answer.UNKNOWN, "no answer")
        out, back = self._delay(), self._delay()
        lost = not world.quiet and world.chance(0.08) and world.strike("an answer to a swap is lost")
        if out + back < limit and not lost:
            world.pause(out)
            answer = self._server.swap(name, tag, document)
            world.pause(back)
            return answer
        # It lands later, or it landed and nobody heard of it.
        world.totals["unknown answers"] += 1
        landing = min(out, 4 * limit)
        world.spawn("late swap", None, lambda: self._server.swap(name, tag, document), after_ns=landing)
        world.pause(limit)
        return SwapOutcome(None, Answer.UNKNOWN, "no answer")

    def list(self, prefix: str, *, seconds: float) -> list[str]:
        self._travel(seconds, "list")
        return sorted(name for name in self._server.documents if name.startswith(prefix))

    def weaknesses(self, *, seconds: float) -> tuple[str, ...]:
        del seconds
        return ()

    def close(self) -> None:
        pass

    def _travel(self, seconds: float, what: str) -> None:
        world = self._world
        if self._link.is_cut:
            world.pause(round(seconds * SECOND))
            raise StoreUnavailable("the network is away")
        if not world.quiet and world.chance(0.04) and world.strike(f"a {what} is lost"):
            world.pause(round(seconds * SECOND))
            raise StoreUnavailable("the network is away")
        world.pause(min(self._delay(), round(seconds * SECOND)))

    def _delay(self) -> int:
        """Mostly quick, now and then for as long as a lease lasts."""
        rng = self._world.rng
        if not self._world.quiet and self._world.chance(0.05):
            return rng.randrange(round(2 * TTL) * SECOND)
        return rng.randrange(1, 80) * MILLISECOND
