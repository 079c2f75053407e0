"""`fencepost notice list|retry|test`: what was told, what could not be, and whether a target hears us."""

import argparse

from fencepost.cli import options
from fencepost.operations.phrases import counted, rfc3339
from fencepost.operations.records.notice_record import notice_record
from fencepost.operations.sent_notices import list_notices, revive_notices
from fencepost.wiring import serving

EXAMPLES = """\
  fencepost notice test chat               send a test message now
  fencepost notice list --state dead
  fencepost notice retry chat              once more, what was given up
"""
LIMIT = 50


def main(argv: list[str]) -> int:
    """Do one thing with notices."""
    args = parser().parse_args(argv)
    if args.action == "test":
        return test(args)
    tenant = options.tenant_of(args)
    with options.opened(args) as store:
        if args.action == "retry":
            number = revive_notices(store, tenant, args.name)
            print(f"{counted(number, 'notice')} for {args.name} will be tried once more by: fencepost up")
            return 0
        rows = list_notices(store, tenant, state=args.state, limit=args.limit)
    if args.json:
        options.print_json(map(notice_record, rows))
    elif not rows:
        print("no notices")
    else:
        table = [
            (rfc3339(one.at_us) or "", one.name, one.event, one.state, one.subject, one.error or "") for one in rows
        ]
        options.print_table(("AT", "TARGET", "EVENT", "STATE", "ABOUT", "ERROR"), table)
    return 0


def test(args: argparse.Namespace) -> int:
    """Send a test to one target of the configuration, now, and say how it went."""
    options.use_config(args)
    error = serving.try_notice(args.name)
    print(f"{args.name} was told" if error is None else f"{args.name} could not be told: {error}")
    return 0 if error is None else 1


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("notice", "Look after what [notifications] tell.", EXAMPLES)
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list notices, newest first", formatter_class=options.formatter)
    listing.add_argument("--state", choices=("waiting", "sent", "dead"), default="", help="only these")
    options.add_listing(listing, limit=LIMIT)
    for name, words in (("retry", "try once more what was given up"), ("test", "send a test message now")):
        action = actions.add_parser(name, help=words, formatter_class=options.formatter)
        action.add_argument("name", metavar="NAME", help="the target, as in [notifications.NAME]")
        options.add_store(action)
    return options.share_examples(made, actions)
