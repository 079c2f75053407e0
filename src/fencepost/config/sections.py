"""Every key of the configuration: its kind, its default, and what it means. The reference page is written from here."""

from dataclasses import MISSING, dataclass, fields
from typing import NamedTuple

from fencepost.config.value_kinds import (
    BOOLEAN,
    CALENDAR,
    COMMAND,
    CRON,
    DURATION,
    EXIT_CODES,
    FUNCTION,
    HEADERS,
    INSTANT,
    JSON,
    KEY,
    LOCATION,
    MOMENT,
    NETWORKS,
    OVERLAP,
    PATHS,
    PATHS_OF,
    PATHS_WITHIN,
    REFERENCE,
    REFERENCES,
    RETENTION,
    SECRETS,
    STORE,
    STORES_OF,
    TEXT,
    TEXTS,
    USD,
    VARIABLE_NAMES,
    VARIABLES,
    ZONE,
    Kind,
    integer,
    one_of,
    some_of,
)
from fencepost.model.cli_definition import PROMPT_BY
from fencepost.model.definition import AgentDefinition, ScheduleDefinition
from fencepost.model.missed import CATCHUP_MAX, MissedRule
from fencepost.model.notice import BY_DEFAULT, EVENTS, STYLES
from fencepost.model.notice import KINDS as NOTICE_KINDS
from fencepost.model.overlap import LINE_MAX, PARALLEL_MAX, WAITING_MAX
from fencepost.model.retry import ATTEMPTS_MAX, OnLost
from fencepost.model.slots import SLOTS_MAX
from fencepost.model.target import KINDS
from fencepost.model.trigger import Align
from fencepost.model.zoned_cron import DstFold, DstGap

