"""Effects that are to be had once: what agents do outside of every gate, through the product's own ledger.

The agent asks its supervisor, as over its socket; the supervisor's answers are the product's. Beside it stands a plain
count of what really took place, and of how often that was allowed: by the ledger the first time, and again only when
somebody vouched that it had not taken place (the caller, a probe, a person).
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.flow.effect_once import Once, once
from fencepost.model.effect_ledger import Done, NotDone
from fencepost.model.errors import Busy, FencepostError, InDoubt, LeaseLost, StoreUnavailable
from fencepost.model.lease import Lease
from fencepost.service.ledger_answers import answer_about_ledger, error_of
from fencepost.stores.runtime import RuntimeStore
from tests.simulation.ports import Agent
from tests.simulation.runtime.snapshot import EntrySeen, Snapshot
from tests.simulation.world import SECOND, Mailbox, World

if TYPE_CHECKING:
    from tests.simulation.runtime.place import Seen

PATIENCE_SECONDS = 30


class Outside:
    """The world beyond the store: which effects took place, and how often they were allowed to."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.done: Counter[str] = Counter()
        self.allowed: Counter[str] = Counter()
        self._answers: dict[str, str] = {}

    def take_place(self, key: str) -> int:
        """Have the effect, for real."""
        self.done[key] += 1
        self._world.totals["effects"] += 1
        if self.done[key] > self.allowed[key]:
            self._world.fail("an effect is had once", f"{key} took place {self.done[key]} times")
        return self.done[key]

    def went_back(self) -> None:
        """The store forgot who was allowed what."""
        for key in self.done:
            self.allowed[key] = self.done[key]
        self._answers.clear()

    def check(self, before: Snapshot, after: Snapshot, seen: "Seen") -> None:
        """Look at every entry of the ledger that a commit changed."""
        if after.entries is before.entries:
            return
        for name in sorted(before.entries.keys() | after.entries.keys()):
            old, new = before.entries.get(name), after.entries.get(name)
            if old != new:
                self._changed(old, new, before, seen)

    def _changed(self, old: EntrySeen | None, new: EntrySeen | None, before: Snapshot, seen: "Seen") -> None:
        entry = new or old
        assert entry is not None
        self._world.totals[f"ledger: {seen.verb}"] += 1
        by_person = seen.verb == "resolve" or (new is not None and new.resolved_by is not None)
        if not by_person and seen.verb != "prune_runs" and not self._mine(new or entry, before, seen):
            self._world.fail("a loser changes nothing", f"{seen.process.name} changed the ledger of another: {entry}")
        if old is not None and old.state == "completed" and seen.verb not in ("resolve", "prune_runs"):
            same = new is not None and (new.state, new.answer) == (old.state, old.answer)
            if not same:
                self._world.fail("an answer is kept", f"{old} was changed to {new}")
        if old is None or (new is not None and new.call != old.call) or (new is None and seen.verb != "prune_runs"):
            self.allowed[entry.key] += new is not None  # begun, anew or for the first time

    def _mine(self, entry: EntrySeen, before: Snapshot, seen: "Seen") -> bool:
        """Whether the writer holds the lease that the entry was begun or asked for under."""
        held = [one for one in before.leases.values() if one.state == "held" and one.held_by(seen.process.id)]
        return any(one.id == entry.lease_id and one.fence == entry.fence for one in held) or (
            entry.state == "completed" and bool(held)  # asked for again: only the mark of who asked is new
        )


class Habit:
    """An agent's way of having effects."""

    def __init__(self, world: World, outside: Outside, agent: Agent, ask_mail: Mailbox, run_id: str) -> None:
        self._world = world
        self._outside = outside
        self._agent = agent
        self._supervisor = ask_mail
        self._run_id = run_id

    def have(self, number: int) -> bool:
        """Have one effect, of this run alone or one that several runs want; return whether to go on."""
        rng = self._world.rng
        key = f"{self._run_id}/{number}" if rng.random() < 0.6 else f"common{rng.randrange(3)}"
        steps = Once(self._ask, self._agent.clock.sleep, key)
        probe = (lambda: self._probe(key)) if rng.random() < 0.5 else None
        try:
            answer = once(steps, lambda: self._effect(key), probe)
        except InDoubt:
            self._world.totals["effects in doubt"] += 1
        except (NotDone, OSError, Busy, StoreUnavailable):
            self._world.totals["effects that failed"] += 1
        except LeaseLost:
            return False
        else:
            self._world.log(self._agent.name, f"had {key}: {answer}")
            self._world.totals["effects answered"] += 1
        return True

    def _effect(self, key: str) -> int:
        rng, quiet = self._world.rng, self._world.quiet
        self._agent.clock.sleep(rng.choice((0.0, 0.01, 0.5)))
        if not quiet and rng.random() < 0.15:
            raise NotDone("it was refused")
        answer = self._outside.take_place(key)
        self._agent.clock.sleep(rng.choice((0.0, 0.01, 0.5)))
        if not quiet and rng.random() < 0.15:
            raise OSError("the answer was lost")
        return answer

    def _probe(self, key: str) -> Done | NotDone:
        """Look whether it took place; somebody who is still at it is not seen, which is why they must be fenced first."""
        self._world.totals["probes"] += 1
        return Done(self._outside.done[key]) if self._outside.done[key] else NotDone()

    def _ask(self, verb: str, **fields: str) -> Mapping[str, Any]:
        """Ask the supervisor, and take its silence for a refusal."""
        self._world.check_alive()
        reply = Mailbox(self._world)
        self._supervisor.put("ask", ({"verb": verb, **fields}, reply))
        reply.wait(PATIENCE_SECONDS * SECOND)
        if not reply.items:
            raise StoreUnavailable("nobody answers on the socket")
        answer = reply.items[0][1]
        assert isinstance(answer, dict)
        if not answer["ok"]:
            raise error_of(answer)
        return answer


def answer(body: object, lease: Lease, store: RuntimeStore, *, trusted: bool) -> None:
    """Answer an agent, as its supervisor does: only while the lease can be trusted."""
    assert isinstance(body, tuple)
    request, reply = body
    said: Mapping[str, object] = {"ok": False, "code": LeaseLost.code, "message": "the lease is lost"}
    if trusted:
        try:
            said = answer_about_ledger(request, lease, store.ledger())
        except FencepostError as error:
            said = {"ok": False, "code": error.code, "message": str(error)}
    reply.put("answer", said)
