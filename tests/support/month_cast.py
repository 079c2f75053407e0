"""Who plays in the simulated month: agents, schedules, workers, and what an agent prints while it works."""

import json
from collections.abc import Iterator, Sequence
from random import Random  # noqa: TID251  # seeded: the same month every time
from typing import NamedTuple

from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.process import Host, ProcessId
from fencepost.model.project import Workplace

BERLIN = "Europe/Berlin"
OTHERS = "harbor-legal"  # a second tenant, whose things the first never sees
WORKERS = tuple(
    ProcessId(Host(name, f"machine-{name}", f"boot-{name}", "pid:1"), pid, "1")
    for name, pid in (("tower", 4711), ("mini", 812), ("cellar", 3077))
)


class Habit(NamedTuple):
    """How an agent usually works: minutes, dollars, and of a hundred attempts how many fail."""

    minutes: float
    dollars: float | None = None
    fails: float = 1.0


HABITS = {
    "triage": Habit(13.0, 0.36, 1.2),
    "reviewer": Habit(17.0, 0.84, 1.5),
    "bumper": Habit(38.0, 1.92, 6.0),
    "gardener": Habit(24.0, 0.66, 2.0),
    "digest": Habit(4.0, 0.05, 1.0),
    "sweep": Habit(3.0, None, 1.5),
    "importer": Habit(6.5, None, 22.0),
    "ledger-close": Habit(51.0, 3.40, 0.0),
    "intake": Habit(7.0, 0.22, 2.0),
}
AGENTS = (
    AgentDefinition("triage", engine="claude", prompt="Sort the inbox.", budget_usd="1", on_lost="resume"),
    AgentDefinition(
        "reviewer",
        engine="claude",
        prompt="Review what is new on {payload}.",
        project="checkout-api",
        budget_usd="2.50",
        on_lost="resume",
    ),
    AgentDefinition(
        "bumper",
        engine="claude",
        prompt="Bring the dependencies up to date.",
        project="checkout-api",
        budget_usd="5",
        on_lost="resume",
        max_attempts=2,
        timeout="2h",
    ),
    AgentDefinition(
        "gardener",
        engine="claude",
        prompt="Weed the handbook.",
        project="handbook",
        on_lost="resume",
        max_attempts=3,
        backoff="5m",
    ),
    AgentDefinition("digest", command=("python", "digest.py")),
    AgentDefinition("sweep", command=("python", "sweep.py"), writes=False, max_attempts=3, on_lost="restart"),
    AgentDefinition("importer", command=("python", "import.py"), max_attempts=3, backoff="4m", on_lost="restart"),
    AgentDefinition(
        "ledger-close",
        engine="claude",
        prompt="Close the month. Period: {period_start} to {period_end}",
        gates=("ledger-db",),
        gate_definitions={"ledger-db": {"kind": "sql", "url": "env:LEDGER_URL"}},
        budget_usd="5",
        timeout="3h",
    ),
)
SCHEDULES = (
    ScheduleDefinition(
        "inbox-triage",
        "triage",
        cron="*/30 8-18 * * 1-5",
        timezone=BERLIN,
        budget_usd_per_day="9.50",
        calendar=("2027-03-26", "2027-03-29"),  # Good Friday, Easter Monday
    ),
    ScheduleDefinition("checkout-review", "reviewer", cron="10,40 9-17 * * 1-5", timezone=BERLIN, overlap="queue"),
    ScheduleDefinition("dependency-bump", "bumper", cron="15 3 * * *", timezone=BERLIN),
    ScheduleDefinition("handbook-gardener", "gardener", cron="0 */4 * * *", timezone="UTC", missed="coalesce"),
    ScheduleDefinition("nightly-digest", "digest", cron="30 2 * * *", timezone=BERLIN),
    ScheduleDefinition("cache-sweep", "sweep", cron="0 */2 * * *", timezone="UTC", missed="coalesce"),
    ScheduleDefinition("supplier-import", "importer", cron="30 6,12,18 * * *", timezone=BERLIN),
    ScheduleDefinition("harbor-close-monthly", "ledger-close", cron="0 2 1 * *", timezone="America/New_York"),
    ScheduleDefinition(
        "weekly-report", "digest", cron="0 8 * * 1", timezone=BERLIN, calendar=("2027-03-29",), missed="coalesce"
    ),
)
OTHER_AGENTS = (AgentDefinition("intake", engine="claude", prompt="Read new matters."),)
OTHER_SCHEDULES = (ScheduleDefinition("matter-intake", "intake", cron="0 9,15 * * 1-5", timezone="America/New_York"),)
PLACES = tuple(
    Workplace(tenant, name, f"project:{name}", f"/srv/{name}", 1, isolated=False)
    for tenant, name in (("default", "checkout-api"), ("default", "handbook"))
)

