"""The reference page on run states, written from the table that the code obeys."""

from collections.abc import Iterable
from enum import StrEnum

from fencepost.model.disposition import DispositionKind
from fencepost.model.run import MOVES, Move, Reason, RunState, TriggerKind

NOTE = "<!-- Written from the table in fencepost.model.run; a test compares them and says how to renew this page. -->"

STATES = {
    RunState.READY: "waits in the queue; leasable once its `ready_at` has come",
    RunState.RUNNING: "a worker holds its lease",
    RunState.SUCCEEDED: "ended well; nothing changes it any more",
    RunState.DEAD: "a dead letter: it needs a person; a replay is a new run that is linked to it",
    RunState.CANCELLED: "a person or a policy decided against it",
}

TRIGGERS = {
    TriggerKind.CRON: "a tick of a cron expression",
    TriggerKind.EVERY: "a tick some time after its predecessor ended",
    TriggerKind.AT: "the one tick of a one-shot",
    TriggerKind.WEBHOOK: "a signed request from outside",
    TriggerKind.MANUAL: "`fencepost run`",
    TriggerKind.REPLAY: "`fencepost dead replay`",
    TriggerKind.BACKFILL: "`fencepost schedule backfill`",
    TriggerKind.EXEC: "`fencepost exec`; no policy cancels it",
    TriggerKind.SESSION: "a person's own agent session, announced by a hook; no policy cancels it",
}

REASONS = {
    Reason.RETRY: "it failed, and attempts are left",
    Reason.RESUME: 'its end is not known; it goes on where it was (`on_lost = "resume"`)',
    Reason.RESTART: 'its end is not known; it begins again (`on_lost = "restart"`)',
    Reason.LOST_BEFORE_START: "its worker was lost before the agent started; uses no attempt",
    Reason.GATE_UNREACHABLE: "a gate could not be raised, so the agent was not started; uses no attempt",
    Reason.DRAINED: "its worker was asked to stop and handed it back; uses no attempt",
    Reason.CANCELLED: "a person cancelled it",
    Reason.OVERLAP: "a newer run took its place",
    Reason.DISABLED: "its schedule was retired while it waited",
    Reason.PAUSED: "its schedule was paused while it waited",
    Reason.CALENDAR: "a blackout had begun when its turn came",
    Reason.BUDGET: "no money, time or place in the hour was left",
    Reason.EXIT_CODE: "the agent ended with a code that is not to be retried, or no attempt is left",
    Reason.AGENT_ERROR: "the agent said itself that it failed, whatever its exit code was, or never said that it was done",
    Reason.AMBIGUOUS: "the agent ended, and it is not known how far it got",
    Reason.LOST: "its worker was lost after the agent had started",
    Reason.TIMEOUT: "it ran longer than `timeout`",
    Reason.STALL_TIMEOUT: "it showed no progress for `stall_timeout`",
    Reason.QUEUE_TIMEOUT: "it waited longer than `queue_timeout`",
    Reason.INTERRUPTED: "its worker stopped, and it can neither be resumed nor begun again",
    Reason.FENCE_REFUSED: "a gate had seen a newer fence",
    Reason.IN_DOUBT: "an effect that it asked for is in doubt in the ledger; a person says what became of it: `fencepost ledger list`",
    Reason.DIVERGED: "begun again, it asked for another effect than before, while those of before are unexplained: `fencepost ledger list`",
    Reason.FENCE_REGRESS: "a gate had seen a fence that its store has not given out yet",
    Reason.MISCONFIGURED: "its agent cannot work as it is set up: it could not be started, or its key was refused",
}

DISPOSITIONS = {
    DispositionKind.RUN: "a run was made for it, whatever became of that run",
    DispositionKind.MISSED: "no scheduler was there in time, and no catch-up was due",
    DispositionKind.OVERLAP: "earlier runs of the schedule were in its way",
    DispositionKind.DST_GAP: "its wall time did not exist that day",
    DispositionKind.COALESCED: "a later tick's run covers it",
    DispositionKind.PAUSED: "the schedule was paused, everything was halted, or the tick was to be skipped",
    DispositionKind.BUDGET: "no money, time or place in the hour was left",
    DispositionKind.CALENDAR: "it fell into a blackout",
}


def why_so(reason: str | None) -> str:
    """Say in words why a run moved."""
    if reason is None:
        return ""
    known = {one.value: words for one, words in REASONS.items()}
    return known.get(reason, reason).replace("`", "")


def fate(reason: str | None, exit_code: int | None) -> str:
    """Say in words why a run ended, with the agent's own code where there is one."""
    if reason == Reason.EXIT_CODE and exit_code is not None:
        return f"the agent exited with code {exit_code}"
    return why_so(reason) + (f" (exit code {exit_code})" if exit_code is not None else "")


def render() -> str:
    """Write the whole page."""
    return (
        "\n\n".join(
            [
                "# Run states",
                NOTE,
                f"```mermaid\n{mermaid()}\n```",
                _table("state", STATES.items()),
                "## Moves",
                "A state that no move leaves is the end: news that comes later changes nothing.",
                _moves(),
                "## Reasons",
                _table("reason", REASONS.items()),
                "## Triggers",
                "Runs of `cron`, `every` and `at` are born of a tick; only they are ever skipped or displaced.",
                _table("trigger", TRIGGERS.items()),
                "## Dispositions of a tick",
                "Every owed tick has exactly one. A disposition may cover a range of ticks.",
                _table("disposition", DISPOSITIONS.items()),
            ]
        )
        + "\n"
    )


def mermaid() -> str:
    """Draw the states and their moves."""
    lines = ["stateDiagram-v2", f"    [*] --> {RunState.READY}"]
    lines += [f"    {move.origin} --> {move.target}: {_label(move)}" for move in MOVES]
    lines += [f"    {state} --> [*]" for state in RunState if state.terminal]
    return "\n".join(lines)


def _label(move: Move) -> str:
    return ", ".join(_in_order(move)) or move.verb


def _moves() -> str:
    rows = [f"| `{one.origin}` | `{one.target}` | {_quoted(_in_order(one))} |" for one in MOVES]
    return "\n".join(["| from | to | reasons |", "|---|---|---|", *rows])


def _quoted(reasons: list[Reason]) -> str:
    return ", ".join(f"`{reason}`" for reason in reasons) or "none needed"


def _in_order(move: Move) -> list[Reason]:
    return [reason for reason in Reason if reason in move.reasons]


def _table(head: str, meanings: Iterable[tuple[StrEnum, str]]) -> str:
    rows = [f"| `{word}` | {meaning} |" for word, meaning in meanings]
    return "\n".join([f"| {head} | means |", "|---|---|", *rows])
