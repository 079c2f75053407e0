"""`fencepost lease list|break|forget|reset-tick`."""

import os
import time

from fencepost import wiring
from fencepost.cli import render
from fencepost.model import light_json as json
from fencepost.model.duration import format_duration
from fencepost.model.errors import Invalid
from fencepost.model.lease import parse_resource, renew_every
from fencepost.model.light import TYPE_CHECKING
from fencepost.operations.leases import Listed, break_lease, forget_gate, forget_tick, lease_fields, list_leases

if TYPE_CHECKING:
    from fencepost.model.lease import Held
    from fencepost.ports.store import LeaseStore

RESOURCE_WIDTH, HOST_WIDTH = 24, 12
HELP = """\
usage: fencepost lease list [--json] [--limit N] [--all-tenants]
       fencepost lease break RESOURCE [--note TEXT]
       fencepost lease forget RESOURCE GATE
       fencepost lease reset-tick LOCK [JOB]
each with: [--tenant NAME] [--store URL] [--config FILE]

See who holds what, also in the store of commands without a configuration, or
take a lease from its holder. A broken lease's run ends
at its next renewal; a successor on the same machine ends it before it starts.
A run that ended badly leaves a debt: its gates are raised by the next one.
forget drops that debt for a gate that is gone for good.
reset-tick throws away what is known of a crontab line's ticks (exec --tick),
after a clock was wrong: the newest tick may then run once more.

examples:
  fencepost lease list
  fencepost lease list --json | jq .fence
  fencepost lease break lock:nightly --note "stuck since the deploy"
"""


def main(argv: list[str]) -> int:
    """List the leases, break one, or forget a gate."""
    verb, options, words = parse(argv)
    if verb is None:
        print(HELP, end="")
        return 0
    if "--config" in options:
        os.environ["FENCEPOST_CONFIG"] = options["--config"]
    tenant = wiring.tenant_name(options.get("--tenant"))
    url = wiring.existing_store(options.get("--store"))
    store = wiring.open_leases(url)
    try:
        if verb == "list":
            listed = list_leases(store, None if "--all-tenants" in options else tenant)
            if not listed and "--tenant" in options:
                refuse_unknown(url, tenant)
            limit = int(options.get("--limit", "1000000"))
            here = listed[:limit]
            print_json(here) if "--json" in options else print_table(here, store.facts().url)
            list_own(options, limit - len(here))
        elif verb == "forget":
            forget_gate(store, parse_resource(words[0]), words[1], tenant=tenant)
            print(f"forgotten: {words[0]} no longer owes {words[1]} its fence")
        elif verb == "reset-tick":
            lock = words[0] if ":" in words[0] else f"lock:{words[0]}"
            job = words[1] if words[1:] else lock.partition(":")[2]
            forget_tick(store, parse_resource(lock), job, tenant=tenant)
            print(f"forgotten: what was known of the ticks of {job}")
        else:
            note = options.get("--note", "broken by hand")
            held = break_lease(store, parse_resource(words[0]), tenant=tenant, why=note, on_this_machine=True)
            print(f"broken: {words[0]} was held by {held.run_id} with fence {held.fence}{goes_on(store, held)}")
    finally:
        store.close()
    return 0


def refuse_unknown(url: str, tenant: str) -> None:
    """Raise an error about a tenant of whom the store has nothing; an empty list would say that all is quiet."""
    from contextlib import closing

    from fencepost.operations.tenants import check_tenant

    with closing(wiring.open_runtime(url)) as runtime:
        check_tenant(runtime, tenant)


def list_own(options: dict[str, str], limit: int) -> None:
    """List what bare `exec` holds in this machine's own store, where a configuration's was meant."""
    if "--tenant" in options:
        return
    for url in wiring.machine_store(options.get("--store")):
        own = wiring.open_leases(url)
        try:
            listed = list_leases(own)[:limit]
            where = own.facts().url
        finally:
            own.close()
        if "--json" in options:
            print_json(listed)
        elif listed:
            print(f"\nof commands without a configuration, in {where}:")
            print_table(listed, where)


def goes_on(store: "LeaseStore", held: "Held") -> str:
    """Say how long a holder may go on that hears of it at its next renewal, where that is far off."""
    if not store.facts().watches:
        return ""
    return f"; it may go on for {format_duration(int(renew_every(held.ttl_seconds)))}, until its next renewal"


def parse(argv: list[str]) -> tuple[str | None, dict[str, str], list[str]]:
    """Read the command line without the cost of a parser: listing leases is part of scripts' inner loops."""
    options: dict[str, str] = {}
    words: list[str] = []
    rest = list(argv)
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name in ("-h", "--help"):
            return None, {}, []
        if name in ("--json", "--all-tenants"):
            options[name] = "yes"
        elif name in ("--store", "--limit", "--note", "--tenant", "--config"):
            if not equals and not rest:
                raise Invalid(f"{name} needs a value.")
            options[name] = value if equals else rest.pop(0)
        elif name.startswith("-"):
            raise Invalid(f"lease has no option {name!r}; see 'fencepost lease --help'.")
        else:
            words.append(name + equals + value)
    verb = words.pop(0) if words else "list"
    known = {"list": (0,), "break": (1,), "forget": (2,), "reset-tick": (1, 2)}
    if len(words) not in known.get(verb, ()):
        raise Invalid(
            "write 'lease list', 'lease break RESOURCE', 'lease forget RESOURCE GATE' or 'lease reset-tick LOCK [JOB]'."
        )
    limit = options.get("--limit", "1")
    if not (limit.isascii() and limit.isdigit()):
        raise Invalid(f"--limit is a whole number, not {limit!r}.")
    return verb, options, words


def print_json(listed: list[Listed]) -> None:
    """Print one object per line, with the fields that scripts rely on."""
    for one in listed:
        print(json.dumps(lease_fields(one)))


def print_table(listed: list[Listed], url: str) -> None:
    """Print what a person wants to know first."""
    if not listed:
        print(f"no leases in {url}")
        return
    rows = [
        (
            render.cut(one.resource, render.room(RESOURCE_WIDTH)),
            str(one.held.fence),
            age(one.held.granted_us),
            f"{one.held.supervisor.pid}@{one.held.supervisor.host.name[: render.room(HOST_WIDTH)]}",
            render.plain(one.held.label),
        )
        for one in listed
    ]
    print(render.table(("RESOURCE", "FENCE", "FOR", "HOLDER", "WHAT"), rows))


def age(since_us: int) -> str:
    """Say how long ago something was."""
    return format_duration(max(0, int(time.time()) - since_us // 1_000_000))  # noqa: TID251  # for display only
