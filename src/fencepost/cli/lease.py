"""`fencepost lease list|break|forget|reset-tick`."""

import os
from contextlib import closing

from fencepost import wiring
from fencepost.cli import render
from fencepost.model import fast_json as json
from fencepost.model.duration import format_duration
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.lease import parse_resource, renew_every
from fencepost.operations.lease_admin import (
    ListedLease,
    break_lease,
    forget_gate,
    forget_lost,
    forget_tick,
    list_leases,
    lost_leases,
)
from fencepost.wiring import store_choice

if TYPE_CHECKING:
    from fencepost.model.fast_typing import Iterator
    from fencepost.model.lease import Held
    from fencepost.ports.store import LeaseStore

RESOURCE_WIDTH, HOST_WIDTH = 24, 12
OWN_TENANT = "default"  # that of commands without a configuration
HELP = """\
usage: fencepost lease list [--lost] [--json] [--limit N] [--all-tenants]
       fencepost lease break RESOURCE [--note TEXT]
       fencepost lease forget RESOURCE
       fencepost lease forget --host NAME [--all-tenants]
       fencepost lease forget RESOURCE GATE
       fencepost lease reset-tick LOCK [JOB]
each with: [--tenant NAME] [--store URL] [--config FILE]

See who holds what, or take a lease from its holder. In a folder with a
configuration this is about its store, and where that one has nothing of the
name, about the store of commands without a configuration.
A broken lease's run ends at its next renewal; a successor on the same machine
ends it before it starts.
A lease is lost if its holder was not heard of in time and no host has seen its
processes dead: list --lost shows them. A worker on that machine ends what is
left. If the machine or container is gone for good, forget them; after the
store's retention they go by themselves.
A run that ended badly leaves a debt: its gates are raised by the next one.
forget with a gate drops that debt, for a gate that is gone for good.
reset-tick throws away what is known of a crontab line's ticks (exec --tick),
after a clock was wrong: the newest tick may then run once more.

examples:
  fencepost lease list
  fencepost lease list --json | jq .fence
  fencepost lease break lock:nightly --note "stuck since the deploy"
  fencepost lease forget --host build-7f9c
"""


def main(argv: list[str]) -> int:
    """List the leases, break one, or forget a gate."""
    verb, options, words = parse(argv)
    if verb is None:
        print(HELP, end="")
        return 0
    if "--config" in options:
        os.environ["FENCEPOST_CONFIG"] = options["--config"]
    tenant = store_choice.tenant_name(options.get("--tenant"))
    url = store_choice.existing_store(options.get("--store"), tenant)
    if verb == "list":
        with closing(wiring.open_leases(url)) as store:
            show(store, url, options, tenant)
    else:
        act(verb, options, words, stores(url, options, tenant))
    return 0


def stores(url: str, options: dict[str, str], tenant: str) -> "Iterator[tuple[LeaseStore, str]]":
    """Yield the store that is meant, with its tenant, and then the one of commands without a configuration."""
    with closing(wiring.open_leases(url)) as store:
        yield store, tenant
    for own_url in own_stores(options):
        with closing(wiring.open_leases(own_url)) as own:
            yield own, OWN_TENANT


def own_stores(options: dict[str, str]) -> "Iterator[str]":
    """Yield this machine's own store, where a configuration's was meant and no tenant was named."""
    return iter(()) if "--tenant" in options else store_choice.machine_store(options.get("--store"))


def act(verb: str, options: dict[str, str], words: list[str], places: "Iterator[tuple[LeaseStore, str]]") -> None:
    """Act on what is named in the first store that has it; what a host has left is forgotten in all of them."""
    refusal, done = None, False
    for store, tenant in places:
        try:
            for line in ACTS[verb](store, tenant, options, words):
                print(f"{line}, in {store.facts().url}")
        except Unknown as error:
            refusal = refusal or error
            continue
        done = True
        if "--host" not in options:
            return
    if refusal and not done:
        raise refusal


def break_one(store: "LeaseStore", tenant: str, options: dict[str, str], words: list[str]) -> list[str]:
    """Take a lease from its holder, and say whose it was."""
    note = options.get("--note", "broken by hand")
    held = break_lease(store, parse_resource(words[0]), tenant=tenant, why=note, on_this_machine=True)
    return [f"broken: {words[0]} was held by {held.run_id} with fence {held.fence}{goes_on(store, held)}"]


def forget(store: "LeaseStore", tenant: str, options: dict[str, str], words: list[str]) -> list[str]:
    """Forget the debt to a gate, the lost leases on a resource, or those of a host that is gone."""
    if words[1:]:
        forget_gate(store, parse_resource(words[0]), words[1], tenant=tenant)
        return [f"forgotten: {words[0]} no longer owes {words[1]} its fence"]
    resource = parse_resource(words[0]) if words else ""
    whose = None if "--all-tenants" in options else tenant
    lost = forget_lost(store, whose, resource=resource, host=options.get("--host", ""), on_this_machine=True)
    return [
        f"forgotten: {render.plain(' '.join(held.resources))} was lost by {held.run_id} "
        f"on {render.plain(held.supervisor.host.name)}, fence {held.fence}"
        for held in lost
    ]


