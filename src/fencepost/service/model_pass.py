"""The pass of one run at the model gate, in the hands of what holds its lease.

A gate that died comes back at the same port, and knows of no pass. So the pass is asked for again, with what was spent until then,
for as long as its keeper wants it.
"""

from _socket import AF_UNIX, SOCK_STREAM, socket

from fencepost.ports.clock import Clock
from fencepost.service.channel import Channel, Message
from fencepost.service.model_gate_client import ModelOrder, keep_pass

AGAIN_SECONDS = 1.0  # between two questions for a gate that is gone
FAR_SECONDS = 3600.0
ELSEWHERE = "fencepost: the model gate died and came back at another port, which this run does not know: its calls stay refused."


class ModelPass:
    """One pass, kept open for as long as the lease holds."""

    def __init__(self, order: ModelOrder, line: Channel, clock: Clock, *, deadline_ns: int) -> None:
        self._order, self._clock = order, clock
        self._line: Channel | None = line
        self._deadline_ns = deadline_ns
        self._again_ns: int | None = None  # None: never
        self._spent = self._held = 0
        self._usage: dict[str, int] = {}

    def fds(self) -> list[int]:
        """Return what is to be waited for."""
        return [self._line.fd] if self._line else []

    def left_seconds(self) -> float:
        """Return when the gate is to be asked for again."""
        if self._line is not None or self._again_ns is None:
            return FAR_SECONDS
        return max(0.0, (self._again_ns - self._clock.awake_ns()) / 1e9)

    def hear(self) -> list[Message]:
        """Return what the gate says, and `gone` where it has to be started."""
        if self._line is not None:
            return self._heard(self._line)
        if self._again_ns is None or self._clock.awake_ns() < self._again_ns:
            return []
        return [] if self._ask_again() else [{"gone": True}]

    def _heard(self, line: Channel) -> list[Message]:
        messages = line.receive()
        line.flush()
        for message in messages:
            self._spent = int(message.get("spent_micro", self._spent))
            self._held = int(message.get("held_micro", self._held))
            self._usage = message.get("usage", self._usage)
            if message.get("port", self._order.port) not in (self._order.port, 0):
                self.close()
                return [*messages, {"said": ELSEWHERE}]
        if not line.closed:
            return messages
        line.close()
        self._line, self._again_ns = None, self._clock.awake_ns()
        self._spent, self._held = (
            self._spent + self._held,
            0,
        )  # calls that were cut off count as what they may have cost
        return [
            *messages,
            *([{"spent_micro": self._spent, "usage": self._usage}] if self._spent else []),
            {"gone": True},
        ]

    def _ask_again(self) -> bool:
        """Ask for the pass without waiting for the answer; False if there is no gate."""
        self._again_ns = self._clock.awake_ns() + round(AGAIN_SECONDS * 1e9)
        connection = socket(AF_UNIX, SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(self._order.socket)
        except OSError:
            connection.close()
            return False
        self._line = Channel(connection)
        terms = {**self._order.terms, "spent_micro": self._spent, "usage": self._usage}
        shown, keeper = self._order.shown, self._order.keeper
        self._line.send(open=shown, keep=shown, keeper=keeper, terms=terms, deadline_ns=self._deadline_ns)
        return True

    def extend(self, deadline_ns: int) -> None:
        """Keep the pass open as long as the lease holds now."""
        self._deadline_ns = deadline_ns
        if self._line is not None:
            self._line.send(deadline_ns=deadline_ns)

    def close(self) -> None:
        """Let no call pass any more."""
        self._again_ns = None
        if self._line is not None:
            self._line.send(close=True)
            self._line.close()
            self._line = None


def kept_pass(order: ModelOrder, clock: Clock, *, deadline_ns: int) -> ModelPass | None:
    """Become the keeper of a pass that is open already; None if the gate is gone."""
    line = keep_pass(order, deadline_ns)
    return ModelPass(order, line, clock, deadline_ns=deadline_ns) if line else None
