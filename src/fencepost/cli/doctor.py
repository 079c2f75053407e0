"""`fencepost doctor`: is this machine fit, and is a scheduler at work."""

import argparse
import os
import subprocess

from fencepost import wiring
from fencepost.cli import options
from fencepost.config.load import load
from fencepost.model.errors import FencepostError
from fencepost.model.own_program import own_program
from fencepost.operations.agent_versions import ask_version
from fencepost.operations.doctor import examine, patient
from fencepost.operations.doctor_finding import CheckFinding, Status
from fencepost.operations.run_queries import Store
from fencepost.ports.store import LeaseStore
from fencepost.wiring import audit_sealing, machine_facts, state_folders, store_choice

EXAMPLES = """\
  fencepost doctor
  fencepost doctor --json | jq 'select(.status != "ok")'
  fencepost doctor --as-cron             with the little that cron hands on
"""
# What Debian's and macOS's cron hand on; a crontab may set more, and what it sets for us is kept.
FROM_CRON = ("HOME", "LOGNAME", "USER")
CRON = {"PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
COLOURS = {Status.WARN: options.YELLOW, Status.FAIL: options.RED}


def main(argv: list[str]) -> int:
    """Examine, say what was found, and fail if something does."""
    args = parser().parse_args(argv)
    if args.as_cron:
        return become_cron([word for word in argv if word != "--as-cron"])
    who = patient(
        os.environ,
        tenant=tenant_of(args),
        log_folder=state_folders.log_folder(),
        open_store=lambda: open_store(args),
        check_config=load,
        clock=machine_facts.system_clock(),
        ask_sqlite=machine_facts.sqlite_version,
        memory_of=audit_sealing.kept_seals,
        ask_version=ask_version,
    )
    findings = []
    for finding in examine(who):
        findings.append(finding)
        print_finding(finding, as_json=args.json)
    return 1 if any(one.status is Status.FAIL for one in findings) else 0


def become_cron(argv: list[str]) -> int:
    """Examine once more, in the environment that a crontab line has."""
    kept = {name: value for name, value in os.environ.items() if name in FROM_CRON or name.startswith("FENCEPOST_")}
    return subprocess.run(
        [*own_program(), "doctor", *argv],
        env={**kept, **CRON},
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # without a terminal, so that nothing can ask for a password
        check=False,
    ).returncode


def open_store(args: argparse.Namespace) -> Store | LeaseStore:
    """Open the store that the command line means, if it is there; a store of cells is tried anew."""
    options.use_config(args)
    url = store_choice.existing_store(args.store, args.tenant)
    return wiring.probe_leases(url) if wiring.is_cells(url) else wiring.open_runtime(url)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "doctor", "Check the store, the scheduler, this machine and its settings. Exits 1 if something fails.", EXAMPLES
    )
    made.add_argument("--as-cron", action="store_true", help="look as a crontab line does: with cron's few variables")
    options.add_json(made)
    options.add_store(made)
    return made


def tenant_of(args: argparse.Namespace) -> str:
    """Return whose things to look at; a file that cannot be read is told by its own check."""
    try:
        return options.tenant_of(args)
    except FencepostError:
        return options.DEFAULT_TENANT


def print_finding(finding: CheckFinding, *, as_json: bool) -> None:
    """Print one line, and another with what to do."""
    if as_json:
        options.print_json([finding])
        return
    first, *more = options.wrapped(f"{finding.check}: {options.homely(finding.message)}", indent="      ").splitlines()
    word = options.paint(f"{finding.status:<4}", COLOURS.get(finding.status, options.GREEN))
    print("\n".join([f"{word}  {first.strip()}", *more]))
    if finding.fix:
        print(options.wrapped(f"→ {options.homely(finding.fix)}", indent="      "))
