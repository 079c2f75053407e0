"""`fencepost ledger list|once|resolve`: effects that happen once, by key."""

import argparse
import sys

from fencepost.cli import options, render
from fencepost.cli.registry import actor
from fencepost.model.effect_ledger import Entry
from fencepost.model.errors import Invalid
from fencepost.operations.ledger_commands import STANDINGS, Effect, find_entry, once_command, resolve
from fencepost.operations.phrases import ago
from fencepost.operations.records.ledger_record import entry_record
from fencepost.operations.supervisor_client import is_inside
from fencepost.wiring import machine_facts

EXAMPLES = """\
  fencepost ledger once invoice-2026-10 -- ./send-invoice.sh
  fencepost ledger list --state ambiguous
  fencepost ledger resolve invoice-2026-10 --completed '"INV-17"'
"""
ONCE_EXAMPLES = """\
  fencepost ledger once invoice-2026-10 -- ./send-invoice.sh
  fencepost ledger once deploy-42 --probe './is-live 42' -- ./deploy 42
  fencepost ledger once fetch --scope run --not-done 7,75 -- curl -fsS URL
"""
COLOURS = {"ambiguous": options.RED, "in_progress": options.YELLOW, "completed": ""}
CODE_MAX = 255
TEMPORARY = "75"


def main(argv: list[str]) -> int:
    """Look at the ledger, end an ambiguity, or have a command's effect once."""
    ours, command = _split(argv)
    args = parser().parse_args(ours)
    if args.action == "once":
        return have_once(args, command)
    if command is not None:
        raise Invalid("only 'ledger once KEY -- COMMAND' takes a command.")
    return list_them(args) if args.action == "list" else resolve_one(args)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("ledger", "Effects that happen once, by key, with their recorded answer.", EXAMPLES)
    actions = made.add_subparsers(dest="action", required=True, metavar="list|once|resolve")
    listing = options.action(actions, "list", "the entries, newest first")
    listing.add_argument("--state", choices=STANDINGS, help="only these; ambiguous ones need a person")
    options.add_listing(listing, limit=50)
    having = options.action(actions, "once", "inside a run: have the effect of a command once", ONCE_EXAMPLES)
    having.add_argument("key", metavar="KEY", help="what the effect is called, for every run of the tenant")
    having.add_argument(
        "--scope", choices=["tenant", "run"], default="tenant", help="run: only this run's attempts share it"
    )
    having.add_argument(
        "--probe", metavar="LINE", help="in doubt, ask the shell: exit 0 done (its output answers), 1 not done"
    )
    having.add_argument(
        "--not-done",
        metavar="CODES",
        default=TEMPORARY,
        help="exit codes by which the command says that nothing happened (default 75)",
    )
    resolving = options.action(actions, "resolve", "say what became of an ambiguous effect")
    resolving.add_argument("key", metavar="KEY")
    resolving.add_argument("--scope", metavar="SCOPE", default="tenant", help="as listed: tenant, or run:ID")
    way = resolving.add_mutually_exclusive_group(required=True)
    way.add_argument("--completed", metavar="ANSWER", help="it took place; ANSWER is JSON")
    way.add_argument("--forget", action="store_true", help="it did not; the next caller does it")
    options.add_json(resolving)
    options.add_store(resolving)
    return options.share_examples(made, actions)


def have_once(args: argparse.Namespace, command: list[str] | None) -> int:
    """Run the command, or print what it printed then."""
    if not command:
        raise Invalid("there is no command; write: fencepost ledger once KEY -- COMMAND")
    if not is_inside():
        raise Invalid(
            "an effect is recorded under a run's lease, and this is not inside a run; "
            "wrap it: fencepost exec --lock NAME -- fencepost ledger once KEY -- COMMAND"
        )
    effect = Effect(command, codes(args.not_done), args.probe, args.scope)
    return once_command(args.key, effect, _show, render.tell, machine_facts.system_clock().sleep)


def list_them(args: argparse.Namespace) -> int:
    """Print the entries."""
    with options.opened(args) as store:
        found = store.ledger().entries(options.tenant_of(args), standing=args.state or "", limit=args.limit)
        now_us, url = store.clock_us(), options.homely(store.facts().url)
    if args.json:
        options.print_json(entry_record(entry) for entry in found)
    elif not found:
        print(f"the ledger of {url} has no {f'{args.state} ' if args.state else ''}entries")
    else:
        rows = [_row(entry, now_us) for entry in found]
        options.print_table(
            ("KEY", "STATE", "BEGUN", "RUN", "ANSWER"), rows, [COLOURS[entry.standing] for entry in found]
        )
    return 0


def resolve_one(args: argparse.Namespace) -> int:
    """Let a person say what became of an effect."""
    if is_inside():
        raise Invalid("what is ambiguous is for a person, or for a probe; a run does not resolve it by itself.")
    scope = "" if args.scope == "tenant" else args.scope
    tenant = options.tenant_of(args)
    with options.opened(args) as store:
        entry = find_entry(store.ledger(), tenant, args.key, scope)
        resolve(store.ledger(), entry, answer=args.completed, by=actor())
        now = store.ledger().entry(tenant, args.key, scope)
    if args.json:
        options.print_json([entry_record(now)] if now else [])
    else:
        said = "forgotten; the next caller does it" if args.forget else f"completed with {args.completed}"
        print(f"{render.plain(args.key)} is {said}")
    return 0


def codes(text: str) -> frozenset[int]:
    """Read exit codes, separated by commas."""
    words = [word for word in text.split(",") if word]
    if not all(word.isascii() and word.isdigit() and 0 < int(word[:4]) <= CODE_MAX for word in words):
        raise Invalid(f"--not-done takes exit codes from 1 to {CODE_MAX}, as in 7,75; not {text!r}.")
    return frozenset(map(int, words))


def _split(argv: list[str]) -> tuple[list[str], list[str] | None]:
    if "--" not in argv:
        return argv, None
    place = argv.index("--")
    return argv[:place], argv[place + 1 :]


def _row(entry: Entry, now_us: int) -> tuple[str, ...]:
    key = entry.key if not entry.scope else f"{entry.scope} {entry.key}"
    return key, entry.standing, ago(entry.begun_us, now_us), entry.run_id, entry.doubt or entry.answer or ""


def _show(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
