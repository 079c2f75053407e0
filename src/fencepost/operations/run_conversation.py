"""A run's output as a conversation, for agents whose events are understood."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fencepost.config.presets import shipped
from fencepost.engines.cli import definition_of
from fencepost.model.cli_definition import definition_from
from fencepost.model.conversation import Conversation, ConversationTurn, TurnKind, turns_of
from fencepost.model.definition import agent_from_json
from fencepost.model.errors import Invalid
from fencepost.model.output_rules import OutputRules
from fencepost.operations.phrases import readable
from fencepost.ports.runs import RunRow


@dataclass(slots=True)
class AnsweredTurn:
    """A turn with the answers to its calls: what a person reads as one."""

    turn: ConversationTurn
    answer: ConversationTurn | None = None
    grew_micro: int = 0  # what was added to the cost since the turn before
    text: str = field(init=False)
    answered: str = field(init=False, default="")

    def __post_init__(self) -> None:
        self.text = readable(self.turn.text)
        if self.answer is not None:
            self.answered = readable(self.answer.text)


def rules_for(run: RunRow) -> OutputRules | None:
    """Return how the run's agent is read, if it speaks in events."""
    try:
        agent = agent_from_json(run.manifest)
        if agent.engine == "claude":
            rules = definition_from(shipped("claude")).output
        elif agent.engine == "cli":
            rules = definition_of(agent).output
        else:
            return None
    except Invalid:  # of a newer program; its output is still text
        return None
    return rules if rules.format == "jsonl" else None


def conversation(run: RunRow, text: str) -> list[AnsweredTurn] | None:
    """Return a run's output as people read it, oldest first; None: it is no conversation."""
    rules = rules_for(run)
    turns = turns_of(text.splitlines(), rules) if rules is not None else None
    return None if turns is None else exchanges(turns)


def talk_of(run: RunRow) -> Conversation | None:
    """Return a reader for a run's output as it comes; None: it is no conversation."""
    rules = rules_for(run)
    return None if rules is None else Conversation(rules)


def exchanges(turns: Iterable[ConversationTurn]) -> list[AnsweredTurn]:
    """Put each answer to its call; an answer without one stands by itself."""
    found: list[AnsweredTurn] = []
    calls: dict[str, int] = {}
    cost = 0
    for turn in turns:
        grew = max(0, (turn.cost_micro or 0) - cost)
        cost += grew
        if turn.part is TurnKind.ANSWER and turn.id in calls:
            before = found[calls.pop(turn.id)]
            before.answer, before.answered = turn, readable(turn.text)
            before.grew_micro += grew
            continue
        if turn.part is TurnKind.CALL and turn.id:
            calls[turn.id] = len(found)
        found.append(AnsweredTurn(turn, grew_micro=grew))
    return found
