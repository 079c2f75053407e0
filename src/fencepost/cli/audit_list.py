"""`fencepost audit list`: who decided what, newest first."""

import argparse

from fencepost.cli import options
from fencepost.operations.fields import audit_fields
from fencepost.operations.looking import list_audit
from fencepost.operations.words import rfc3339
from fencepost.ports.looking import AuditRow

EXAMPLES = """\
  fencepost audit list --limit 20
  fencepost audit list --subject schedule:nightly --json
"""
LIMIT = 50


def main(argv: list[str]) -> int:
    """List audit rows."""
    args = parser().parse_args(argv)
    with options.opened(args) as store:
        rows = list_audit(store, options.tenant_of(args), verb=args.verb, subject=args.subject, limit=args.limit)
    if args.json:
        options.print_json(map(audit_fields, rows))
    else:
        print_rows(rows)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("audit", "List decisions and operators' acts, newest first.", EXAMPLES)
    made.add_argument("action", nargs="?", choices=["list"], default="list", metavar="list")
    made.add_argument("--verb", default="", metavar="V", help="only this kind: tick, settle, cancel, pause, apply, ...")
    made.add_argument("--subject", default="", metavar="S", help="only about this, such as schedule:nightly or run:ID")
    options.add_listing(made, limit=LIMIT)
    return made


def print_rows(rows: list[AuditRow]) -> None:
    """Print one line for each."""
    if not rows:
        print("the audit is empty")
        return
    lines = [(str(rfc3339(one.at_us)), one.actor, one.verb, one.subject, one.detail) for one in rows]
    options.print_table(("AT", "WHO", "VERB", "SUBJECT", "DETAIL"), lines)
