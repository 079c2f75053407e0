"""`fencepost doctor`: is this machine fit, and is anybody looking."""

import argparse
import os

from fencepost import wiring
from fencepost.cli import options
from fencepost.config.load import load
from fencepost.model.errors import FencepostError
from fencepost.operations.doctor import examine, patient
from fencepost.operations.finding import Finding, Status, finding_fields
from fencepost.operations.looking import Store

EXAMPLES = """\
  fencepost doctor
  fencepost doctor --json | jq 'select(.status != "ok")'
"""
COLOURS = {Status.WARN: options.YELLOW, Status.FAIL: options.RED}


def main(argv: list[str]) -> int:
    """Examine, say what was found, and fail if something does."""
    args = parser().parse_args(argv)
    who = patient(
        os.environ,
        tenant=tenant_of(args),
        log_folder=wiring.log_folder(),
        open_store=lambda: open_store(args),
        check_config=load,
        memory_of=wiring.kept_seals,
    )
    findings = []
    for finding in examine(who):
        findings.append(finding)
        print_finding(finding, as_json=args.json)
    return 1 if any(one.status is Status.FAIL for one in findings) else 0


def open_store(args: argparse.Namespace) -> Store:
    """Open the store that the command line means, if it is there."""
    options.use_config(args)
    return wiring.open_runtime(wiring.existing_store(args.store))


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "doctor", "Check the store, the scheduler, this machine and its settings. Exits 1 if something fails.", EXAMPLES
    )
    options.add_json(made)
    options.add_store(made)
    return made


def tenant_of(args: argparse.Namespace) -> str:
    """Return whose things to look at; a file that cannot be read is told by its own check."""
    try:
        return options.tenant_of(args)
    except FencepostError:
        return options.DEFAULT_TENANT


def print_finding(finding: Finding, *, as_json: bool) -> None:
    """Print one line, and another with what to do."""
    if as_json:
        options.print_json([finding_fields(finding)])
        return
    first, *more = options.wrapped(f"{finding.check}: {options.homely(finding.message)}", indent="      ").splitlines()
    word = options.paint(f"{finding.status:<4}", COLOURS.get(finding.status, options.GREEN))
    print("\n".join([f"{word}  {first.strip()}", *more]))
    if finding.fix:
        print(options.wrapped(f"→ {options.homely(finding.fix)}", indent="      "))
