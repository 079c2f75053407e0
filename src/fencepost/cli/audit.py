"""`fencepost audit`: who decided what, and whether the record of it is whole."""

import argparse
import json
import os

from fencepost.cli import options
from fencepost.cli.options import GREEN, RED, YELLOW
from fencepost.model.audit_chain import Seal, key_id, read_heads
from fencepost.model.errors import Invalid
from fencepost.operations.asked_by import actor_of
from fencepost.operations.audit_verification import VerifiedAudit, accept_loss, audit_head, export_audit, verify_audit
from fencepost.operations.phrases import counted, rfc3339
from fencepost.operations.records.audit_record import audit_record, report_record
from fencepost.operations.run_queries import list_audit
from fencepost.ports.read_rows import AuditRow
from fencepost.wiring import audit_sealing

EXAMPLES = """\
  fencepost audit list --subject schedule:nightly --json
  fencepost audit export --head >> /mnt/elsewhere/heads.jsonl
  fencepost audit verify --heads /mnt/elsewhere/heads.jsonl
  fencepost audit accept --note "restored the backup of Monday"
"""
LIMIT = 50


def main(argv: list[str]) -> int:
    """List, verify or export the audit."""
    args = parser().parse_args(argv)
    if args.action == "verify":
        return verify(args)
    if args.action == "export":
        return export(args)
    if args.action == "accept":
        return accept(args)
    with options.opened(args) as store:
        rows = list_audit(store, options.tenant_of(args), verb=args.verb, subject=args.subject, limit=args.limit)
    if args.json:
        options.print_json(map(audit_record, rows))
    else:
        print_rows(rows)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("audit", "What was decided and done; and whether the record of it is whole.", EXAMPLES)
    made.add_argument("action", nargs="?", choices=["list", "verify", "export", "accept"], default="list")
    made.add_argument("--verb", default="", metavar="V", help="list: only this kind: tick, settle, cancel, apply, ...")
    made.add_argument("--subject", default="", metavar="S", help="list: only about this, such as schedule:nightly")
    made.add_argument(
        "--heads", metavar="FILE", help="verify: exported heads, which show whether the end was cut off since"
    )
    made.add_argument(
        "--key", action="append", default=[], metavar="REF", help="verify: one more key, env:NAME or file:PATH"
    )
    made.add_argument("--head", action="store_true", help="export: only the newest seal, one line to keep elsewhere")
    made.add_argument("--note", default="", metavar="TEXT", help="accept: why the store has lost the end of its audit")
    options.add_listing(made, limit=LIMIT)
    return made


def accept(args: argparse.Namespace) -> int:
    """Let a chain whose end was lost go on, with a reason, on record."""
    if not args.note.strip():
        raise Invalid('say why the end is lost: --note "restored the backup of Monday"')
    with options.opened(args) as store:
        memory = audit_sealing.kept_seals(store)
        done = accept_loss(store, memory, options.tenant_of(args), by=actor_of(os.environ), note=args.note)
    if args.json:
        print(json.dumps(done._asdict()))
    else:
        print(f"accepted: the audit of tenant {done.tenant} goes on after seal {done.after}; seal {done.lost} is lost")
    return 0


def verify(args: argparse.Namespace) -> int:
    """Walk the chain; 0 only if all of it is as it was."""
    heads = _heads(args.heads) if args.heads else []
    with options.opened(args) as store:
        memory = audit_sealing.kept_seals(store)
        report = verify_audit(store, options.tenant_of(args), keys=_keys(args), heads=heads, memory=memory)
    if args.json:
        options.print_json([report_record(report)])
    else:
        print_report(report)
    return 0 if report.good else 1


def export(args: argparse.Namespace) -> int:
    """Print the chain, or only its newest seal."""
    with options.opened(args) as store:
        tenant = options.tenant_of(args)
        for line in [audit_head(store, tenant)] if args.head else export_audit(store, tenant):
            print(line)
    return 0


def print_report(report: VerifiedAudit) -> None:
    """Say what was found, the worst first."""
    for fault in report.faults:
        print(options.paint(f"{fault.kind}: {fault.where}: {fault.what}", RED))
    for key in report.unknown_keys:
        print(options.paint(f"integrity: seals by key {key} cannot be checked without it; add --key", YELLOW))
    checked = f"{counted(report.entries, 'entry', 'entries')} in {counted(report.seals, 'seal')}"
    if report.good:
        print(options.paint(f"good: {checked}, unchanged and without a gap", GREEN))
    else:
        print(f"checked: {checked}")
    if report.loose.entries:
        print(
            f"{counted(report.loose.entries, 'entry', 'entries')} not sealed yet, since {rfc3339(report.loose.since_us)}"
        )
    for loss in report.losses:
        words = f"seal {loss['lost_seal']} was lost before {loss['at']}, accepted by {loss['by']}: {loss['note']}"
        print(options.wrapped(words))
    if report.heads:
        print(f"{counted(report.heads, 'exported head')} compared")
    if report.remembered is not None:
        print(f"compared with seal {report.remembered}, the newest that this machine remembers")
    elif report.seals and not report.heads:
        print("whether the end was cut off shows only with --heads")


def print_rows(rows: list[AuditRow]) -> None:
    """Print one line for each."""
    if not rows:
        print("the audit is empty")
        return
    lines = [(str(rfc3339(one.at_us)), one.actor, one.verb, one.subject, one.detail) for one in rows]
    options.print_table(("AT", "WHO", "VERB", "SUBJECT", "DETAIL"), lines)


def _keys(args: argparse.Namespace) -> dict[str, bytes]:
    options.use_config(args)
    configured = audit_sealing.audit_key(create=False)
    keys = [*([configured] if configured else []), *map(audit_sealing.audit_key_from, args.key)]
    return {key_id(key): key for key in keys}


def _heads(path: str) -> list[Seal]:
    try:
        with open(path, encoding="utf-8") as file:
            return list(read_heads(file))
    except OSError as error:
        raise Invalid(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise Invalid(f"{path}: {error}") from None