def reset_tick(store: "LeaseStore", tenant: str, _: dict[str, str], words: list[str]) -> list[str]:
    """Throw away what is known of the ticks of a crontab line."""
    lock = words[0] if ":" in words[0] else f"lock:{words[0]}"
    job = words[1] if words[1:] else lock.partition(":")[2]
    forget_tick(store, parse_resource(lock), job, tenant=tenant)
    return [f"forgotten: what was known of the ticks of {job}"]


ACTS = {"break": break_one, "forget": forget, "reset-tick": reset_tick}


def show(store: "LeaseStore", url: str, options: dict[str, str], tenant: str) -> None:
    """List what is held or, with --lost, what was lost; a plain list says how many it leaves out."""
    whose, lost = None if "--all-tenants" in options else tenant, "--lost" in options
    listed = lost_leases(store, whose) if lost else list_leases(store, whose)
    if not listed and "--tenant" in options:
        refuse_unknown(url, tenant)
    limit = int(options.get("--limit", "1000000"))
    here = listed[:limit]
    if "--json" in options:
        print_json(here)
    else:
        print_table(here, f"no {'lost leases' if lost else 'leases'} in {store.facts().url}", says_whose=whose is None)
        left_out = 0 if lost else len({one.held.id for one in lost_leases(store, whose)})
        if left_out:
            print(f"lost, and not listed here: {left_out}; see them with 'fencepost lease list --lost'")
    for notice in store.facts().notices:
        render.tell(f"warning: {notice}")
    list_own(options, limit - len(here), lost=lost)


def refuse_unknown(url: str, tenant: str) -> None:
    """Raise an error about a tenant that the store does not know; an empty list would say that all is quiet."""
    from fencepost.operations.tenants import check_tenant

    with closing(wiring.open_runtime(url)) as runtime:
        check_tenant(runtime, tenant)


def list_own(options: dict[str, str], limit: int, *, lost: bool) -> None:
    """List what bare `exec` holds in this machine's own store, where a configuration's was meant."""
    for url in own_stores(options):
        with closing(wiring.open_leases(url)) as own:
            listed = (lost_leases(own, None) if lost else list_leases(own))[:limit]
            where = own.facts().url
        if "--json" in options:
            print_json(listed)
        elif listed:
            print(f"\nof commands without a configuration, in {where}:")
            print_table(listed, "", says_whose=False)


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
        if name in ("--json", "--all-tenants", "--lost"):
            options[name] = "yes"
        elif name in ("--store", "--limit", "--note", "--tenant", "--config", "--host"):
            if not equals and not rest:
                raise Invalid(f"{name} needs a value.")
            options[name] = value if equals else rest.pop(0)
        elif name.startswith("-"):
            raise Invalid(f"lease has no option {name!r}; see 'fencepost lease --help'.")
        else:
            words.append(name + equals + value)
    verb = words.pop(0) if words else "list"
    known = {"list": (0,), "break": (1,), "forget": (0,) if "--host" in options else (1, 2), "reset-tick": (1, 2)}
    if len(words) not in known.get(verb, ()):
        raise Invalid(
            "write 'lease list', 'lease break RESOURCE', 'lease forget RESOURCE [GATE]', 'lease forget --host NAME' "
            "or 'lease reset-tick LOCK [JOB]'."
        )
    limit = options.get("--limit", "1")
    if not (limit.isascii() and limit.isdigit()):
        raise Invalid(f"--limit is a whole number, not {limit!r}.")
    return verb, options, words


def print_json(listed: list[ListedLease]) -> None:
    """Print one object per line, with the fields that scripts rely on."""
    from fencepost.operations.records import as_json
    from fencepost.operations.records.lease_record import lease_record

    for one in listed:
        print(json.dumps(as_json(lease_record(one))))


def print_table(listed: list[ListedLease], empty: str, *, says_whose: bool) -> None:
    """Print what a person wants to know first; where it is about all tenants, whose it is."""
    if not listed:
        print(empty)
        return
    rows = [
        (
            *([render.plain(one.held.tenant)] if says_whose else []),
            render.cut(render.plain(one.resource), render.room(RESOURCE_WIDTH)),
            str(one.held.fence),
            format_duration(one.held.held_seconds),
            f"{one.held.supervisor.pid}@{render.plain(one.held.supervisor.host.name)[: render.room(HOST_WIDTH)]}",
            render.plain(one.held.label),
        )
        for one in listed
    ]
    whose = ("TENANT",) if says_whose else ()
    print(render.table((*whose, "RESOURCE", "FENCE", "FOR", "HOLDER", "WHAT"), rows))
