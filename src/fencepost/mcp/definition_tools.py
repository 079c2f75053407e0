"""The tools that define what runs. An agent that is defined runs as the workers' user, so they are offered only on demand."""

from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.types import ToolAnnotations
from pydantic import Field

from fencepost.mcp.caller import Counter, Seat
from fencepost.mcp.read_tools import LOOKS
from fencepost.mcp.write_tools import ENDS, STEERS
from fencepost.model.access import Role
from fencepost.model.errors import Invalid
from fencepost.operations.records import as_json
from fencepost.operations.records.plan_record import planned_record
from fencepost.operations.run_queries import Store
from fencepost.operations.schedule_registry import apply_config, plan_config
from fencepost.operations.sent_definitions import read_definitions
from fencepost.operations.single_definition import SentDefinition, check_sent, drop_definition, put_definition

CHANGES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)
Text = Annotated[str, Field(max_length=1_000_000, description="the text of a fencepost.toml")]
Owner = Annotated[
    str,
    Field(pattern="^[a-z0-9][a-z0-9._-]{0,99}$", description="who owns them: what is gone under this name is retired"),
]
One = Annotated[str, Field(min_length=1, max_length=200, description="its name")]
Definition = Annotated[dict[str, Any], Field(description="the keys that its section of a fencepost.toml has")]
Tag = Annotated[str | None, Field(description="the `tag` that you have seen: refused if it was changed since")]
COMMANDS = ("command", "cli", "python")


def add_defining(server: MCPServer[Any], counter: Counter, *, commands: bool) -> None:
    """Offer to plan and apply; agents that run programs of their own only if `commands` are allowed."""
    definer = _Definer(counter, commands=commands)

    @server.tool(title="Plan definitions", annotations=LOOKS)
    def plan(definitions: Text, name: Owner = "mcp") -> dict[str, Any]:
        """Show what an apply of these definitions would change, with warnings and the next ticks; nothing is changed."""
        with counter.served(Role.ADMIN) as (store, seat):
            return definer.apply(store, definitions, name, seat, changes=False)

    @server.tool(title="Apply definitions", annotations=CHANGES)
    def apply(definitions: Text, name: Owner = "mcp") -> dict[str, Any]:
        """Put definitions into the registry, all of them or none; those of the same owner that are gone are retired."""
        with counter.served(Role.ADMIN) as (store, seat):
            return definer.apply(store, definitions, name, seat, changes=True)

    @server.tool(title="Define a schedule", annotations=STEERS)
    def put_schedule(name: One, definition: Definition, tag: Tag = None) -> dict[str, Any]:
        """Define one schedule, such as {"agent": "sweep", "cron": "0 * * * *", "timezone": "UTC"}."""
        with counter.served(Role.ADMIN) as (store, seat):
            return definer.put(store, ("schedule", name), definition, seat, tag=tag)

    @server.tool(title="Define an agent", annotations=CHANGES)
    def put_agent(name: One, definition: Definition, tag: Tag = None) -> dict[str, Any]:
        """Define one agent, such as {"engine": "claude", "prompt": "Write the digest."}."""
        with counter.served(Role.ADMIN) as (store, seat):
            return definer.put(store, ("agent", name), definition, seat, tag=tag)

    @server.tool(title="Retire a schedule", annotations=ENDS)
    def delete_schedule(name: One, tag: Tag = None) -> dict[str, Any]:
        """Retire one schedule that was defined alone; its runs and ticks stay on record."""
        with counter.served(Role.ADMIN) as (store, seat):
            return _drop(store, ("schedule", name), seat, tag)

    @server.tool(title="Retire an agent", annotations=ENDS)
    def delete_agent(name: One, tag: Tag = None) -> dict[str, Any]:
        """Retire one agent that was defined alone; refused while a schedule runs it."""
        with counter.served(Role.ADMIN) as (store, seat):
            return _drop(store, ("agent", name), seat, tag)


class _Definer:
    """Puts definitions into the registry for a caller, within what this machine and this server allow."""

    def __init__(self, counter: Counter, *, commands: bool) -> None:
        self._counter = counter
        self._commands = commands

    def apply(self, store: Store, text: str, name: str, seat: Seat, *, changes: bool) -> dict[str, Any]:
        """Plan or apply a whole text."""
        rights = self._counter.rights()
        sent = read_definitions(text, name=name, files={}, tenant=seat.tenant, rights=rights)
        self._check_commands({one: agent.engine for one, agent in sent.config.agents.items()})
        at = store.registry()
        if changes:
            done = apply_config(at, sent.config, tenant=seat.tenant, actor=seat.actor)
        else:
            done = plan_config(at, sent.config, tenant=seat.tenant)
        return dict(as_json(planned_record(done, sent.config, sent.ignored)))

    def put(
        self, store: Store, what: tuple[str, str], definition: Mapping[str, Any], seat: Seat, *, tag: str | None
    ) -> dict[str, Any]:
        """Define one agent or schedule."""
        check_sent(what[0], definition, what[1])
        if what[0] == "agent":
            self._check_commands({what[1]: str(definition.get("engine") or "command")})
        done = put_definition(
            store.registry(),
            *what,
            SentDefinition(definition),
            tenant=seat.tenant,
            actor=seat.actor,
            rights=self._counter.rights(),
            expected=tag,
        )
        return {**as_json(planned_record(done.planned, done.config)), "tag": done.tag}

    def _check_commands(self, engines: Mapping[str, str]) -> None:
        wrong = next((name for name, engine in engines.items() if engine in COMMANDS), None)
        if wrong is not None and not self._commands:
            raise Invalid(
                f"agent {wrong!r} runs a program of its own choice, and this server was not started with --allow-commands."
            )


def _drop(store: Store, what: tuple[str, str], seat: Seat, tag: str | None) -> dict[str, Any]:
    drop_definition(store.registry(), *what, tenant=seat.tenant, actor=seat.actor, expected=tag)
    return {what[0]: what[1], "retired": True}
