"""`fencepost up`, `scheduler` and `worker`: keep going until asked to stop."""

import argparse
import os
import signal
from collections.abc import Callable, Iterable, Iterator

from fencepost import wiring
from fencepost.cli.registry import actor, this_file
from fencepost.cli.web import MISSING, Beside, add_port, is_installed
from fencepost.config.find import config_path
from fencepost.config.load import Config, load, load_settings
from fencepost.model.duration import parse_duration
from fencepost.model.errors import Invalid, Rollback
from fencepost.model.lease import TTL_DEFAULT_SECONDS, check_ttl
from fencepost.model.secret_rights import NO_LISTS
from fencepost.operations.schedule_registry import Warned, apply_config
from fencepost.service.station import StationPlan
from fencepost.wiring import machine_facts, serving, store_choice

DESCRIPTION = """\
Keep going until asked to stop; Ctrl-C drains: running agents finish or are
handed back."""
EPILOG = """\
examples:
  fencepost up                      schedule, work and serve, on this machine
  fencepost up --no-web             without the web door
  fencepost up --no-apply           by the registry, whatever the file says
  fencepost up --workers 8          with room for eight runs at once
  fencepost scheduler               only decide ticks; start several, one drives
  fencepost worker --workers 4      only work, on as many machines as you like
"""
PARENT_SECONDS = 0.5
NAMED_MAX = 5


def main(argv: list[str]) -> int:
    """Apply the file, then schedule and work in one process, with the web door beside it."""
    return _serve("up", argv, ticks=True, works=True)


def scheduler(argv: list[str]) -> int:
    """Apply the file, then only schedule."""
    return _serve("scheduler", argv, ticks=True, works=False)


def worker(argv: list[str]) -> int:
    """Only work."""
    return _serve("worker", argv, ticks=False, works=True)


def _serve(name: str, argv: list[str], *, ticks: bool, works: bool) -> int:
    args = parser(name, works=works).parse_args(argv)
    machine_facts.keep_to_ourselves()
    if args.config:
        os.environ["FENCEPOST_CONFIG"] = args.config
    if args.log_format:
        os.environ[wiring.LOG_FORMAT] = args.log_format
    path = config_path(os.environ, os.getcwd())
    config = load(path) if path else None
    settings = config.settings if config else load_settings()
    url = (
        store_choice.store_of_config(args.store, config, settings.tenant)
        if config
        else store_choice.store_url(args.store, settings.tenant)
    )
    serving.check_store(url)
    workers = args.workers if works else 0
    if not 0 <= workers <= serving.WORKERS_MAX:
        raise Invalid(f"--workers is a number from 0 to {serving.WORKERS_MAX}, not {workers}.")
    plan = StationPlan(
        settings.tenant,
        ticks,
        workers,
        check_ttl(parse_duration(args.ttl)),
        parse_duration(args.drain_timeout or settings.drain_timeout),
    )
    folder = os.path.dirname(config.path) if config else os.getcwd()
    projects = config.projects if config else {}
    rights = config.rights if config else NO_LISTS
    post = serving.post_of(config) if config else None
    web = _web_beside(args, url, settings.tenant) if name == "up" else None
    beside = _while_parent_lives(os.getppid()) if name == "up" and args.with_parent else web.keep if web else None
    try:
        if ticks and args.no_apply:
            wiring.say("nothing is applied (--no-apply): what runs is what the registry holds.")
        elif ticks and config:
            _apply(config, url, meanwhile=web.keep if web else lambda: None)
        elif ticks:
            wiring.say("there is no fencepost.toml here or above: nothing is applied; write one with: fencepost init")
        if web is not None:
            web.keep()
        return serving.serve(
            url,
            plan,
            settings,
            name=name,
            folder=folder,
            projects=projects,
            rights=rights,
            post=post,
            quiet=args.quiet,
            beside=beside,
        )
    finally:
        if web is not None:
            web.stop()


def _while_parent_lives(parent: int) -> Callable[[], float]:
    """Return what asks us to stop when the program that started us is gone; running agents are left to the next worker."""
    os.environ["FENCEPOST_ON_TERM"] = "leave"

    def look() -> float:
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGTERM)  # noqa: TID251  # ourselves
        return PARENT_SECONDS

    return look


def _web_beside(args: argparse.Namespace, url: str, tenant: str) -> Beside | None:
    """Return the web door, to be started, unless it is not wanted or not installed."""
    if args.no_web:
        return None
    if not is_installed():
        wiring.say(f"web: {MISSING}, or leave it out with --no-web.")
        return None
    named = ["--port", str(args.port)] if args.port is not None else []
    for name in args.allow_host:
        named += ["--allow-host", name]
    return Beside(["--tenant", tenant, *named], store=url, say=wiring.say)


def _apply(config: Config, url: str, *, meanwhile: Callable[[], object]) -> None:
    store = wiring.open_patiently(url, meanwhile=meanwhile)
    try:
        file, tenant = this_file(config), config.settings.tenant
        done = apply_config(store.registry(), config, tenant=tenant, actor=actor(), file=file)
    except Rollback as older:
        wiring.say(f"{older} What runs is what the registry holds.")
        return
    finally:
        store.close()
    for line in warning_lines(done.warnings):
        wiring.say(f"warning: {line}")
    counts = f"{_counted(len(config.agents), 'agent')}, {_counted(len(config.schedules), 'schedule')}"
    wiring.say(f"applied {config.path}: {counts}.")


def warning_lines(warnings: Iterable[Warned]) -> Iterator[str]:
    """Yield a line for each thing that is probably not meant; what holds for several agents or schedules is said once."""
    names: dict[tuple[str, str], list[str]] = {}
    for one in warnings:
        names.setdefault((one.what, one.message), []).append(one.name)
    for (what, message), some in names.items():
        more = f" and {len(some) - NAMED_MAX} more" if len(some) > NAMED_MAX else ""
        yield f"{what}{'s' if len(some) > 1 else ''} {', '.join(some[:NAMED_MAX])}{more}: {message}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def parser(name: str, *, works: bool) -> argparse.ArgumentParser:
    """Describe the command line."""
    found = argparse.ArgumentParser(
        prog=f"fencepost {name}",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    found.add_argument("--config", metavar="FILE", help="the configuration to use")
    found.add_argument("--store", metavar="URL", help="sqlite:/path or postgresql://host/db")
    found.add_argument("--ttl", metavar="D", default=f"{TTL_DEFAULT_SECONDS:g}s", help="time to live of a lease (30s)")
    found.add_argument("--drain-timeout", metavar="D", help="how long running agents may finish when stopping")
    if name != "worker":
        found.add_argument("--no-apply", action="store_true", help="go by the registry; the file is not applied")
    if name == "up":
        found.add_argument("--no-web", action="store_true", help="without the web door")
        found.add_argument(
            "--with-parent", action="store_true", help="end with the program that started it; its agents go on"
        )
        add_port(found)
        found.add_argument("--allow-host", action="append", default=[], metavar="NAME", help="as for 'fencepost web'")
    found.add_argument("--log-format", choices=("text", "json"), help="what it says on stderr: text, or JSON lines")
    found.add_argument("--quiet", action="store_true", help="no line for each run that ends; warnings stay")
    if works:
        found.add_argument("--workers", metavar="N", type=int, default=2, help="how many runs at once (2)")
    return found
