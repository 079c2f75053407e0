"""`fencepost run AGENT --payloads FILE`: one run for each line, all of them or none."""

import argparse
import json
import sys
from collections.abc import Iterator

from fencepost import wiring
from fencepost.cli import options, render
from fencepost.cli.registry import actor
from fencepost.model.errors import Invalid, QueueFull
from fencepost.operations.bulk_requests import BATCH_BYTES_MAX, WantedRun, line_of, request_many
from fencepost.ports.requests import BATCH_MAX, WaitingLine

STDIN = "-"
ALONE = ("payload", "tick", "again", "overlap", "wait")


def run_many(args: argparse.Namespace) -> int:
    """Ask for all runs in one durable commit, and print their ids in the order of the lines."""
    if clash := [f"--{name}" for name in ALONE if getattr(args, name)]:
        raise Invalid(f"--payloads makes many runs, and {', '.join(clash)} is about one; leave it out.")
    tenant = options.tenant_of(args)
    with options.opened(args) as store:
        # With a key, some may have been asked for before and take no room: the store says so when it sees them.
        line = None if args.key else line_of(store, tenant=tenant, agent=args.name)
        wanted = [
            WantedRun(payload, f"{args.key}:{number}" if args.key else None)
            for number, payload in enumerate(payloads_of(args.payloads, line), 1)
        ]
        made = request_many(
            store, tenant=tenant, agent=args.name, wanted=wanted, new_run_ids=wiring.new_run_ids, by=actor()
        )
    earlier = sum(one.earlier for one in made)
    again = f"; {earlier} of them had been asked for before" if earlier else ""
    render.tell(f"{len(made)} run{'' if len(made) == 1 else 's'} of {args.name}{again}")
    for one in made:
        print(json.dumps(one._asdict()) if args.json else one.id)
    return 0


def payloads_of(path: str, line: WaitingLine | None = None) -> list[dict[str, object]]:
    """Read one object from each line, or say in which line something is wrong; nothing is asked for then.

    What does not fit into the agent's line is refused at the first payload too many, however many follow.
    """
    source = "stdin" if path == STDIN else path
    found: list[dict[str, object]] = []
    for number, text in enumerate(_lines(path), 1):
        if not text.strip():
            continue
        try:
            payload = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"{source}:{number}: this is no JSON: {error}. Nothing was asked for.") from None
        if not isinstance(payload, dict):
            raise Invalid(f"{source}:{number}: a payload is a JSON object, one on each line. Nothing was asked for.")
        found.append(payload)
        if line is not None and len(found) > line.room:
            raise QueueFull(_no_room(source, line))
        if len(found) > BATCH_MAX:
            raise Invalid(f"{source} has more than {BATCH_MAX:,} payloads; ask for so many at a time.")
    if not found:
        raise Invalid(f"{source} has no payloads; write one JSON object on each line.")
    return found


def _no_room(source: str, line: WaitingLine) -> str:
    wait = f", and {line.waiting:,} do already" if line.waiting else ""
    more = f"at most {line.room:,} at a time" if line.room else "again when some have run"
    return (
        f"{source} has more payloads than there is room for: at most {line.line_max:,} runs of this agent may wait{wait}. "
        f"Ask for {more}, or raise waiting_max of the agent. Nothing was asked for."
    )


def _lines(path: str) -> Iterator[str]:
    """Yield lines, of a bounded length each: a file of zeros must not fill the memory."""
    try:
        file = sys.stdin if path == STDIN else open(path, encoding="utf-8")  # noqa: SIM115  # closed below
        with file:
            while line := file.readline(BATCH_BYTES_MAX):
                yield line
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(f"the payloads cannot be read from {path}: {why}.") from None
