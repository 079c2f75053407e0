"""`fencepost run`: run an agent or a schedule now, through the same queue."""

import argparse
import json
import sys

from fencepost import wiring
from fencepost.cli import options, render
from fencepost.cli.logs import tell_end, write
from fencepost.cli.registry import actor
from fencepost.cli.run_many import run_many
from fencepost.model.errors import Invalid
from fencepost.model.run import RunState
from fencepost.operations.records.run_record import run_record
from fencepost.operations.run_queries import SeenRun, Store, exit_code_of, find_run, moment, show
from fencepost.operations.run_requests import request_run
from fencepost.ports.runs import RunRow
from fencepost.service.following import Ears, follow
from fencepost.wiring import state_folders

EXAMPLES = """\
  fencepost run digest                        an agent: waits its turn in line
  fencepost run nightly --wait                a schedule: obeys its overlap
  fencepost run digest --payload '{"month": "2026-03"}'
  fencepost run digest --payload @order.json --key order-4711
  fencepost run digest --payloads orders.jsonl --key orders-2026-03
  fencepost run nightly --tick 2026-03-28T02:30 --wait
  id=$(fencepost run digest | tail -n 1)

With --wait it exits as the agent did, 127 if there is no such program, 126 if
it cannot be run; 124 timed out, 76 lost, 75 busy or waited too long, 77 refused
by a gate, 78 misconfigured, 1 cancelled.
"""
STDIN = "-"
PAYLOAD_BYTES_MAX = 1_000_000
PATIENCE_LOOKS = 20  # looks without a worker before a person is asked about workers


def main(argv: list[str]) -> int:
    """Ask for a run, and wait for it if told to."""
    args = parser().parse_args(argv)
    if args.payloads:
        return run_many(args)
    tenant, payload = options.tenant_of(args), payload_of(args.payload)
    with options.opened(args) as store:
        requested = request_run(
            store,
            tenant=tenant,
            target=args.name,
            payload=payload,
            key=args.key,
            tick=moment(store, tenant, args.name, args.tick) if args.tick else None,
            again=args.again,
            overlap=args.overlap,
            new_run_id=wiring.new_run_id,
            by=actor(),
        )
        if requested.said:
            render.tell(requested.said)
        run = requested.run
        code = wait_for(store, run, loud=not args.json) if args.wait else tell_place(store, run)
        seen = show(store, tenant, run.id).seen
    print_last(seen, as_json=args.json)
    return code


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "run", "Run an agent or a schedule now, through the same queue. Prints the run's id last.", EXAMPLES
    )
    made.add_argument("name", metavar="AGENT|SCHEDULE")
    made.add_argument("--payload", metavar="J", help="a JSON object; @FILE reads a file, - reads stdin")
    made.add_argument(
        "--payloads",
        metavar="FILE",
        help="an agent's: one run for each line, a JSON object; all or none, as many as its waiting_max lets wait; - reads stdin",
    )
    made.add_argument("--key", metavar="K", help="the same key is the same run, however often you ask")
    made.add_argument("--tick", metavar="T", help="run this tick of a schedule, with its period and key")
    made.add_argument("--again", action="store_true", help="run the tick although it succeeded, with a new key")
    made.add_argument("--overlap", metavar="P", help="another overlap policy than the schedule's, this once")
    made.add_argument("--wait", action="store_true", help="follow it to its end, and exit as it did")
    options.add_json(made)
    options.add_store(made)
    return made


def payload_of(text: str | None) -> dict[str, object] | None:
    """Read the payload, or say what is wrong with it and where."""
    if text is None:
        return None
    source, data = "--payload", text
    if text == STDIN:
        source, data = "the payload on stdin", sys.stdin.read(PAYLOAD_BYTES_MAX + 1)
    elif text.startswith("@"):
        source, data = text[1:], read_file(text[1:])
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"{source} is no JSON: {error}. It takes an object, such as {EXAMPLE}") from None
    if not isinstance(found, dict):
        raise Invalid(f"{source} is a JSON {type(found).__name__}, and has to be an object, such as {EXAMPLE}")
    return found


EXAMPLE = '{"month": "2026-03"}'


def read_file(path: str) -> str:
    """Read a payload that was named by its file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(PAYLOAD_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise Invalid(f"the payload cannot be read from {path}: {why}.") from None


def tell_place(store: Store, run: RunRow) -> int:
    """Say where a run stands that the caller does not wait for."""
    detail = show(store, run.tenant, run.id)
    if detail.seen.place:
        render.tell(detail.seen.place.words(detail.now_us))
    return 0


def wait_for(store: Store, run: RunRow, *, loud: bool) -> int:
    """Follow a run to its end, saying what becomes of it, and return the exit code that it means."""
    watcher = Watcher(store)
    output = write if loud else _nothing
    ears = Ears(output, watcher.told)
    try:
        ended = follow(run, lambda: find_run(store, run.tenant, run.id), state_folders.log_folder(), ears)
    except KeyboardInterrupt:
        render.tell(f"run {run.id} goes on without you; stop it with: fencepost cancel {run.id}")
        raise
    tell_end(store, ended, output=output)
    return exit_code_of(ended)


def _nothing(_: bytes) -> None:
    """Keep an agent's output away from what a script reads."""


class Watcher:
    """Says each thing once: a new place in the queue, a new attempt, and that no worker seems to be there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._said: object = None
        self._idle = 0

    def told(self, run: RunRow) -> None:
        """Take note of how a run stands."""
        if run.state == RunState.READY:
            self._waits(run)
        elif run.state == RunState.RUNNING and self._is_news((run.state, run.attempt)):
            render.tell(f"running · attempt {run.attempt} · fence {run.fence} · on {run.worker}")

    def _waits(self, run: RunRow) -> None:
        detail = show(self._store, run.tenant, run.id)
        place = detail.seen.place
        if place is None:
            return
        if self._is_news((place.position, place.behind.run_id if place.behind else None, place.halted)):
            render.tell(place.words(detail.now_us))
        free = place.behind is None and place.not_before_us is None and not place.halted
        self._idle = self._idle + 1 if free else 0
        if self._idle == PATIENCE_LOOKS:
            render.tell("no worker has taken it yet; is `fencepost up` running?")

    def _is_news(self, what: object) -> bool:
        news, self._said = what != self._said, what
        return news


def print_last(seen: SeenRun, *, as_json: bool) -> None:
    """Print the id, or all fields, as the last line."""
    print(options.json_line(run_record(seen)) if as_json else seen.run.id, flush=True)
