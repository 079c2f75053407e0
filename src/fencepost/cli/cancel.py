"""`fencepost cancel`: take a run out of the queue, or ask it to stop."""

import argparse

from fencepost.cli import options
from fencepost.cli.registry import actor
from fencepost.model.run import RunState
from fencepost.operations.phrases import ago
from fencepost.operations.records.run_record import run_record
from fencepost.operations.run_queries import Store, ending_words, find_run, with_attempts
from fencepost.operations.run_requests import cancel
from fencepost.ports.runs import RunRow

EXAMPLES = """\
  fencepost cancel r01k9zq8
  fencepost queue --json | jq -r 'select(.agent).id' | xargs fencepost cancel
"""


def main(argv: list[str]) -> int:
    """Cancel runs, and say of each what that came to."""
    args = parser().parse_args(argv)
    tenant = options.tenant_of(args)
    ended = False
    with options.opened(args) as store:
        for text in args.run:
            before = find_run(store, tenant, text)
            now = cancel(store, before.id, tenant=tenant, by=actor())
            ended = ended or RunState(before.state).terminal
            print(options.json_line(run_record(with_attempts(store, now))) if args.json else words(store, before, now))
    return 1 if ended else 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "cancel",
        "Take a queued run out of the queue, or ask a running one to stop. Exits 1 if one had ended already.",
        EXAMPLES,
    )
    made.add_argument("run", nargs="+", metavar="RUN", help="the run's id, or its beginning")
    options.add_json(made)
    options.add_store(made)
    return made


def words(store: Store, before: RunRow, now: RunRow) -> str:
    """Say what the cancelling came to."""
    if RunState(before.state).terminal:
        when = ago(before.ended_us, store.clock_us()) if before.ended_us else "before"
        return options.wrapped(f"{now.id} had ended already, {when}: {ending_words(before)}")
    if now.state == RunState.CANCELLED:
        return f"{now.id} is cancelled; it had not started"
    return f"{now.id} is asked to stop\nfollow it: fencepost logs -f {now.id}"
