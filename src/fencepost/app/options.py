"""What the decorators take, for type checkers: the same keys as in fencepost.toml, which alone says what they mean."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypedDict

Span = str | timedelta
Moment = str | datetime


class AgentOptions(TypedDict, total=False):
    """The keys of [agents.NAME] that make sense for a Python function."""

    project: str
    env: Mapping[str, str]
    pass_env: Sequence[str]
    secrets: Mapping[str, str]
    timeout: Span
    stall_timeout: Span
    queue_timeout: Span
    waiting_max: int
    in_process: bool
    max_attempts: int
    backoff: Span
    backoff_max: Span
    retry_exit_codes: Sequence[int]
    on_lost: str
    gates: Sequence[str]
    writes: bool
    budget_usd: float | str
    model_gate: str
    model_key: str
    model_url: str
    log_max: int
    options: Mapping[str, Any]


class PolicyOptions(TypedDict, total=False):
    """The keys of [schedules.NAME] besides its trigger and its agent."""

    dst_gap: str
    dst_fold: str
    start: Moment
    end: Moment
    anchor: Moment
    align: str
    jitter: Span
    missed: str
    grace: Span
    catchup_window: Span
    catchup_max: int
    stagger: Span
    overlap: str
    queue_max: int
    parallel_max: int
    priority: int
    once: bool
    calendar: Sequence[str]
    concurrency_key: str
    concurrency: int
    budget_usd_per_day: float | str
    budget_usd_per_month: float | str
    max_runs_per_hour: int
    max_time_per_day: Span
    pause_on_failure: int
    payload: Mapping[str, Any]
    enabled: bool


class ScheduleOptions(PolicyOptions, AgentOptions, total=False):
    """What a scheduled function may say: its schedule's keys, and its agent's."""
