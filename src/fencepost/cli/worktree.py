"""`fencepost worktree list|clean`: what runs left in worktrees of their own."""

import argparse
import os

from fencepost import wiring
from fencepost.cli import options
from fencepost.config.find import config_path
from fencepost.config.load import load
from fencepost.model.errors import Invalid
from fencepost.operations.worktrees import Found, clean, list_worktrees

EXAMPLES = """\
  fencepost worktree list
  fencepost worktree clean
  fencepost worktree clean r01k9zq8 --json
"""
LIMIT = 1000


def main(argv: list[str]) -> int:
    """List the worktrees of runs, or save and remove those that crashed runs left."""
    args = parser().parse_args(argv)
    options.use_config(args)
    path = config_path(os.environ, os.getcwd())
    if path is None:
        raise Invalid("there is no fencepost.toml here or above, so no project is known.")
    config = load(path)
    with options.opened(args) as store:
        tenant = options.tenant_of(args)
        found = list_worktrees(store, tenant, config.projects, os.path.dirname(config.path))
        if args.verb == "list":
            print_worktrees(found[: args.limit], as_json=args.json)
            return 0
        wanted = [one for one in found if not args.run or any(one.worktree.run.startswith(run) for run in args.run)]
        left = 0
        for done in clean(store, tenant, wanted, wiring.worktree_keeper(options.url_of(args))):
            left += not done.done and not done.found.in_use
            if args.json:
                options.print_json([{**fields(done.found), "cleaned": done.done, "message": done.words}])
            else:
                what = "cleaned" if done.done else "kept"
                print(options.wrapped(f"{what} {done.found.where}: {done.words}"))
    return 1 if left else 0


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "worktree",
        "List the worktrees that runs work in, or save and remove those that crashed runs left. What would be lost, "
        "or is in use, stays.",
        EXAMPLES,
    )
    made.add_argument("verb", choices=("list", "clean"), metavar="list|clean")
    made.add_argument("run", nargs="*", metavar="RUN", help="clean: only what these runs left")
    options.add_listing(made, limit=LIMIT)
    return made


def fields(found: Found) -> dict[str, object]:
    """Return a worktree as scripts see it."""
    return {
        "project": found.project.name,
        "run_id": found.worktree.run,
        "fence": found.worktree.fence,
        "path": found.worktree.path,
        "branch": found.worktree.branch,
        "run_state": found.run_state or None,
        "in_use": bool(found.in_use),
        "unfinished": found.standing == "unfinished",
        "commits": found.commits,
        "changes": found.changes,
    }


def print_worktrees(found: list[Found], *, as_json: bool) -> None:
    """Print one line for each."""
    if as_json:
        options.print_json(map(fields, found))
    elif not found:
        print("no run has a worktree here")
    else:
        options.print_table(
            ("RUN", "STATE", "COMMITS", "CHANGES", "PATH"),
            [
                (
                    one.worktree.run,
                    one.standing,
                    str(one.commits),
                    str(one.changes),
                    one.where,
                )
                for one in found
            ],
        )