STEPS: dict[str, Sequence[tuple[str, str, dict[str, str], str]]] = {
    "triage": (
        ("I read what came in since the last run.", "Bash", {"command": "mail list --since last"}, "14 new messages"),
        ("Two of them ask for an answer today.", "Read", {"file_path": "mail/2291.eml"}, "Subject: invoice 8841 …"),
        ("I draft the answer and put it aside for a person.", "Write", {"file_path": "drafts/2291.md"}, "written"),
    ),
    "reviewer": (
        (
            "I look at the open changes first.",
            "Bash",
            {"command": "gh pr list --json number,title"},
            "#412 Retry refunds",
        ),
        ("The retry has no upper bound. I check its caller.", "Grep", {"pattern": "retry_refund"}, "refunds.py:88"),
        ("The tests cover the first retry only.", "Bash", {"command": "pytest tests/refunds -q"}, "31 passed in 4.2s"),
        ("I leave one comment, with a test that shows it.", "Bash", {"command": "gh pr comment 412 -F note"}, "ok"),
    ),
    "bumper": (
        ("Three packages have newer releases.", "Bash", {"command": "uv pip list --outdated"}, "httpx, pydantic, ruff"),
        ("One at a time, with the tests after each.", "Edit", {"file_path": "pyproject.toml"}, "2 lines changed"),
        ("Ruff found two new things; both are ours.", "Bash", {"command": "make check"}, "All checks passed"),
    ),
    "gardener": (
        ("I look for pages that no longer match the code.", "Grep", {"pattern": "deprecated"}, "onboarding.md:41"),
        ("The page names a flag that is gone.", "Edit", {"file_path": "onboarding.md"}, "1 line changed"),
    ),
}
SUMMARIES = {
    "triage": "14 messages sorted, 2 drafts wait for you.",
    "reviewer": "One comment on #412: the retry of refunds has no upper bound.",
    "bumper": "httpx and ruff are up to date; pydantic waits for its next release.",
    "gardener": "3 pages mended, 1 dead link taken out.",
    "digest": "48 messages, 6 threads worth a line.",
    "sweep": "swept 312 files",
    "importer": "1,204 rows from 3 suppliers",
    "ledger-close": "The month is closed: 2,310 postings, no difference.",
    "intake": "2 new matters, both routed.",
}
TROUBLE = {
    "importer": "supplier feed 2: HTTP 502 Bad Gateway",
    "reviewer": "error: could not lock config file .git/config: File exists",
    "bumper": "make check: 1 failed, 822 passed",
}


def printed(agent: str, dice: Random, *, session: str, dollars: float, ends: bool, good: bool) -> str:
    """Return what an attempt prints first, or in the end: events for agents that speak in them, plain lines for others."""
    if agent not in STEPS:
        words = SUMMARIES[agent] if good else TROUBLE.get(agent, "Traceback: connection refused")
        return f"{words}\n" if ends else "Reading the period\ncheckpoint: part 1 of 2\n"
    events = _ending(agent, dice, dollars, good=good) if ends else _beginning(agent, dice, session)
    return "".join(f"{json.dumps(one)}\n" for one in events)


def _beginning(agent: str, dice: Random, session: str) -> Iterator[dict[str, object]]:
    yield {"type": "system", "subtype": "init", "session_id": session, "model": "sonnet", "cwd": f"/srv/{agent}"}
    yield from _steps(agent, dice, STEPS[agent][:2], first=1)


def _ending(agent: str, dice: Random, dollars: float, *, good: bool) -> Iterator[dict[str, object]]:
    yield from _steps(agent, dice, STEPS[agent][2:], first=3)
    words = SUMMARIES[agent] if good else TROUBLE.get(agent, "API Error: 529 overloaded")
    yield {
        "type": "result",
        "subtype": "success",
        "is_error": not good,
        "num_turns": len(STEPS[agent]),
        "result": words,
        "total_cost_usd": round(dollars, 4),
        "modelUsage": {"sonnet": {"inputTokens": dice.randrange(9000, 40000), "outputTokens": 2100}},
    }


def _steps(
    agent: str, dice: Random, steps: Sequence[tuple[str, str, dict[str, str], str]], *, first: int
) -> Iterator[dict[str, object]]:
    for number, (text, tool, given, answer) in enumerate(steps, first):
        call = f"toolu_{agent}_{number:02d}"
        usage = {"input_tokens": dice.randrange(900, 4000), "output_tokens": dice.randrange(80, 600)}
        content = [{"type": "text", "text": text}, {"type": "tool_use", "id": call, "name": tool, "input": given}]
        yield {"type": "assistant", "message": {"id": f"msg_{number}", "content": content, "usage": usage}}
        back = {"type": "tool_result", "tool_use_id": call, "content": answer}
        yield {"type": "user", "message": {"content": [back]}}
