"""An agent's output as a conversation: what was said, which tools were called and what they answered, what it has cost.

The rules say where each of these stands in the events of the agents that are known; unlike those of `transcript`, they do
not decide anything, and belong to no manifest. What costs so far is read by the transcript itself.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from fencepost.model.json_path import find, spelled
from fencepost.model.output_rules import OutputRules
from fencepost.model.transcript import Transcript

TEXT_MAX = 20_000
TURNS_MAX = 2_000


class TurnKind(StrEnum):
    """What a turn is."""

    SAID = "said"
    ASKED = "asked"
    THOUGHT = "thought"
    CALL = "call"
    ANSWER = "answer"
    END = "end"
    OTHER = "other"  # a line that is no event, such as a warning on standard error


class TurnPlace(NamedTuple):
    """Where turns stand: in which events, which element is one, and where its text, name and id are in there."""

    part: TurnKind
    when: tuple[tuple[str, str], ...]
    each: str = ""  # a path to the elements; empty: the event itself
    text: str = ""
    name: str = ""
    id: str = ""
    bad: str = ""  # a path to what says that it went wrong


@dataclass(frozen=True, slots=True)
class ConversationTurn:
    """One thing that was said or done, with what the attempt had cost by then."""

    part: TurnKind
    text: str
    name: str = ""
    id: str = ""
    bad: bool = False
    cost_micro: int | None = None
    llm_tokens: int = 0  # likewise; most agents tell what it cost only at the end


MESSAGES = "message.content"
PLACES = (
    # Claude Code, Amp and Cursor: messages of parts
    TurnPlace(TurnKind.SAID, (("type", "assistant"),), f"{MESSAGES}[type=text]", "text"),
    TurnPlace(TurnKind.THOUGHT, (("type", "assistant"),), f"{MESSAGES}[type=thinking]", "thinking"),
    TurnPlace(TurnKind.CALL, (("type", "assistant"),), f"{MESSAGES}[type=tool_use]", "input", "name", "id"),
    TurnPlace(
        TurnKind.ANSWER, (("type", "user"),), f"{MESSAGES}[type=tool_result]", "content", "", "tool_use_id", "is_error"
    ),
    TurnPlace(TurnKind.ASKED, (("type", "user"),), f"{MESSAGES}[type=text]", "text"),
    TurnPlace(TurnKind.END, (("type", "result"), ("subtype", "*")), "", "result", "", "", "is_error"),
    # Cursor: calls are events of their own
    TurnPlace(TurnKind.CALL, (("type", "tool_call"), ("subtype", "started")), "", "tool_call", "", "call_id"),
    TurnPlace(TurnKind.ANSWER, (("type", "tool_call"), ("subtype", "completed")), "", "tool_call", "", "call_id"),
    # Codex tells items, which begin and end
    TurnPlace(TurnKind.SAID, (("type", "item.completed"), ("item.type", "agent_message")), "item", "text"),
    TurnPlace(TurnKind.THOUGHT, (("type", "item.completed"), ("item.type", "reasoning")), "item", "text"),
    TurnPlace(
        TurnKind.CALL, (("type", "item.started"), ("item.type", "command_execution")), "item", "command", "type", "id"
    ),
    TurnPlace(
        TurnKind.CALL, (("type", "item.started"), ("item.type", "mcp_tool_call")), "item", "arguments", "tool", "id"
    ),
    TurnPlace(
        TurnKind.ANSWER,
        (("type", "item.completed"), ("item.type", "command_execution")),
        "item",
        "aggregated_output",
        "",
        "id",
    ),
    TurnPlace(
        TurnKind.ANSWER, (("type", "item.completed"), ("item.type", "mcp_tool_call")), "item", "result", "", "id"
    ),
    TurnPlace(TurnKind.END, (("type", "turn.failed"),), "error", "message", "", "", "message"),
    # Gemini: messages and tools side by side
    TurnPlace(TurnKind.SAID, (("type", "message"), ("role", "assistant")), "", "content"),
    TurnPlace(TurnKind.ASKED, (("type", "message"), ("role", "user")), "", "content"),
    TurnPlace(TurnKind.CALL, (("type", "tool_use"), ("tool_id", "*")), "", "parameters", "tool_name", "tool_id"),
    TurnPlace(TurnKind.ANSWER, (("type", "tool_result"), ("tool_id", "*")), "", "output", "", "tool_id"),
    # goose
    TurnPlace(TurnKind.SAID, (("type", "message"), ("message.role", "assistant")), f"{MESSAGES}[type=text]", "text"),
    TurnPlace(TurnKind.CALL, (("type", "message"),), f"{MESSAGES}[type=toolRequest]", "toolCall", "", "id"),
    TurnPlace(TurnKind.ANSWER, (("type", "message"),), f"{MESSAGES}[type=toolResponse]", "toolResult", "", "id"),
    # Copilot: what happens stands in `data`
    TurnPlace(TurnKind.SAID, (("type", "assistant.message"),), "data", "content"),
    TurnPlace(TurnKind.CALL, (("type", "tool.execution_start"),), "data", "arguments", "toolName", "toolCallId"),
    TurnPlace(TurnKind.ANSWER, (("type", "tool.execution_complete"),), "data", "result.content", "", "toolCallId"),
    TurnPlace(TurnKind.END, (("type", "session.error"),), "data", "message", "", "", "message"),
    # Cline: what happens stands in `event`
    TurnPlace(TurnKind.SAID, (("event.type", "content_end"), ("event.contentType", "text")), "event", "text"),
    TurnPlace(
        TurnKind.CALL,
        (("event.type", "content_start"), ("event.contentType", "tool")),
        "event",
        "input",
        "toolName",
        "toolCallId",
    ),
    TurnPlace(
        TurnKind.ANSWER,
        (("event.type", "content_end"), ("event.contentType", "tool")),
        "event",
        "output",
        "",
        "toolCallId",
    ),
    TurnPlace(TurnKind.END, (("event.type", "error"),), "event", "error.message", "", "", "error"),
    # opencode: each part is an event
    TurnPlace(TurnKind.SAID, (("type", "text"),), "part", "text"),
    TurnPlace(TurnKind.CALL, (("type", "tool_use"), ("part.tool", "*")), "part", "state.input", "tool", "callID"),
    TurnPlace(
        TurnKind.ANSWER, (("type", "tool_use"), ("part.state.output", "*")), "part", "state.output", "", "callID"
    ),
)


class Conversation:
    """Reads an agent's output line by line, and yields its turns."""

    def __init__(self, rules: OutputRules) -> None:
        """Read by the rules of the agent's definition what it costs."""
        self._transcript = Transcript(rules)
        self.events = 0  # that were understood

    def hear(self, line: str) -> Iterator[ConversationTurn]:
        """Take in one line, and yield what is in it; nothing for events that say nothing to people."""
        self._transcript.hear(line.encode())
        so_far = self._transcript.cost, sum(self._transcript.usage.values())
        event = _event(line)
        if event is None:
            if line.strip():
                yield ConversationTurn(TurnKind.OTHER, line.rstrip()[:TEXT_MAX])
            return
        self.events += 1
        for place in PLACES:
            if all(_holds(event, path, wanted) for path, wanted in place.when):
                for one in find(event, place.each) if place.each else [event]:
                    yield from _turn(place, one, so_far)