ENGINES = ("command", "python", "http", "claude", "cli")
GATES = tuple(KINDS)
PROVIDERS = ("anthropic", "openai", "gemini")
LED = ("command", "claude", "cli", "python")  # engines whose agents the model gate's variables reach
SCHEMES = ("standard", "github", "slack", "stripe", "bearer")
# Git-ignored things that tools make again by themselves.
DISCARDED = ("__pycache__", "*.pyc", "node_modules", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", "target")
WORKTREE_KEYS = ("worktree_base", "worktrees_dir", "copy", "discard", "merge")
PERMISSION_MODES = ("default", "manual", "acceptEdits", "plan", "auto", "dontAsk", "bypassPermissions")
REQUIRED = MISSING


class ConfigKey(NamedTuple):
    """One key of a section."""

    name: str
    kind: Kind
    default: object
    meaning: str
    engines: tuple[str, ...] = ()  # which engines of agents, or kinds of gates, understand it; empty: all

    @property
    def required(self) -> bool:
        """Whether it must be there."""
        return self.default is REQUIRED


@dataclass(frozen=True, slots=True)
class Section:
    """One section: the keys that it may have, and whether there are many of it, each with a name."""

    name: str
    meaning: str
    keys: tuple[ConfigKey, ...]
    named: bool = True

    @property
    def by_name(self) -> dict[str, ConfigKey]:
        """The keys by their name."""
        return {key.name: key for key in self.keys}


def _agent_default(name: str) -> object:
    return _defaults(AgentDefinition)[name]


def _schedule_default(name: str) -> object:
    return _defaults(ScheduleDefinition)[name]


def _defaults(kind: type[AgentDefinition | ScheduleDefinition]) -> dict[str, object]:
    return {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(kind)}


def _agent(name: str, kind: Kind, meaning: str, *engines: str) -> ConfigKey:
    return ConfigKey(name, kind, _agent_default(name), meaning, engines)


def _option(name: str, kind: Kind, meaning: str, *engines: str, default: object = "") -> ConfigKey:
    return ConfigKey(name, kind, default, meaning, engines)


def _schedule(name: str, kind: Kind, meaning: str) -> ConfigKey:
    return ConfigKey(name, kind, _schedule_default(name), meaning)


FENCEPOST = Section(
    "fencepost",
    "General settings.",
    (
        ConfigKey("name", TEXT, "", "What this file is called: its definitions belong to the name, so that the same file on two machines, or in another folder, is one file. Without a name they belong to this machine and path."),
        ConfigKey("store", STORE, "", "Where it is all kept: `sqlite:/path`, or relative to this file, `postgresql://…` or `env:NAME`. Default: a file of its own for each configuration, in the user's state folder."),
        ConfigKey("tenant", TEXT, "default", "Whose definitions these are. Tenants never see one another."),
        ConfigKey("stores", STORES_OF, {}, 'Tenants that are kept elsewhere than in `store`, each with its own: `{ finance = "postgresql://…" }`; see [how far one server goes](../explanation/scale.md).'),
        ConfigKey("timezone", ZONE, "", "The zone of this file's schedules, where they name none themselves."),
        ConfigKey("drain_timeout", DURATION, "60s", "How long a worker that is asked to stop lets its runs finish."),
        ConfigKey("retention", RETENTION, "90d", "How long ended runs and decided ticks are kept; at least `1d`. Dead letters stay until they are dealt with."),
        ConfigKey("audit_key", REFERENCE, "", "The key that seals the audit, the same on all machines of one store. Default: one of this machine's own, made at first use in the user's state folder."),
        ConfigKey("audit_heads", TEXT, "", "A file, best on another disk, to which each new seal is appended; `audit verify --heads` then sees whether the audit's end was cut off."),
        ConfigKey("web_url", TEXT, "", "Where browsers reach the web door, such as `https://fencepost.example.com`: notices link to the run there."),
        ConfigKey("http_allow", NETWORKS, (), "Private addresses that this machine's workers may post to; public ones need no leave."),
    ),
    named=False,
)  # fmt: skip

PROJECTS = Section(
    "projects",
    "A directory that agents work in.",
    (
        ConfigKey("path", TEXT, REQUIRED, "The directory, relative to this file. Each worker resolves it for itself."),
        ConfigKey("concurrency", integer(1, 1000), 1, "How many runs may work in it at once, scheduled or asked for; more of them wait in line."),
        ConfigKey("isolation", one_of("none", "worktree"), "none", "`worktree` gives each run that was not asked for by hand a git worktree and a branch of its own."),
        ConfigKey("worktree_base", TEXT, "", "The branch or commit that worktrees start from. Default: the branch that is checked out in `path`."),
        ConfigKey("worktrees_dir", TEXT, "", "Where worktrees are made. Default: a folder `.NAME.worktrees` beside the project."),
        ConfigKey("copy", PATHS_WITHIN, (), "Git-ignored files that each worktree gets a copy of, such as `.env`. `*` and `?` work as in a shell."),
        ConfigKey("discard", PATHS_WITHIN, DISCARDED, "Git-ignored names that may be deleted with a worktree. One that holds other ignored files is kept."),
        ConfigKey("merge", one_of("keep", "ff", "merge"), "keep", "What becomes of a worktree's branch after a run that succeeded: it stays, or the base branch is moved forward to it, or both are merged."),
    ),
)  # fmt: skip

AGENTS = Section(
    "agents",
    "What is run. A change bumps the version of every schedule that uses it.",
    (
        _agent("engine", one_of(*ENGINES), "What carries out an attempt."),
        _agent("command", COMMAND, "The program and its arguments, without a shell.", "command"),
        _agent("shell", BOOLEAN, "Hand `command`, then one text, to `/bin/sh`.", "command"),
        _agent("function", FUNCTION, "What is called with the run's context.", "python"),
        _agent("in_process", BOOLEAN, "Call the function in a process that the worker keeps, run after run: for many short ones. Such runs share their environment, and one that hangs takes the process with it.", "python"),
        _agent("prompt", TEXT, "What the agent is asked; `{period_start}` and other fields of the run are put in.", "claude", "cli"),
        _option("prompt_file", TEXT, "A file with the prompt, relative to this one. It is read at apply, so that a change of it is a new version.", "claude", "cli"),
        _option("resume_prompt", TEXT, "What it is asked when it goes on after an interruption. Default: to look at what is done, and to go on.", "claude", "cli"),
        _option("model", TEXT, "The model that is asked for.", "claude", "cli"),
        _option("fallback_model", TEXT, "The models that are asked when that one is overloaded.", "claude"),
        _option("tools", TEXTS, "The tools that it may use without asking.", "claude", default=()),
        _option("disallowed_tools", TEXTS, "The tools that it may not use.", "claude", default=()),
        _option("permission_mode", one_of(*PERMISSION_MODES), "How it asks for permission.", "claude"),
        _option("append_system_prompt", TEXT, "What is added to its system prompt.", "claude"),
        _option("settings", JSON, "Settings of this agent's runs alone, as in its settings file.", "claude", default={}),
        _option("mcp_servers", JSON, "The MCP servers of its runs, and no others, as in `.mcp.json`.", "claude", default={}),
        _option("checks", BOOLEAN, "Check the lease before each turn and each tool that changes something, and put the MCP gateway before its MCP servers. `false` leaves both out.", "claude", default=True),
        _option("result_grace", DURATION, "How long it may take to leave after it has said that it is done. Default: 60s.", "claude", "cli"),
        _option("max_turns", integer(1), "After how many turns it stops.", "claude", default=None),
        _option("args", TEXTS, "Further arguments for its command line.", "claude", "cli", default=()),
        _option("preset", TEXT, "How the CLI is called and read: aider, amp, cline, codex, continue, copilot, cursor-agent, gemini, goose, opencode, qwen, or an `[engines.NAME]` of your own.", "cli"),
        _option("argv", TEXTS, "The command line as a template, where there is no preset.", "cli", default=()),
        _option("url", LOCATION, "Where the run is posted to.", "http"),
        _option("headers", HEADERS, "Further headers of the request; a value may be `env:NAME` or `file:/path`.", "http", default={}),
        _option("secret", REFERENCE, "What the request, and the word of its end after a 202, are signed with.", "http"),
        _option("callback_url", TEXT, "Where the receiver reports the end after a 202; it is told in the request. `{tenant}` and `{run_id}` stand for the run's.", "http"),
        _option("request_timeout", DURATION, "How long connecting and each wait for the answer may take. Default: 60s.", "http"),
        _agent("project", TEXT, "The project that it works in."),
        _agent("env", VARIABLES, "Variables of its environment."),
        _agent("pass_env", VARIABLE_NAMES, "Variables that it inherits from the worker; where tenants are listed, `env:NAME` of each must be listed for its own."),
        _agent("secrets", SECRETS, "Variables whose value is fetched when the run starts, and masked in its log."),
        _agent("timeout", DURATION, "After how long an attempt is ended."),
        _agent("stall_timeout", DURATION, "After how long without progress an attempt is ended. Default: never."),
        _agent("tool_timeout", DURATION, "After how long one open tool call counts as standing still. Default: 1h where there is a `stall_timeout`.", "claude", "cli"),
        _agent("queue_timeout", DURATION, "How long a run may wait for its start."),
        _agent("waiting_max", integer(1, WAITING_MAX), "How many runs that were asked for, and that no schedule made, may wait. One more is refused."),
        _agent("max_attempts", integer(1, ATTEMPTS_MAX), "How many tries a run has."),
        _agent("backoff", DURATION, "How long to wait after the first failure; doubled each time."),
        _agent("backoff_max", DURATION, "How long to wait at most."),
        _agent("retry_exit_codes", EXIT_CODES, "Which exit codes are worth another try. Default: those that could pass."),
        _agent("on_lost", one_of(*OnLost), "After a loss half-way: ask a person, go on from the checkpoint, or begin again."),
        _agent("gates", TEXTS, "Where its writes prove their fence: names of `[gates.…]`, or `kind:target`."),
        _agent("writes", BOOLEAN, "`false`: it changes nothing, so that running twice does no harm."),
        _agent("budget_usd", USD, "What one run may cost. Default: no limit."),
        _agent("model_gate", one_of(*PROVIDERS), "Its calls of a model pass the model gate, which adds the key and lets them through only while the lease holds. Whose protocol they speak. Default: they pass none.", *LED),
        _agent("model_key", REFERENCE, "Where the provider's key is. Default: `env:ANTHROPIC_API_KEY`, `env:OPENAI_API_KEY` or `env:GEMINI_API_KEY`.", *LED),
        _agent("model_url", LOCATION, "The provider's address. Default: its public one.", *LED),
        _agent("log_max", integer(1000, 10_000_000_000), "How many bytes of output are kept."),
        _agent("options", JSON, "Anything else that only its engine understands."),
    ),
)  # fmt: skip

ENGINE = Section(
    "engines",
    'How a CLI agent is called and how its output is read, for `engine = "cli"` and `preset = "NAME"`. See [CLI definitions](cli-definitions.md).',
    (
        ConfigKey("extends", TEXT, "", "A definition to start from; the keys here replace its keys."),
        ConfigKey("argv", TEXTS, (), "The command line, with placeholders such as `{prompt}`, `{session}`, `{args}`."),
        ConfigKey("resume_argv", TEXTS, (), "The command line that goes on with `{session}`. Default: it cannot."),
        ConfigKey("prompt_by", one_of(*PROMPT_BY), "stdin", "How it gets the prompt."),
        ConfigKey("model_args", TEXTS, (), "What `{model_args}` becomes where the agent names a model."),
        ConfigKey("names_session", BOOLEAN, False, "`{session}` in `argv` is a UUID of ours, known before the first event."),
        ConfigKey("resume_prompt", TEXT, "", "What it is asked when it goes on."),
        ConfigKey("env", VARIABLES, {}, "Variables of its environment."),
        ConfigKey("exit_codes", JSON, {}, "What its exit codes mean: `succeeded`, `failed`, `misconfigured` (not tried again)."),
        ConfigKey("interrupt", DURATION, "0s", "How long SIGINT may take to end a turn before SIGTERM. Default: no SIGINT."),
        ConfigKey("result_grace", DURATION, "60s", "How long it may take to leave after it has said that it is done."),
        ConfigKey("output", JSON, {}, "Where session, work, calls, outcome, cost and usage are found."),
        ConfigKey("version_argv", TEXTS, (), "The command line that tells its version, for `doctor`."),
        ConfigKey("tried", TEXTS, (), "The versions that the definition was run with; `doctor` tells of a newer one."),
    ),
)  # fmt: skip

GATE = Section(
    "gates",
    "Where writes prove their fence, at the target itself.",
    (
        ConfigKey("kind", one_of(*GATES), REQUIRED, "What the target is."),
        ConfigKey("path", TEXT, "", "The file or directory; relative to this file.", ("file", "dir")),
        ConfigKey(
            "url", LOCATION, "", "The database, repository, server or bucket.", ("sql", "git", "http", "s3", "redis")
        ),
        ConfigKey("table", TEXT, "", "Where the marks are kept. Default: `fencepost_fence`.", ("sql",)),
        ConfigKey("key", REFERENCE, "", "What raises the service's fence, and its agents need not know.", ("http",)),
        ConfigKey("endpoint", LOCATION, "", "The server, if it is not Amazon's.", ("s3",)),
        ConfigKey("region", TEXT, "", "The region. Default: as boto3 finds it.", ("s3",)),
        ConfigKey("marks", TEXT, "", "The hash that the marks are kept in. Default: `fencepost:fence`.", ("redis",)),
        ConfigKey("branch", TEXT, "", "The branch that is pushed. Default: `main`.", ("git",)),
    ),
)

SCHEDULES = Section(
    "schedules",
    "When, and under which policies, an agent runs: by `cron`, by `at`, by both, or by `every`.",
    (
        ConfigKey("agent", TEXT, REQUIRED, "The agent that runs, of this file or of another one."),
        _schedule("cron", CRON, "Five fields, six with leading seconds, or a macro such as `@daily`; or several. Two at one instant are one tick."),
        _schedule("every", DURATION, "So long after the end of the last run."),
        _schedule("at", MOMENT, "Once, at an instant, or at a wall time of the zone; or several."),
        _schedule("timezone", ZONE, "The zone of `cron`, `at`, `calendar` and budgets. Required for `cron`, here or in `[fencepost]`."),
        _schedule("dst_gap", one_of(*DstGap), "A slot that the clock jumps over is left out, or runs when the gap ends."),
        _schedule("dst_fold", one_of(*DstFold), "Which of two equal slots run when the clock goes back; `auto`: both if every hour counts, else the first."),
        _schedule("start", INSTANT, "From when on there are ticks."),
        _schedule("end", INSTANT, "Until when there are ticks; this instant itself is left out."),
        _schedule("anchor", INSTANT, "`every`: when the first run is due. Default: at apply."),
        _schedule("align", one_of(*Align), "`every`: `end` counts from the end of the last run. `start` keeps a fixed rhythm from `anchor` on, else from `start`, else from 1970-01-01T00:00Z; what a run outlasts is left out."),
        _schedule("jitter", DURATION, "Up to how much a run is held back; always the same for one schedule."),
        _schedule("missed", one_of(*MissedRule), "Late ticks: leave them out, one run for all, or each in order."),
        _schedule("grace", DURATION, "How late a tick may be."),
        _schedule("catchup_window", DURATION, "How far back late ticks are caught up."),
        _schedule("catchup_max", integer(1, CATCHUP_MAX), "How many are replayed at most."),
        _schedule("stagger", DURATION, "How far apart caught-up runs start."),
        _schedule("overlap", OVERLAP, "What a tick does while an earlier run has not ended. Temporal's and Kubernetes' words are understood."),
        _schedule("queue_max", integer(1, LINE_MAX), "`queue`: how many may wait; the newest stay. Default: 1."),
        _schedule("parallel_max", integer(1, PARALLEL_MAX), "`allow_parallel`: how many may run at once. Default: 4."),
        _schedule("priority", integer(-1000, 1000), "Higher ones are leased first."),
        _schedule("once", BOOLEAN, "Retire it when its first run starts."),
        _schedule("calendar", CALENDAR, "When not to run: `2026-12-25`, `2026-12-24..2027-01-02`, `SAT-SUN`, `MON-FRI 22:00-06:00`, `FRI 18:00..MON 06:00`."),
        _schedule("concurrency_key", KEY, "Runs with the same key share a limit, whatever their schedule."),
        _schedule("concurrency", integer(1, SLOTS_MAX), "`concurrency_key`: how many runs with this key may go at once; more of them wait in line. Default: 1."),
        _schedule("budget_usd_per_day", USD, "What its runs may cost in a day of its zone. Default: no limit."),
        _schedule("budget_usd_per_month", USD, "What its runs may cost in a month of its zone. Default: no limit."),
        _schedule("max_runs_per_hour", integer(1), "How many runs may start within an hour. Default: no limit."),
        _schedule("max_time_per_day", DURATION, "How long its runs of a day may take together, for agents that tell no cost: from then on no other starts. Default: no limit."),
        _schedule("pause_on_failure", integer(1), "After how many failures in a row it is paused. Default: never."),
        _schedule("payload", JSON, "What its runs are given, as JSON."),
        _schedule("enabled", BOOLEAN, "`false`: it stays in the registry and has no ticks."),
    ),
)  # fmt: skip

HOOKS = Section(
    "hooks",
    "A door for requests from outside, which start an agent.",
    (
        ConfigKey("agent", TEXT, REQUIRED, "The agent that runs."),
        ConfigKey("scheme", one_of(*SCHEMES), REQUIRED, "How requests are signed."),
        ConfigKey("secret", REFERENCE, REQUIRED, "What they are signed with, at least 16 characters."),
        ConfigKey("previous_secret", REFERENCE, "", "One more that is still good, while the sender moves to the new one."),
        ConfigKey("events", TEXTS, (), "Only these kinds of events, in the sender's word. Default: all."),
        ConfigKey("filter", PATHS, {}, 'Only bodies with these values, by path: `{ "ref" = "refs/heads/main" }`.'),
        ConfigKey("payload", PATHS_OF, {}, 'What the agent gets, each value by its path: `{ pull = "pull_request.number" }`. Default: the whole body.'),
        ConfigKey("rate_per_minute", integer(1, 1_000_000), 600, "How many deliveries a minute each web door takes; more are refused with 429."),
        ConfigKey("debounce", DURATION, "", "Wait so long for further deliveries and start one run for all of them, with the newest body; at most ten times as long after the first. Default: each delivery is a run."),
    ),
)  # fmt: skip

TENANTS = Section(
    "tenants",
    "What this machine hands to a tenant. Once one tenant is listed, those that are not listed get nothing; see "
    "[keep tenants' secrets apart](../how-to/keep-tenants-secrets-apart.md).",
    (
        ConfigKey(
            "secrets",
            REFERENCES,
            (),
            "The only secrets that it gets, whatever refers to them: secrets, `pass_env`, headers, gates, hooks, notifications.",
        ),
    ),
)

NOTIFICATIONS = Section(
    "notifications",
    "Who is told. `up` and `scheduler` deliver; see [be told](../how-to/be-told.md).",
    (
        ConfigKey("kind", one_of(*NOTICE_KINDS), "apprise", "`apprise`: a message for people; `webhook`: a signed request for programs; `ping`: a sign of life for a monitor."),
        ConfigKey("url", LOCATION, REQUIRED, "Where it goes: as apprise writes it, or a web address."),
        ConfigKey("on", some_of(*EVENTS), BY_DEFAULT, "What it is about. A ping tells of start, success and death, and of nothing else."),
        ConfigKey("schedules", TEXTS, (), "Only these schedules. Default: all, and agents that were run by hand. A ping needs one."),
        ConfigKey("secret", REFERENCE, "", "`webhook`: what it is signed with, the way of Standard Webhooks."),
        ConfigKey("style", one_of(*STYLES), STYLES[0], "`ping`: whose addresses."),
    ),
)  # fmt: skip

SECTIONS = (FENCEPOST, PROJECTS, AGENTS, ENGINE, GATE, SCHEDULES, HOOKS, TENANTS, NOTIFICATIONS)
BY_NAME = {section.name: section for section in SECTIONS}
OPTIONS = frozenset(key.name for key in AGENTS.keys if key.name not in _defaults(AgentDefinition)) | {"definition"}
