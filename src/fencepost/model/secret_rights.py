"""Which secrets a tenant may have.

The machine that hands a secret over decides, from its own [tenants]: what was applied can ask, and never grant.
"""

from __future__ import annotations

from fencepost.model.fast_typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Callable, Iterator, Mapping
    from fencepost.model.target import Target

ORDINARY = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TMPDIR", "TERM", "TZ")  # for every agent
OWN = "FENCEPOST_"  # with these an agent could reach the store past its lease


class Rights(NamedTuple):
    """What a machine's own [tenants] lists, by tenant; where it lists no tenant, all may have everything."""

    listed: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def of(self, tenant: str) -> tuple[str, ...] | None:
        """Return what is listed for a tenant, None if the tenant is not listed at all."""
        return dict(self.listed).get(tenant)


NO_LISTS = Rights()


def rights_of(tenants: Mapping[str, Mapping[str, object]]) -> Rights:
    """Return what the [tenants] of a configuration say."""
    return Rights(tuple((name, tuple(_texts(section.get("secrets")))) for name, section in tenants.items()))


def refusal(reference: str, *, tenant: str, rights: Rights, real: Callable[[str], str]) -> str | None:
    """Say why a tenant may not have what a reference means, and how to change that; None: it may.

    `real` returns the path that a path leads to in the end, so that no link stands in for another file.
    """
    kind, _, name = reference.partition(":")
    if kind == "env" and name.upper().startswith(OWN):
        return f"{reference} is Fencepost's own, and never handed out; keep yours under another name."
    if not rights.listed:
        return None
    listed = rights.of(tenant)
    if listed is None:
        return (
            f"{reference} is not for tenant {tenant}: the worker's own file lists other tenants, and this one gets none. "
            f'Write [tenants.{tenant}] with secrets = ["{reference}"] there, and start the worker again.'
        )
    if _same(reference, real) in {_same(one, real) for one in listed}:
        return None
    return (
        f"the tenant's secrets do not list {reference}. List it in [tenants.{tenant}] of the worker's own file, and start "
        "the worker again; what a tenant applies cannot grant it."
    )


def is_ordinary(name: str) -> bool:
    """Tell whether every agent gets this variable of the worker's, asked for or not."""
    return name in ORDINARY or name.startswith("LC_")


def is_reference(text: str) -> bool:
    """Tell whether a text says where a value is instead of what it is."""
    return text.startswith(("env:", "file:"))


def is_referred_place(text: str) -> bool:
    """Tell the same of a text that may be an address too, such as `file:///srv/site.git`."""
    return is_reference(text) and not text.startswith("file://")


def references_in(target: Target) -> Iterator[str]:
    """Yield the references that opening a gate follows."""
    from fencepost.model.target import PATHS

    if target.kind not in PATHS:
        yield from filter(is_referred_place, (target.where, *(value for _, value in target.options)))


def variables_in(target: Target) -> set[str]:
    """Return the names of the variables that opening a gate reads."""
    split = (reference.partition(":") for reference in references_in(target))
    return {name for kind, _, name in split if kind == "env"}


def _same(reference: str, real: Callable[[str], str]) -> str:
    """Spell a reference the one way in which it can be compared."""
    kind, _, where = reference.partition(":")
    return f"file:{real(where)}" if kind == "file" else reference


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, list | tuple):
        yield from map(str, value)
