"""`fencepost key create|list|revoke|link`: who may come in through the web door."""

import argparse
from datetime import timedelta

from fencepost.cli import options, render
from fencepost.cli.registry import actor
from fencepost.model.access import PEOPLE, Role
from fencepost.model.duration import parse_duration
from fencepost.operations.phrases import rfc3339
from fencepost.operations.records.key_record import key_record, new_key_record, new_link_record
from fencepost.operations.run_queries import Store
from fencepost.operations.web_keys import create_key, create_link, link_url, revoke_key
from fencepost.ports.keys import KeyRow

EXAMPLES = """\
  fencepost key create ci --role trigger
  fencepost key create grafana --expires 90d
  fencepost key create on-call --all-tenants  looks at every tenant
  fencepost key create laptop --role lease   for FENCEPOST_STORE=https://…
  fencepost key list
  fencepost key revoke 3f9a0c5e21b7
  fencepost key link                    another login link for a browser
"""
LIMIT = 100
ROLES = [role.value for role in Role]


def main(argv: list[str]) -> int:
    """Do one thing with keys."""
    args = parser().parse_args(argv)
    with options.opened(args, make=args.action == "create") as store:  # keys may be made before the first start
        return ACTIONS[args.action](store, options.tenant_of(args), args)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("key", "Look after the keys of the web door. The store keeps only their hashes.", EXAMPLES)
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    new = options.action(actions, "create", "make a key for a program, and print it once")
    new.add_argument("name", metavar="NAME", help="what it is for")
    new.add_argument(
        "--role",
        choices=ROLES,
        default=Role.READ.value,
        help="read looks, trigger also runs, admin does all; lease keeps other machines' leases (read)",
    )
    new.add_argument(
        "--all-tenants",
        action="store_true",
        help="an operator's key: each request may name another tenant in X-Fencepost-Tenant; not for MCP",
    )
    new.add_argument("--expires", metavar="D", help="good for so long, such as 90d (default: until it is revoked)")
    listing = options.action(actions, "list", "list the keys, newest first")
    listing.add_argument("--all", action="store_true", help="login links and the sessions of browsers too")
    options.add_listing(listing, limit=LIMIT)
    gone = options.action(actions, "revoke", "end a key, at once; sessions that came from it end too")
    gone.add_argument("id", metavar="ID", help="as listed")
    link = options.action(actions, "link", "make a login link for one browser, good once and for an hour")
    link.add_argument("--at", default="http://127.0.0.1:7420", metavar="URL", help="where the web server is")
    link.add_argument(
        "--role",
        choices=[role.value for role in PEOPLE],
        default=Role.ADMIN.value,
        help="what the browser may do (admin)",
    )
    for action in (new, gone, link):
        options.add_json(action)
        options.add_store(action)
    return options.share_examples(made, actions)


def create(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """Make a key; it is shown only once."""
    expires = timedelta(seconds=parse_duration(args.expires)) if args.expires else None
    made = create_key(
        store.keys(),
        tenant=tenant,
        name=args.name,
        role=Role(args.role),
        by=actor(),
        expires_after=expires,
        all_tenants=args.all_tenants,
    )
    if args.json:
        options.print_json([new_key_record(made)])
        return 0
    whose = "all tenants" if args.all_tenants else f"tenant {tenant}"
    render.tell(f"key {made.row.id}, role {made.row.role}, {whose}; it is shown this once:")
    print(made.secret.text)
    return 0


def list_them(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """List keys; their secret half is nowhere."""
    rows = store.keys().keys(tenant, kind="" if args.all else "key", limit=args.limit)
    if args.json:
        options.print_json(map(key_record, rows))
    elif not rows:
        print("no keys; make one with: fencepost key create NAME")
    else:
        now_us = store.clock_us()
        lines = [
            (row.id, row.kind, _role(row), state(row, now_us), str(rfc3339(row.created_us)), row.name) for row in rows
        ]
        options.print_table(("ID", "KIND", "ROLE", "STATE", "MADE", "NAME"), lines)
    return 0


def _role(row: KeyRow) -> str:
    return f"{row.role}, all tenants" if row.all_tenants else row.role


def revoke(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """End a key."""
    row = revoke_key(store.keys(), args.id, tenant=tenant, by=actor())
    print(options.json_line(key_record(row)) if args.json else f"{row.id} is revoked")
    return 0


def link(store: Store, tenant: str, args: argparse.Namespace) -> int:
    """Make a login link."""
    made = create_link(store.keys(), tenant=tenant, by=actor(), role=Role(args.role))
    url = link_url(args.at, made.secret)
    print(options.json_line(new_link_record(made, url)) if args.json else url)
    return 0


def state(row: KeyRow, now_us: int) -> str:
    """Say whether a key is good."""
    if row.revoked_us is not None:
        return "used" if row.kind == "link" else "revoked"
    return "expired" if row.expires_us is not None and row.expires_us <= now_us else "good"


ACTIONS = {"create": create, "list": list_them, "revoke": revoke, "link": link}
