"""`fencepost checkpoint get|set`: what a resumed run gets back, from inside a run."""

import argparse
import json
import sys

from fencepost.cli import options
from fencepost.model.errors import Invalid
from fencepost.operations.supervisor_client import ask, is_inside

EXAMPLES = """\
  echo '{"page": 17}' | fencepost checkpoint set
  page=$(fencepost checkpoint get --default '{"page": 1}' | jq -r .page)
"""
CONTENT_MAX = 65_536


def main(argv: list[str]) -> int:
    """Keep a checkpoint, or print the one that there is."""
    args = parser().parse_args(argv)
    if not is_inside():
        raise Invalid("a checkpoint belongs to a run; call this from inside one, where FENCEPOST_SOCKET is set.")
    if args.action == "set":
        ask("checkpoint_set", content=read_json())
        return 0
    content = ask("checkpoint_get").get("content") or args.default
    if content:
        print(content)
    return 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser("checkpoint", "Keep what a resumed run shall get back: JSON of at most 64 KB.", EXAMPLES)
    made.add_argument("action", choices=["get", "set"], help="set reads stdin; get prints JSON, or nothing")
    made.add_argument("--default", default="", metavar="JSON", help="get: print this while nothing was kept yet")
    return made


def read_json() -> str:
    """Read what shall be kept, and refuse what could not be read back."""
    data = sys.stdin.buffer.read(CONTENT_MAX + 1)
    if len(data) > CONTENT_MAX:
        raise Invalid("the checkpoint is longer than 64 KB; keep the data elsewhere and only its place here.")
    try:
        text = data.decode()
        json.loads(text, parse_constant=_refuse)
    except UnicodeDecodeError:
        raise Invalid("the checkpoint is not UTF-8 text; it has to be JSON. Nothing was kept.") from None
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the checkpoint is no JSON: {error}. Nothing was kept.") from None
    return text.strip()


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON value")
