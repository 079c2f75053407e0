"""What the API takes, field by field."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from fencepost.ports.requests import BATCH_MAX

DEFINITIONS_MAX = 1_000_000
FILES_MAX = 100
Text = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]

RoleName = Annotated[str, StringConstraints(pattern="^(read|trigger|admin)$")]
KeyRole = Annotated[str, StringConstraints(pattern="^(read|trigger|admin|lease)$")]
Place = Annotated[
    str, StringConstraints(max_length=1_000, pattern=r"^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~/-]*)?$")
]


AGAIN = "also if it was done before; the new run has a key of its own"
NOTE = "why; others will read this"
PRIORITY = "higher goes first; without one, the agent's"


def _such_as(**fields: JsonValue) -> ConfigDict:
    """Show what could be sent."""
    return ConfigDict(json_schema_extra={"examples": [fields]})


class RequestModel(BaseModel):
    """What a caller sends; a field that is not known is an error, not a typo that goes unseen."""

    model_config = ConfigDict(extra="forbid")


class AskRun(RequestModel):
    """Run an agent or a schedule."""

    model_config = _such_as(target="nightly-digest", payload={"month": 3})

    target: Name = Field(description="a schedule's or an agent's name")
    payload: dict[str, JsonValue] | None = Field(None, description="what the agent gets, as a file and on stdin")
    tick: Text | None = Field(None, description="run this tick of a schedule, with its period and key")
    again: bool = Field(False, description=AGAIN)
    overlap: Text | None = Field(None, description="another policy than the schedule's, for this run alone")
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000, description=PRIORITY)


class AskRuns(RequestModel):
    """Run an agent once for each payload, all of them or none."""

    model_config = _such_as(agent="digest", payloads=[{"inbox": "sales"}, {"inbox": "support"}])

    agent: Name = Field(description="an agent's name")
    payloads: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=BATCH_MAX)] = Field(
        description="one run for each"
    )
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000, description=PRIORITY)


class AskReplay(RequestModel):
    """Replay a dead letter."""

    model_config = _such_as()

    again: bool = Field(False, description="also if it was replayed before")
    as_then: bool = Field(False, description="with the definition that it died with, not with today's")


class AskPause(RequestModel):
    """Pause a schedule."""

    model_config = _such_as(note="moving house", until="2026-12-01T06:00:00Z")

    note: Text = Field("", description=NOTE)
    until: Text | None = Field(
        None, description="an instant such as 2026-12-01T06:00:00Z, or a wall time of the schedule; null: until resumed"
    )


class AskNote(RequestModel):
    """Say why."""

    model_config = _such_as(note="the disk is full")

    note: Text = Field("", description=NOTE)


class AskSkip(RequestModel):
    """Leave out the next ticks; 0 takes it back."""

    model_config = _such_as(count=2)

    count: int = Field(1, ge=0, le=1_000_000, description="how many; 0 takes it back")


class AskBackfill(RequestModel):
    """Make runs for ticks that are over."""

    model_config = _such_as(**{"from": "2026-11-01T00:00:00Z", "until": "2026-11-08T00:00:00Z"})

    from_: Text = Field(alias="from", description="an instant, or a wall time of the schedule; it belongs to it")
    until: Text = Field(description="where to stop; left out itself")
    current: bool = Field(False, description="with the version in force now, not those of then")
    name: Name | None = Field(None, description="another backfill of the same range needs its own name")
    limit: int = Field(1_000, ge=1, le=1_000, description="refused if there are more ticks")
    stagger: Text | None = Field(None, description="how far apart the runs become ready, such as 30s")
    again: bool = Field(False, description="also where records were pruned, and it is not known what ran")


class AskBreak(RequestModel):
    """Take a lease from its holder."""

    model_config = _such_as(resource="project:scout", note="the laptop is lost")

    resource: Name = Field(description="as it is listed")
    note: Text = Field("broken by hand", description=NOTE)


class AskForget(RequestModel):
    """Drop the debt to a gate that is gone for good; or, without a gate, forget what a resource or a host has lost."""

    model_config = _such_as(resource="schedule:nightly-digest", gate="file:/srv/old/report.json")

    resource: Name | None = Field(None, description="who owes it, or whose lost leases to forget")
    gate: Annotated[str, StringConstraints(min_length=1, max_length=4_000, pattern=r"^[^\x00]+$")] | None = Field(
        None, description="its target, as it is listed"
    )
    host: Name | None = Field(None, description="forget every lost lease of this machine or container")


class AskResolve(RequestModel):
    """Say what became of an ambiguous effect: with an answer it took place, without one it is forgotten."""

    model_config = _such_as(key="mail:invoice-17", answer={"id": 4711})

    key: Name = Field(description="the entry's key, as it is listed")
    scope: Text = Field("tenant", description="its scope, as it is listed")
    forget: bool = Field(False, description="it did not take place: do it again when asked")
    answer: JsonValue = Field(None, description="it took place, and this is what a later call for it gets")


class AskVerify(RequestModel):
    """Compare the chain with heads that were kept elsewhere."""

    model_config = _such_as(heads='{"kind": "seal", "number": 12}')

    heads: Annotated[str, StringConstraints(min_length=1, max_length=DEFINITIONS_MAX)] = Field(
        description="exported heads or a whole export, one JSON object a line"
    )


class AskKey(RequestModel):
    """Make a key."""

    model_config = _such_as(name="ci", role="trigger", expires="90d")

    name: Name = Field(description="what or whom it is for")
    role: KeyRole = Field(
        "read",
        description="read looks, trigger also runs and cancels, admin does everything; lease keeps other machines' leases",
    )
    expires: Text | None = Field(None, description="good for so long, such as 90d; null: until it is revoked")


class AskLink(RequestModel):
    """Make a login link."""

    model_config = _such_as(role="read", at="https://fencepost.example.com")

    role: RoleName = Field("admin", description="what the browser may do")
    at: Place | None = Field(None, description="where browsers reach the web server, if not where you do")


class AskSchedule(RequestModel):
    """One schedule, with the keys that [schedules.NAME] of a fencepost.toml has."""

    model_config = _such_as(definition={"agent": "sweep", "cron": "0 * * * *", "timezone": "UTC"})

    definition: dict[str, JsonValue] = Field(description="the schedule's keys; null stands for one that is left out")
    take_over: bool = Field(False, description="move it here from the file or the owner that defines it now")


class AskAgent(AskSchedule):
    """One agent, with the keys that [agents.NAME] of a fencepost.toml has, and what it refers to."""

    model_config = _such_as(definition={"command": ["python", "sweep.py"], "timeout": "10m"})

    definition: dict[str, JsonValue] = Field(description="the agent's keys; null stands for one that is left out")
    gates: dict[Name, dict[str, JsonValue]] = Field(default_factory=dict, description="the gates that it names")
    projects: dict[Name, dict[str, JsonValue]] = Field(default_factory=dict, description="the project that it names")
    engines: dict[Name, dict[str, JsonValue]] = Field(default_factory=dict, description="the engine that it names")
    files: dict[Name, Annotated[str, StringConstraints(max_length=DEFINITIONS_MAX)]] = Field(
        default_factory=dict, max_length=FILES_MAX, description="what `prompt_file` means, by its name there"
    )


class AskDefinitions(RequestModel):
    """Definitions, as a fencepost.toml has them."""

    model_config = _such_as(
        definitions='[agents.sweep]\ncommand = ["python", "sweep.py"]\n\n[schedules.hourly]\nagent = "sweep"\n'
        'cron = "0 * * * *"\ntimezone = "UTC"\n',
        name="team-a",
    )

    definitions: Annotated[str, StringConstraints(max_length=DEFINITIONS_MAX)] = Field(
        description="the text of a fencepost.toml: agents, schedules, gates, hooks, engines, projects"
    )
    name: Annotated[str, StringConstraints(pattern="^[a-z0-9][a-z0-9._-]{0,99}$")] = Field(
        "definitions", description="who owns them: what was applied under this name before and is gone now is retired"
    )
    files: dict[Name, Annotated[str, StringConstraints(max_length=DEFINITIONS_MAX)]] = Field(
        default_factory=dict, max_length=FILES_MAX, description="what `prompt_file` means, by its name there"
    )
    take_over: bool = Field(False, description="move definitions of other owners to this one")
