"""What is allowed and yet probably not meant: said by `plan` and `apply`, with what to do about it."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from fencepost.model.cron_warnings import cron_warnings
from fencepost.model.decide import Policies
from fencepost.model.definition import AgentDefinition, ScheduleDefinition, policies_of, timeouts_of, trigger_of
from fencepost.model.duration import parse_duration
from fencepost.model.missed import MissedRule
from fencepost.model.overlap import OverlapRule
from fencepost.model.retry import OnLost
from fencepost.model.run import TriggerKind
from fencepost.model.trigger import Align, AtTrigger, EveryTrigger

CATCH_UP_KEYS = {"grace": "60s", "catchup_window": "7d", "catchup_max": 10, "stagger": "30s"}
FIRST_EMPTY = ("last_success", "backfill_from")
SECRET_WORDS = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "API_KEY", "APIKEY", "PRIVATE_KEY")


def agent_warnings(agent: AgentDefinition) -> Iterator[str]:
    """Yield what to say about an agent."""
    if agent.on_lost == OnLost.TRIAGE and not _goes_on(agent):
        yield (
            "a deploy that outlasts drain_timeout ends its run as interrupted, for a person to look at; if it can go on "
            'or begin again, write on_lost = "resume" or "restart".'
        )
    for name in FIRST_EMPTY:
        if f"{{{name}}}" in agent.prompt.replace(f"{{{{{name}}}}}", ""):
            yield f"the prompt's {{{name}}} is empty until a run has succeeded; write {{{name}|the beginning}}."
    for name in agent.env:
        if looks_secret(name):
            yield f'env.{name} looks like a secret and is kept as plain text; write secrets = {{ {name} = "env:{name}" }}.'


def looks_secret(name: str) -> bool:
    """Tell whether a variable's name says that its value is a secret."""
    return any(word in name.upper() for word in SECRET_WORDS)


def _goes_on(agent: AgentDefinition) -> bool:
    """Tell whether the agent's engine can take up a session again."""
    return agent.engine == "claude" or bool(agent.options.get("definition", {}).get("resume_argv"))


def schedule_warnings(schedule: ScheduleDefinition, agent: AgentDefinition, *, now: datetime) -> Iterator[str]:
    """Yield what to say about a schedule, given its agent."""
    policies = policies_of(schedule, agent)
    yield from _about_writes(schedule, agent, policies)
    yield from _about_unused(schedule, policies.overlap.rule)
    yield from _about_time(schedule, agent, now)


def _about_writes(schedule: ScheduleDefinition, agent: AgentDefinition, policies: Policies) -> Iterator[str]:
    unless = f"if it writes nothing, say writes = false in [agents.{agent.name}]."
    if agent.writes and policies.overlap.rule is OverlapRule.ALLOW_PARALLEL:
        yield f'overlap = "allow_parallel": its runs do not fence one another, so two may write at once; {unless}'
    if not agent.writes or schedule.kind is TriggerKind.EVERY:
        return
    if policies.missed.rule is MissedRule.COALESCE:
        yield f'missed = "coalesce": after a pause one late run covers all missed ticks; {unless}'
    if policies.missed.rule is MissedRule.REPLAY:
        yield f'missed = "replay": up to {schedule.catchup_max} late runs follow one another after a pause; {unless}'


def _about_unused(schedule: ScheduleDefinition, rule: OverlapRule) -> Iterator[str]:
    if schedule.queue_max is not None and rule is not OverlapRule.QUEUE:
        yield f'queue_max has no effect under overlap = "{rule}"; it is for "queue".'
    if schedule.parallel_max is not None and rule is not OverlapRule.ALLOW_PARALLEL:
        yield f'parallel_max has no effect under overlap = "{rule}"; it is for "allow_parallel".'
    if schedule.kind is TriggerKind.EVERY and (schedule.missed != "skip" or _catches_up(schedule)):
        yield "missed and its limits have no effect with every: a late run is not missed, it runs once."
    elif schedule.missed == "skip" and _catches_up(schedule, but="grace"):
        yield 'catchup_window, catchup_max and stagger have no effect under missed = "skip".'


def _about_time(schedule: ScheduleDefinition, agent: AgentDefinition, now: datetime) -> Iterator[str]:
    trigger = trigger_of(schedule)
    if isinstance(trigger, AtTrigger):
        late_by = now - trigger.occurrence.tick_at
        if late_by > timedelta(seconds=parse_duration(schedule.grace)):
            yield f"at = {schedule.at} lies in the past; unless it has run already, it never will. Run it by hand?"
    elif isinstance(trigger, EveryTrigger):
        limit = timeouts_of(agent).timeout
        if limit is not None and trigger.every_after < limit and trigger.align is Align.START:
            yield f"a run may take {agent.timeout} (its timeout); a tick of every = {schedule.every} that it outlasts is left out."
        elif limit is not None and trigger.every_after < limit:
            yield (
                f"every = {schedule.every} is counted from the end of a run, and a run may take {agent.timeout} (its "
                'timeout); for a fixed rhythm write align = "start" beside it.'
            )
    else:
        yield from cron_warnings(schedule.cron, schedule.timezone)
        if trigger.next_after(now) is None:
            yield "it has no tick to come: look at start and end."


def _catches_up(schedule: ScheduleDefinition, *, but: str = "") -> bool:
    return any(getattr(schedule, name) != default for name, default in CATCH_UP_KEYS.items() if name != but)
