"""`fencepost service install|uninstall|status`: keep `up` running without a terminal."""

import argparse
import os
from collections.abc import Iterator

from fencepost.cli import options
from fencepost.config.find import config_path
from fencepost.config.load import load
from fencepost.config.value_kinds import check_name
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid
from fencepost.operations import os_service
from fencepost.operations.draining import drain_workers
from fencepost.operations.os_service import Manager
from fencepost.wiring import machine_facts, state_folders

EXAMPLES = """\
  fencepost service install --dry-run      show what would be written
  fencepost service install --workers 4    for the configuration of this folder
  fencepost service status
  fencepost service uninstall
"""
DRAIN_SECONDS = 120.0
NOT_RECORDED = ("FENCEPOST_STORE", "FENCEPOST_TENANT")


def main(argv: list[str]) -> int:
    """Do one thing with the service."""
    args = parser().parse_args(argv)
    check_name(args.name)
    manager = os_service.manager(os.environ)
    action = {"install": install, "uninstall": uninstall, "status": status}[args.action]
    return action(args, manager)


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    made = options.parser(
        "service",
        "Keep 'fencepost up' running as a service of this user: a systemd user unit, or an agent of launchd. "
        "Absolute paths and this shell's PATH are recorded.",
        EXAMPLES,
    )
    actions = made.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, words in (
        ("install", "write the file, and start it now and at each login"),
        ("uninstall", "stop it and remove the file; what is stored stays"),
        ("status", "say whether it is installed and runs"),
    ):
        action = actions.add_parser(name, help=words, formatter_class=options.formatter, allow_abbrev=False)
        action.add_argument("--name", default="default", metavar="NAME", help="for several configurations")
        if name == "install":
            action.add_argument("--config", metavar="FILE", help="the configuration that it runs")
            action.add_argument("--workers", metavar="N", type=options.positive, help="how many runs at once (2)")
            action.add_argument("--dry-run", action="store_true", help="print the file, and do nothing")
            action.add_argument("--no-start", action="store_true", help="only write the file")
    return options.share_examples(made, actions)


def install(args: argparse.Namespace, manager: Manager) -> int:
    """Write the file and start the service."""
    found = args.config or config_path(os.environ, os.getcwd())
    if found is None:
        raise Invalid(
            "there is no fencepost.toml from here upwards; name one with --config, or make one: fencepost init"
        )
    config = load(found)  # a service that cannot start is not installed
    words = ("--workers", str(args.workers)) if args.workers else ()
    drain = parse_duration(config.settings.drain_timeout)
    unit = os_service.unit_of(args.name, os.environ, config=config.path, words=words, drain_seconds=drain)
    path, text = manager.path(args.name), manager.text(unit)
    if args.dry_run:
        print(f"# {path}\n{text}", end="")
        return 0
    print(f"wrote {path}" if os_service.write(path, text) else f"{path} is as it should be")
    for line in _left_out():
        print(options.wrapped(line))
    if args.no_start:
        return 0
    troubles = manager.start(args.name)
    for line in (*_sorry(troubles, args.name, manager), *_advice(manager)):
        print(options.wrapped(line))
    return 1 if troubles else 0


def uninstall(args: argparse.Namespace, manager: Manager) -> int:
    """Stop the service and remove its file."""
    path = manager.path(args.name)
    if not os_service.is_installed(path):
        print(f"nothing to do: {path} is not there")
        return 0
    drain_workers(  # a stop alone would leave agents
        state_folders.workers_folder(),
        machine_facts.this_hosts_processes(),
        machine_facts.system_clock(),
        seconds=DRAIN_SECONDS,
    )
    manager.stop(args.name)  # one that does not run is stopped already
    os_service.remove(path)
    print(f"removed {path}; its runs, schedules and logs stay")
    return 0


def status(args: argparse.Namespace, manager: Manager) -> int:
    """Say how it stands: exit 0 if it runs, 1 if not."""
    path = manager.path(args.name)
    installed, active = os_service.is_installed(path), manager.is_active(args.name)
    print(f"{'installed' if installed else 'not installed'}: {path}")
    print("running" if active else "not running")
    if installed:
        for line in _advice(manager):
            print(options.wrapped(line))
    return 0 if installed and active else 1


def _left_out() -> Iterator[str]:
    """Tell of what is set in this shell and decides what `up` does, but may hold a password."""
    for name in sorted(set(NOT_RECORDED) & set(os.environ)):
        yield f"{name} is set here, and not in the service: write it into ~/.config/fencepost/service.env, or into the file."


def _sorry(troubles: list[str], name: str, manager: Manager) -> Iterator[str]:
    if not troubles:
        yield f"{os_service.unit_name(name)} runs, and starts at each login; see: fencepost service status"
        return
    yield "the file is there, but the service could not be started from here: " + "; ".join(troubles) + "."
    yield f"in a session of this user's own, try: fencepost service install --name {name} (manager: {manager.kind})"


def _advice(manager: Manager) -> Iterator[str]:
    if manager.kind == "launchd":
        yield "it runs while this user is logged in; let the Mac log in by itself if schedules shall run without you."
    elif not manager.lingers():
        yield "it ends when you log out; to keep it running, and to start it at boot: loginctl enable-linger"
