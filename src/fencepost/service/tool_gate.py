"""Looks at what passes between an agent and an MCP server: each call of a tool needs the lease, each write its record.

What is passed on was read here and is written anew; what is refused is answered here and never reaches the server.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from fencepost.model import mcp
from fencepost.model.errors import FencepostError, InDoubt, StoreUnavailable
from fencepost.model.mcp import Message, ToolCall
from fencepost.model.mcp_frame import Unreadable, asked_in, one_line, read_answers, read_frame, write_line

Ask = Callable[..., Mapping[str, Any]]  # a verb and its fields to the run's supervisor; raises what is refused

COMPLETE_TRIES = 20  # a store that is being restarted comes back; the effect has taken place and wants its record
COMPLETE_AGAIN_SECONDS = 0.5


class Rules(NamedTuple):
    """What the user says about a server and its tools."""

    server: str
    writes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    key_args: Mapping[str, tuple[str, ...]] = {}
    resumed: bool = False  # this attempt goes on where an earlier one was, so its calls are counted on


class Passage(NamedTuple):
    """What becomes of a frame from the agent: what the server gets, and what the agent is answered from here."""

    onward: bytes = b""
    back: bytes = b""


class Begun(NamedTuple):
    """A write that is under way, as the ledger knows it."""

    name: str
    entry: str
    call: str

    def fields(self) -> dict[str, str]:
        """Spell it for the supervisor."""
        return {"name": self.name, "entry": self.entry, "call": self.call}


class ToolGate:
    """Judges one frame after the other; `ask` is None where no run is to be asked and all may pass."""

    def __init__(
        self, rules: Rules, ask: Ask | None, *, wait: Callable[[float], None], say: Callable[[str], None]
    ) -> None:
        self._rules = rules
        self._ask = ask
        self._wait = wait
        self._say = say
        self._me = os.urandom(8).hex()
        self._read_only: dict[str, bool] = {}
        self._listings: set[str] = set()
        self._begun: dict[str, Begun] = {}

    def from_agent(self, line: bytes) -> Passage:
        """Judge a frame from the agent."""
        if self._ask is None:
            return Passage(line)
        if not line.strip():
            return Passage()
        try:
            frame = read_frame(line)
        except Unreadable as error:
            return Passage(back=_unreadable(line, str(error)))
        kept: list[Message] = []
        answers: list[Message] = []
        for message in frame.messages:
            self._note(message)
            call = mcp.call_of(message)
            verdict = self._judge(call) if call is not None else None
            if verdict is None:
                kept.append(message)
            elif verdict:
                answers.append(verdict)
        return Passage(frame.without(kept), _answers(answers))

    def from_server(self, line: bytes) -> bytes:
        """Record what a frame from the server says about writes, and return what was read of it."""
        if self._ask is None:
            return line
        frame = read_answers(line)
        if frame is None:
            return one_line(line)  # some servers print to their standard output; the agent sees what it would have seen
        for message in frame.messages if self._begun or self._listings else ():
            if "method" not in message:
                self._answered(mcp.id_of(message), message)
        return frame.line

    def unanswered(self, call_id: str, why: str, *, sent: bool) -> bytes:
        """Say that no answer will come to a request, and answer it; a write that may have arrived is in doubt."""
        begun = self._begun.pop(call_id, None)
        if begun is not None and sent:
            self._doubt(begun, why)
        elif begun is not None:
            self._tell("tool_release", begun)
        return write_line(mcp.protocol_error(mcp.UPSTREAM_ERROR, why, call_id))

    def end(self, why: str) -> None:
        """Leave every write in doubt that has no answer."""
        for call_id in list(self._begun):
            begun = self._begun.pop(call_id, None)
            if begun is not None:
                self._doubt(begun, why)

    def _note(self, message: object) -> None:
        """Remember who asked for the tools, and which writes the agent no longer waits for."""
        if isinstance(message, dict) and message.get("method") == mcp.LIST and mcp.id_of(message):
            self._listings.add(mcp.id_of(message))
        begun = self._begun.pop(mcp.cancelled_by(message), None)
        if begun is not None:
            self._doubt(begun, "the agent cancelled the call")

    def _judge(self, call: ToolCall) -> Message | None:
        """Return None to let the call pass, the answer to give instead, or nothing where no caller waits for one."""
        try:
            if not self._writes(call.tool):
                self._asked("check")
                return None
            if not call.id:
                raise InDoubt(f"{call.tool} writes, and a call without an id has no answer that could be recorded.")
            return self._judge_write(call)
        except FencepostError as error:
            self._say(f"{call.tool}: {error}")
            return mcp.refusal(call, str(error)) if call.id else {}

    def _judge_write(self, call: ToolCall) -> Message | None:
        if call.id in self._begun:
            return mcp.protocol_error(mcp.INVALID_REQUEST, "a request with this id is under way.", call.id)
        name = mcp.name_of(self._rules.server, call, self._rules.key_args.get(call.tool))
        fields = {"name": name, "call": os.urandom(12).hex()}
        resume = "1" if self._rules.resumed else ""
        told = self._asked("tool_begin", **fields, gateway=self._me, resume=resume)
        if told["verdict"] == "answered":
            return mcp.response(call.id, _recorded(str(told["answer"]), modern=call.modern))
        if told["verdict"] != "new":
            raise InDoubt(str(told["message"]))
        self._begun[call.id] = Begun(name, str(told["entry"]), fields["call"])
        return None

    def _writes(self, tool: str) -> bool:
        if tool in self._rules.writes or tool in self._rules.reads:
            return tool in self._rules.writes
        return not self._read_only.get(tool, False)

    def _answered(self, call_id: str, message: Message) -> None:
        if call_id in self._listings:
            self._listings.discard(call_id)
            self._read_only.update(mcp.read_only_tools(message.get("result")))
        begun = self._begun.pop(call_id, None)
        if begun is not None:
            self._complete(begun, mcp.kept_answer(message))

    def _complete(self, begun: Begun, answer: str) -> None:
        """Record the answer before the agent has it, however long the store takes to come back."""
        for left in reversed(range(COMPLETE_TRIES)):
            try:
                self._asked("tool_complete", **begun.fields(), answer=answer)
            except StoreUnavailable as error:
                if not left:
                    self._say(f"the answer of {begun.entry} could not be recorded: {error}")
                    return
                self._wait(COMPLETE_AGAIN_SECONDS)
            except FencepostError as error:
                self._say(f"the answer of {begun.entry} could not be recorded: {error}")
                return
            else:
                return

    def _doubt(self, begun: Begun, why: str) -> None:
        self._tell("tool_doubt", begun, why=why)

    def _tell(self, verb: str, begun: Begun, **more: str) -> None:
        try:
            self._asked(verb, **begun.fields(), **more)
        except FencepostError as error:
            self._say(f"{begun.entry} is in doubt, which could not be recorded: {error}")

    def _asked(self, verb: str, **fields: str) -> Mapping[str, Any]:
        assert self._ask is not None, "without a run nothing is judged"
        return self._ask(verb, **fields)


def _unreadable(line: bytes, why: str) -> bytes:
    """Answer every request of a frame that is refused as a whole, or say to no request in particular what is wrong."""
    words = f"this JSON does not mean the same to every reader ({why})."
    return _answers([mcp.protocol_error(mcp.PARSE_ERROR, words, number) for number in asked_in(line) or [""]])


def _answers(messages: list[Message]) -> bytes:
    return write_line(messages if len(messages) > 1 else messages[0]) if messages else b""


def _recorded(answer: str, *, modern: bool) -> dict[str, Any]:
    """Read a recorded answer; one that a person has given may be anything, and is shown as text."""
    found = json.loads(answer)
    if isinstance(found, dict) and len(found) == 1 and ("result" in found or "error" in found):
        return found
    return {"result": mcp.text_result(answer, failed=False, modern=modern)}


def rules_of(
    server: str, *, writes: Iterable[str], reads: Iterable[str], key_args: Iterable[str], resumed: bool
) -> Rules:
    """Read what stands on the command line."""
    from fencepost.model.errors import Invalid

    chosen = {}
    for text in key_args:
        tool, equals, names = text.partition("=")
        if not equals or not tool:
            raise Invalid(f"--key-args is TOOL=NAME,NAME, such as --key-args send_mail=to,subject; not {text!r}.")
        chosen[tool] = tuple(name for name in names.split(",") if name)
    both = frozenset(writes) & frozenset(reads)
    if both:
        raise Invalid(f"{min(both)} is named by --write and by --read; keep one of them.")
    return Rules(server, frozenset(writes), frozenset(reads), chosen, resumed)
