"""`fencepost prove`: every owed tick has exactly one record, or here is which has not."""

import argparse
import json
from collections.abc import Iterator

from fencepost.cli import options, render
from fencepost.cli.progress_bar import ProgressBar
from fencepost.model.proof import ProofFinding, ScheduleProof, TenantProof
from fencepost.model.zone import find_zone
from fencepost.operations.phrases import rfc3339, span
from fencepost.operations.preview import parse_moment
from fencepost.operations.prove import prove
from fencepost.operations.records import as_json
from fencepost.operations.records.proof_record import proof_record

EXAMPLES = """\
  fencepost prove
  fencepost prove --schedule nightly --from 2026-03-01 --until 2026-04-01
  fencepost prove --json | tail -n 1 | jq .missing

It works out what every version of every schedule owed while it was in force, by
another way than the scheduler's, and compares. Exits 1 if a tick has no record,
or two. Ticks beyond the cursor are pending, not missing.
"""
LIMIT = 100


def main(argv: list[str]) -> int:
    """Prove, and show what does not hold."""
    args = parser().parse_args(argv)
    utc = find_zone("UTC")
    with options.opened(args) as store, ProgressBar("proving") as bar:
        proof = prove(
            store,
            tenant=options.tenant_of(args),
            from_=parse_moment(args.start, utc) if args.start else None,
            until=parse_moment(args.end, utc) if args.end else None,
            schedule=args.schedule,
            progress=lambda done, of: bar.to(done, of, words=f"{done:,} of {of:,} schedules"),
        )
    for line in json_lines(proof, args.limit) if args.json else page(proof, args.limit):
        print(line)
    return 0 if proof.holds else 1


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("prove", "Show that every owed tick is accounted for, exactly once.", EXAMPLES)
    made.add_argument("--schedule", metavar="NAME", help="only this one (default: all there ever were)")
    made.add_argument("--from", dest="start", metavar="T", help="from this instant on, or this time in UTC")
    made.add_argument("--until", dest="end", metavar="T", help="before this instant (default: now)")
    options.add_listing(made, limit=LIMIT)
    return made


def json_lines(proof: TenantProof, limit: int) -> Iterator[str]:
    """Yield one object for each schedule, and the sums last."""
    found = as_json(proof_record(proof, limit))
    yield from map(json.dumps, found.pop("schedules"))
    yield json.dumps(found)


def page(proof: TenantProof, limit: int) -> Iterator[str]:
    """Yield the verdict first, then what does not hold, then what is not decided yet."""
    sums = proof.totals()
    colour = options.GREEN if proof.holds else options.RED
    verdict = "every owed tick is accounted for" if proof.holds else "not every owed tick is accounted for"
    yield options.paint(verdict, colour)
    yield "  ".join(f"{name} {number}" for name, number in sums.items())
    findings = [finding for one in proof.schedules for finding in one.findings]
    for finding in findings[:limit]:
        yield options.wrapped(finding_words(finding), indent="  ")
    if len(findings) > limit:
        yield f"  ... and {len(findings) - limit} more; see them with --limit N"
    for one in proof.schedules:
        if one.pending:
            yield options.wrapped(pending_words(one))
    yield from map(options.wrapped, pruned_words(proof, limit))


def finding_words(finding: ProofFinding) -> str:
    """Tell what does not hold in one line."""
    when = f" at {rfc3339(finding.at_us)}" if finding.at_us is not None else ""
    many = f", {finding.number} ticks" if finding.number > 1 else ""
    return render.plain(f"{finding.schedule}: {finding.kind}{when}{many}: {finding.what}")


def pruned_words(proof: TenantProof, limit: int) -> Iterator[str]:
    """Tell where the proof begins for schedules whose earlier records are gone."""
    pruned = [
        one for one in proof.schedules if one.pruned_until_us is not None and one.pruned_until_us >= proof.from_us
    ]
    for one in pruned[:limit]:
        yield f"pruned: {one.schedule} is proved from {rfc3339(one.pruned_until_us)} on; earlier records are gone"
    if len(pruned) > limit:
        yield f"... and {len(pruned) - limit} more; see them with --limit N"


def pending_words(one: ScheduleProof) -> str:
    """Tell what is due and not decided yet, and how old the cursor is."""
    age = span(round((one.cursor_age_seconds or 0) * 1_000_000))
    return f"pending: {one.schedule} has {one.pending} due beyond its cursor, which is {age} old"
