"""What the API takes, field by field."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints

from fencepost.operations.bulk import BATCH_MAX

DEFINITIONS_MAX = 1_000_000
FILES_MAX = 100
Text = Annotated[str, StringConstraints(max_length=1_000, pattern=r"^[^\x00]*$")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]

RoleName = Annotated[str, StringConstraints(pattern="^(read|trigger|admin)$")]
Place = Annotated[
    str, StringConstraints(max_length=1_000, pattern=r"^https?://[A-Za-z0-9.:_\[\]-]+(/[A-Za-z0-9._~/-]*)?$")
]


class Asked(BaseModel):
    """What somebody sends; a field that is not known is an error, not a typo that goes unseen."""

    model_config = ConfigDict(extra="forbid")


class AskRun(Asked):
    """Run an agent or a schedule."""

    target: Name
    payload: dict[str, JsonValue] | None = None
    tick: Text | None = Field(None, description="run this tick of a schedule, with its period and key")
    again: bool = False
    overlap: Text | None = None
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000)


class AskRuns(Asked):
    """Run an agent once for each payload, all of them or none."""

    agent: Name
    payloads: Annotated[list[dict[str, JsonValue]], Field(min_length=1, max_length=BATCH_MAX)]
    priority: int | None = Field(None, ge=-1_000_000, le=1_000_000)


class AskReplay(Asked):
    """Replay a dead letter."""

    again: bool = False
    as_then: bool = False


class AskPause(Asked):
    """Pause a schedule."""

    note: Text = ""
    until: Text | None = Field(None, description="an instant such as 2026-12-01T06:00:00Z")


class AskNote(Asked):
    """Say why."""

    note: Text = ""


class AskSkip(Asked):
    """Leave out the next ticks; 0 takes it back."""

    count: int = Field(1, ge=0, le=1_000_000)


class AskBackfill(Asked):
    """Make runs for ticks that are over."""

    from_: Text = Field(alias="from")
    until: Text
    current: bool = False
    name: Name | None = None
    limit: int = Field(1_000, ge=1, le=1_000)
    stagger: Text | None = None
    again: bool = False


class AskBreak(Asked):
    """Take a lease from its holder."""

    resource: Name
    note: Text = "broken by hand"


class AskForget(Asked):
    """Drop the debt to a gate that is gone for good."""

    resource: Name
    gate: Annotated[str, StringConstraints(min_length=1, max_length=4_000, pattern=r"^[^\x00]+$")]


class AskResolve(Asked):
    """Say what became of an ambiguous effect: with an answer it took place, without one it is forgotten."""

    key: Name
    scope: Text = "tenant"
    forget: bool = False
    answer: JsonValue = None


class AskVerify(Asked):
    """Compare the chain with heads that were kept elsewhere."""

    heads: Annotated[str, StringConstraints(min_length=1, max_length=DEFINITIONS_MAX)] = Field(
        description="exported heads or a whole export, one JSON object a line"
    )


class AskKey(Asked):
    """Make a key."""

    name: Name
    role: RoleName = "read"
    expires: Text | None = Field(None, description="good for so long, such as 90d")


class AskLink(Asked):
    """Make a login link."""

    role: RoleName = Field("admin", description="what the browser may do")
    at: Place | None = Field(None, description="where browsers reach the web server, if not where you do")


class AskDefinitions(Asked):
    """Definitions, as a fencepost.toml has them."""

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
