"""The guard of a table: a trigger, so that a client that never heard of fences is refused as well.

It is as strong as the database makes it: who may drop a trigger, or write to the file past SQLite, may pass.
"""

from fencepost.gates.sql.statements import checked, marks_words, quote, read, text
from fencepost.model.errors import Invalid
from fencepost.model.gate import FENCE_MAX
from fencepost.model.lease import key_of

QUOTES = "$fencepost$"  # around the bodies in guard_postgres.sql


def guard_statements(dialect: str, marks: str, table: str, *, resource: str = "", tenant: str = "default") -> list[str]:
    """Return what puts a guard before a table; under a resource, only who shows that one passes."""
    if dialect == "postgres":
        words = _postgres_words(marks, table, resource, tenant)
        found = read("guard_postgres.sql", words)
        return [found[name] for name in ("compare", "check", "guard", "rights", "unguard", "trigger")]
    found = _sqlite(marks, table, resource, tenant)
    return [found[f"{step}_{verb}"] for step in ("unguard", "trigger") for verb in ("insert", "update", "delete")]


def unguard_statements(dialect: str, marks: str, table: str) -> list[str]:
    """Return what takes the guard away again."""
    if dialect == "postgres":
        return [read("guard_postgres.sql", _postgres_words(marks, table))["unguard"]]
    found = _sqlite(marks, table, "", "default")
    return [found[f"unguard_{verb}"] for verb in ("insert", "update", "delete")]


def _postgres_words(marks: str, table: str, resource: str = "", tenant: str = "") -> dict[str, str]:
    """Put the functions where the marks are; the functions name the table with its schema, whatever the search path."""
    if QUOTES in resource + tenant:
        raise Invalid(f"a resource or tenant with {QUOTES} cannot stand in a guard.")
    schema, dot, _ = checked(marks).rpartition(".")
    home = f"{quote(schema)}." if dot else "public."
    words = marks_words(marks if dot else f"public.{marks}")
    return {
        **words,
        "{compare}": f"{home}fencepost_compare",
        "{check}": f"{home}fencepost_check",
        "{guard}": f"{home}fencepost_guard",
        "{guarded}": quote(checked(table)),
        "{resource}": text(resource),
        "{tenant}": text(_tenant_of(resource, tenant)),
        "{fence_max}": str(FENCE_MAX),
    }


def _tenant_of(resource: str, tenant: str) -> str:
    """Return the tenant that a resource belongs to; none where all tenants share it, or where any resource will do."""
    return tenant if resource and key_of(tenant, resource)[0] == tenant else ""


def _sqlite(marks: str, table: str, resource: str, tenant: str) -> dict[str, str]:
    shown = f"shown.key = {text(' '.join(key_of(tenant, resource)))}" if resource else "true"
    words = {
        **marks_words(checked(marks)),
        "{guarded}": quote(checked(table)),
        "{resource_is_shown}": shown,
        **{f"{{guarded_{verb}}}": quote(f"fencepost_{verb}_{table}") for verb in ("insert", "update", "delete")},
    }
    unshown = read("guard_sqlite.sql", words)["unshown"]
    return read("guard_sqlite.sql", {**words, "{unshown}": unshown})
