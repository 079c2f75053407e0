"""What only a full guard can do: prepare and finish in children of its own, understand output, keep a pass at the model gate.

A plain command needs none of it. Its guard is forked from a small program without these modules, which makes it small.
"""

from collections.abc import Callable

from fencepost.ports.store import StoreFacts
from fencepost.service.agent_events import Listening
from fencepost.service.channel import Message
from fencepost.service.command_order import Tools
from fencepost.service.guard_child import GuardChild, finish, prepare, start_child
from fencepost.service.model_pass import ModelPass, kept_pass
from fencepost.service.output import Output
from fencepost.service.run_order import Additions, RunOrder
from fencepost.service.wire import read


class GuardSkills:
    """The additions of one order, and how they are carried out."""

    def __init__(self, tools: Tools, order: RunOrder, facts: StoreFacts) -> None:
        assert order.additions is not None
        self._tools, self._order, self._facts = tools, order, facts
        self._added: Additions = read(order.additions)

    @property
    def has_pass(self) -> bool:
        """Whether the run's calls of a model pass the model gate."""
        return self._added.model is not None

    def prepare(self) -> GuardChild | None:
        """Start what is to be done before the agent starts; None if that is nothing."""
        order, added = self._order, self._added
        if not (order.lease.gates or added.predecessors or added.apart or added.model):
            return None
        return self._start(lambda tools: prepare(order, added, tools))

    def finish(self, worktree: Message, *, succeeded: bool) -> GuardChild:
        """Start what is to be done when the agent has ended in its worktree."""
        order, added = self._order, self._added
        return self._start(lambda tools: finish(order, added, worktree, tools, succeeded=succeeded))

    def _start(self, work: Callable[[Tools], Message]) -> GuardChild:
        return start_child(work, self._tools, self._facts, {**self._order.env, **self._added.gate_env})

    def keep_pass(self, deadline_ns: int) -> ModelPass | None:
        """Become the keeper of the run's pass; None if the model gate is gone."""
        assert self._added.model is not None, "it has a pass"
        order = self._added.model.on(counts_sleep=self._facts.counts_sleep)
        return kept_pass(order, self._tools.clock, deadline_ns=deadline_ns)

    def listen(self, output: Output, errors: Output, now_ns: Callable[[], int]) -> Listening | None:
        """Listen to the agent, if its output is understood."""
        added = self._added
        if added.manner is None:
            return None
        return Listening(
            added.manner,
            self._order.session,
            output=output,
            errors=errors,
            now_ns=now_ns,
            budget_micro=added.budget_micro,
            so_far=added.so_far,
        )

    @property
    def understands(self) -> bool:
        """Whether the agent's output is understood."""
        return self._added.manner is not None