def turns_of(lines: Iterable[str], rules: OutputRules) -> list[ConversationTurn] | None:
    """Return the newest turns of an output; None if it is no conversation."""
    talk = Conversation(rules)
    found = [turn for line in lines for turn in talk.hear(line)]
    if not talk.events or not any(one.part is not TurnKind.OTHER for one in found):
        return None
    return found[-TURNS_MAX:]


def _turn(place: TurnPlace, one: Any, so_far: tuple[int | None, int]) -> Iterator[ConversationTurn]:  # noqa: ANN401  # JSON of any shape
    if not isinstance(one, dict):
        return
    text = _text(next(iter(find(one, place.text)), None))
    if not text and place.part not in (TurnKind.CALL, TurnKind.ANSWER):
        return
    name = _text(next(iter(find(one, place.name)), None)) if place.name else ""
    call = _text(next(iter(find(one, place.id)), None)) if place.id else ""
    bad = bool(place.bad) and any(value not in (False, None, "") for value in find(one, place.bad))
    yield ConversationTurn(place.part, text[:TEXT_MAX], name[:200], call[:200], bad, *so_far)


def _text(value: Any) -> str:  # noqa: ANN401  # likewise
    """Spell what was found: text as it is, the texts of a list of parts, everything else as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if (
        isinstance(value, list)
        and value
        and all(isinstance(one, dict) and isinstance(one.get("text"), str) for one in value)
    ):
        return "\n".join(one["text"] for one in value)
    return json.dumps(value, ensure_ascii=False)


def _holds(event: Any, path: str, wanted: str) -> bool:  # noqa: ANN401  # likewise
    found = find(event, path)
    return bool(found) if wanted == "*" else any(spelled(one) == wanted for one in found)


def _event(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None
