"""Checks what a schedule's keys mean together, and builds its definition."""

from collections.abc import Sequence

from fencepost.config.check_shape import Checker, NamedSection
from fencepost.model.budget import never_affordable
from fencepost.model.cron import parse_cron
from fencepost.model.definition import (
    AgentDefinition,
    ScheduleDefinition,
    calendar_of,
    policies_of,
    trigger_of,
)
from fencepost.model.errors import Invalid

TRIGGERS = ("cron", "every", "at")
TRIGGER_KEYS = (*TRIGGERS, "timezone", "dst_gap", "dst_fold", "start", "end", "anchor", "align")
POLICY_KEYS = ("missed", "grace", "catchup_window", "catchup_max", "stagger", "overlap", "queue_max", "parallel_max",
               "budget_usd_per_day", "budget_usd_per_month", "max_runs_per_hour",
               "max_time_per_day")  # fmt: skip
NO_AGENT = AgentDefinition("none")

# Keys that mean something with some triggers only.
ONLY_WITH = {
    "anchor": ("every",),
    "align": ("every",),
    "start": ("cron", "every"),
    "end": ("cron", "every"),
    "dst_gap": ("cron", "at"),
    "dst_fold": ("cron", "at"),
}


def check_schedule(checker: Checker, entry: NamedSection, timezone: str) -> ScheduleDefinition | None:
    """Return the schedule, or None after having complained; `timezone` is the file's own."""
    before = len(checker.problems)
    trigger = _trigger(checker, entry)
    if trigger:
        _check_company(checker, entry)
    if entry.says("concurrency") and not entry.says("concurrency_key"):
        checker.complain(
            'it needs a key that the runs share: write concurrency_key = "openai" beside it.',
            *entry.path,
            "concurrency",
        )
    values = entry.values if "timezone" in entry.values or not timezone else {**entry.values, "timezone": timezone}
    if entry.bad or len(checker.problems) > before:
        _check_rest(checker, entry, values, trigger)
        return None
    schedule = ScheduleDefinition(name=entry.name, **values)
    _check_meaning(checker, entry, schedule, trigger)
    return None if len(checker.problems) > before else schedule


def _trigger(checker: Checker, entry: NamedSection) -> str:
    """Return the trigger that was written, the first where there are several."""
    written = entry.says(*TRIGGERS)
    if not written:
        checker.complain('it does not say when: add cron = "0 9 * * *", every = "15m" or at = "…".', *entry.path)
        return ""
    if "every" in written and len(written) > 1:
        other = next(name for name in written if name != "every")
        checker.complain(
            f"{other} is there too, and every counts from the end of the last run, which a tick of {other} would move; "
            "write a second schedule with the same agent, and one concurrency_key for both if they must not overlap.",
            *entry.path,
            "every",
        )
        return ""
    return written[0]


def _check_company(checker: Checker, entry: NamedSection) -> None:
    written = entry.says(*TRIGGERS)
    for name in entry.says(*ONLY_WITH):
        if not set(written) & set(ONLY_WITH[name]):
            checker.complain(
                f"it has no meaning with {written[0]}, only with {' and '.join(ONLY_WITH[name])}; remove it.",
                *entry.path,
                name,
            )


def _check_rest(checker: Checker, entry: NamedSection, values: dict[str, object], trigger: str) -> None:
    """Say what else is wrong with an entry that has a problem already, as far as its parts are whole."""
    kept = {name: value for name, value in values.items() if name not in entry.bad}
    schedule = ScheduleDefinition(**{"agent": "none", **kept, "name": entry.name})  # type: ignore[arg-type]
    if trigger and not entry.bad.intersection(TRIGGER_KEYS):
        _check_trigger(checker, entry, schedule, trigger)
    elif trigger == "cron" and "cron" not in entry.bad:
        _check_expressions(checker, entry, schedule.crons)
    if not entry.bad.intersection(POLICY_KEYS):
        _check_policies(checker, entry, schedule)
    if not entry.bad.intersection(("calendar", "timezone")):
        _check_calendar(checker, entry, schedule)


def _check_meaning(checker: Checker, entry: NamedSection, schedule: ScheduleDefinition, trigger: str) -> None:
    _check_trigger(checker, entry, schedule, trigger)
    _check_policies(checker, entry, schedule)
    _check_calendar(checker, entry, schedule)


def _check_calendar(checker: Checker, entry: NamedSection, schedule: ScheduleDefinition) -> None:
    try:
        calendar_of(schedule)
    except Invalid as error:
        checker.complain(str(error), *entry.path, "calendar")


def _check_trigger(checker: Checker, entry: NamedSection, schedule: ScheduleDefinition, trigger: str) -> None:
    if trigger == "cron" and not schedule.timezone:
        checker.complain(
            'it needs a timezone: write timezone = "Europe/Berlin" beside it, or once for all in [fencepost].',
            *entry.path,
            "cron",
        )
        _check_expressions(checker, entry, schedule.crons)
        return
    if trigger and not getattr(schedule, trigger):
        checker.complain("it is empty.", *entry.path, trigger)
        return
    try:
        trigger_of(schedule)
    except Invalid as error:
        checker.complain(str(error), *entry.path, trigger)


def _check_expressions(checker: Checker, entry: NamedSection, crons: Sequence[str]) -> None:
    """Check expressions whose zone is not known."""
    try:
        for cron in crons:
            parse_cron(cron)
    except Invalid as error:
        checker.complain(str(error), *entry.path, "cron")


def _check_policies(checker: Checker, entry: NamedSection, schedule: ScheduleDefinition) -> None:
    if entry.values.keys().isdisjoint(POLICY_KEYS):
        return  # the defaults are in order, and there may be many schedules
    try:
        policies_of(schedule, NO_AGENT)
    except Invalid as error:
        checker.complain(str(error), *entry.path, *entry.says(*POLICY_KEYS)[:1])


def check_affordable(checker: Checker, entry: NamedSection, schedule: ScheduleDefinition, agent: object) -> None:
    """Refuse a budget that not even the first run can be paid from; `agent` is what the file says of it."""
    written = agent.get("budget_usd") if isinstance(agent, dict) else None
    said = entry.says("budget_usd_per_day", "budget_usd_per_month")
    if not written or not said:
        return
    try:
        policies = policies_of(schedule, AgentDefinition(schedule.agent, budget_usd=str(written)))
    except Invalid:
        return  # it is told where it stands
    problem = never_affordable(policies.budget)
    if problem:
        checker.complain(f"{problem} Raise it, or lower budget_usd of {schedule.agent}.", *entry.path, said[0])
