"""A guarded command's way to the model gate: its pass, which the supervisor keeps open for as long as the lease holds."""

from collections.abc import Callable, Mapping
from os.path import basename

from fencepost.gates.model.recipes import scrubbed
from fencepost.model.errors import GateUnreachable, Misconfigured
from fencepost.service.command_order import ModelWish, Tools
from fencepost.service.custody import Term
from fencepost.service.end_reasons import PASSED_SECONDS
from fencepost.service.model_gate_client import open_pass
from fencepost.service.model_gate_setup import Way, way_to
from fencepost.service.model_pass import FAR_SECONDS, ModelPass, kept_pass

START_SECONDS, LOOK_SECONDS = 20.0, 0.05


class CommandModel:
    """One pass, from before the lease to the end of the command."""

    MOMENT_SECONDS = PASSED_SECONDS

    def __init__(self, wish: ModelWish, tools: Tools, *, wait: Callable[[float], None]) -> None:
        assert tools.model_gate is not None, "who lets a command ask for the gate has one"
        self._wish, self._gate = wish, tools.model_gate()
        self._wait, self._say, self._clock = wait, tools.say, tools.clock
        self._way: Way | None = None
        self._pass: ModelPass | None = None
        self.is_over = False  # a call would have passed its budget

    def await_gate(self) -> None:
        """Wait until the gate is there, or raise why it is not; best before there is a lease to hold meanwhile."""
        for _ in range(round(START_SECONDS / LOOK_SECONDS)):
            if self._gate.port() is not None:
                return
            if self._gate.trouble:
                raise Misconfigured(f"the model gate does not start: {self._gate.trouble}")
            self._wait(LOOK_SECONDS)
        raise GateUnreachable(f"the model gate did not start within {START_SECONDS:.0f} s.")

    def open(self, run_id: str, program: str, term: Term) -> None:
        """Have a pass made, and open it until the lease's deadline."""
        self.await_gate()
        self._way = way_to(self._gate, self._wish, basename(program), run_id)
        order = self._way.order.on(counts_sleep=term.counts_sleep)
        open_pass(order)
        self._pass = kept_pass(order, self._clock, deadline_ns=term.deadline_ns)
        if self._pass is None:
            raise GateUnreachable("the model gate is gone.")

    def environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return the command's environment: with the gate's address, and without what leads past it."""
        assert self._way is not None, "it was opened"
        return {**scrubbed(env, self._wish.key), **self._way.recipe.env}

    def argv(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        """Return the command's words; a CLI that goes by more than variables gets them behind its name."""
        assert self._way is not None, "it was opened"
        return (argv[0], *self._way.recipe.args, *argv[1:])

    def fds(self) -> list[int]:
        """Return what is to be waited for."""
        return self._pass.fds() if self._pass else []

    def left_seconds(self) -> float:
        """Return when to look at the gate again, also where it says nothing."""
        return self._pass.left_seconds() if self._pass else FAR_SECONDS

    def hears_of_the_end(self) -> bool:
        """Hear what the gate has to say; True once, when a call would have passed the budget."""
        was_over = self.is_over
        if self._pass is not None:
            self._hear(self._pass)
        return self.is_over and not was_over

    def _hear(self, kept: ModelPass) -> None:
        for message in kept.hear():
            if "gone" in message:
                self._gate.port()  # which starts another one
            elif "said" in message:
                self._say(str(message["said"]))
            elif "over" in message and not self.is_over:
                self.is_over = True
                self._say(str(message["over"]))

    def extend(self, deadline_ns: int) -> None:
        """Keep the pass open as long as the lease holds now."""
        if self._pass is not None:
            self._pass.extend(deadline_ns)

    def close(self) -> None:
        """Let no call pass any more."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None
