"""Builds what keeps going: the station of `up`, `scheduler` and `worker`, with its engines, chores and hints."""

from __future__ import annotations

import os
import sys

from fencepost.config.find import without_password
from fencepost.model.errors import Invalid, Unknown
from fencepost.model.fast_typing import TYPE_CHECKING
from fencepost.model.terminal_text import tame
from fencepost.wiring import LOG_FORMAT, json_line, now_text, open_runtime, runtime_kind, say, sqlite_opening
from fencepost.wiring.audit_sealing import audit_key, kept_seals
from fencepost.wiring.machine_facts import keep_to_ourselves
from fencepost.wiring.state_folders import guard_folder, log_folder, model_gate_folder, prices_file, workers_folder
from fencepost.wiring.tenant_secrets import gate_opener

if TYPE_CHECKING:
    from fencepost.config.load import Config, Settings
    from fencepost.model.fast_typing import Any, Callable, Mapping
    from fencepost.model.secret_rights import Rights
    from fencepost.ports.engine import Engine
    from fencepost.ports.store import LeaseStore, StoreFacts
    from fencepost.service.chores import Chore
    from fencepost.service.command_order import Tools
    from fencepost.service.end_lines import EndLine
    from fencepost.service.notifier import Post
    from fencepost.service.projects import ReachableProjects
    from fencepost.service.run_order import RunOrder
    from fencepost.service.station import StationPlan
    from fencepost.service.wakeup import Hint
    from fencepost.service.zygote import Become
    from fencepost.stores.runtime import RuntimeStore

WORKERS_MAX = 1000
SHADES, PLAIN = {"good": "\033[32m", "bad": "\033[31m"}, "\033[0m"


def check_store(url: str) -> None:
    """Refuse a store that cannot be served, before anything is started: one of cells, or one whose package is missing."""
    if runtime_kind(url) == "postgresql":
        import fencepost.stores.postgres  # noqa: F401 - its absence is a sentence


def serve(
    url: str,
    plan: StationPlan,
    settings: Settings,
    *,
    name: str,
    folder: str,
    projects: Mapping[str, Mapping[str, Any]],
    rights: Rights,
    post: Post | None = None,
    quiet: bool = False,
    beside: Callable[[], float] | None = None,
) -> int:
    """Schedule, work, or both, until asked to stop; `beside` is looked after now and then, and says when again."""
    from datetime import timedelta

    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.service.adoption import Adoption
    from fencepost.service.chores import delivering
    from fencepost.service.command_order import Tools, new_id
    from fencepost.service.end_lines import tell_nobody
    from fencepost.service.lane import lane
    from fencepost.service.model_gate_client import ModelGateStarter
    from fencepost.service.nursery import open_nursery
    from fencepost.service.projects import Presence, ReachableProjects
    from fencepost.service.station import Station
    from fencepost.service.worker import Worker
    from fencepost.service.worker_tools import WorkerTools
    from fencepost.service.zygote import open_plain_zygote, open_zygote

    def open_store() -> RuntimeStore:
        return open_runtime(url)

    clock = SystemClock()
    tools = Tools(clock, system_processes(clock), open_store, gate_opener(rights), say)
    works = WorkerTools(
        tools,
        open_store,
        lambda engine: engine_of(engine, settings.http_allow),
        folder=folder,
        log_folder=log_folder(),
        guard_folder=guard_folder(),
        ttl_seconds=plan.ttl_seconds,
        drain_timeout=timedelta(seconds=plan.drain_seconds),
        grounds=ReachableProjects(plan.tenant, projects, folder),
        tell=tell_nobody if quiet else say_end,
        rights=rights,
        model_gate=ModelGateStarter(model_gate_folder(), prices_file(), clock),
    )
    zygotes = (open_plain_zygote(), open_zygote(lambda: guard_maker(rights))) if plan.slots else None
    nursery = open_nursery(lambda alive: lane(works, open_hint(url), worker_alive=alive)) if plan.slots else None
    worker = Worker(works, *zygotes, slots=plan.slots, keeper=new_id(clock)) if zygotes else None
    slots = worker.slots if worker else 0
    say(f"{name}: {without_password(url)}, room for {slots} runs at once. Ctrl-C drains and stops.")
    if plan.slots:
        _look_at_projects(works.grounds)
    presence = Presence(works.grounds, tools, ttl_seconds=plan.ttl_seconds) if plan.slots else None
    chores = chores_of(plan, tools, settings, folder, worker.keeper if worker else "")
    if post is not None and plan.ticks:
        chores.insert(0, delivering(post, clock, say))  # who wants to be told is known before anything is
    hint = open_hint(url) if plan.slots else None
    return Station(
        plan,
        tools,
        open_store,
        worker,
        chores,
        nursery=nursery,
        adoption=Adoption(worker, workers_folder()) if worker else None,
        on_term=os.environ.get("FENCEPOST_ON_TERM", ""),
        presence=presence,
        hint=hint,
        beside=beside,
    ).serve()


def guard_maker(rights: Rights) -> Become:
    """Load all that any guard can need, and return what turns a forked child into one.

    A guard imports nothing itself: what is loaded here all guards share, and a new version may replace the package's
    files while they run.
    """
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.model.errors import StoreUnavailable
    from fencepost.operations.gate_kinds import load_kinds
    from fencepost.service.command_order import Tools
    from fencepost.service.guard_skills import GuardSkills
    from fencepost.service.run_guard import RunGuard

    load_kinds()

    def no_store() -> LeaseStore:
        raise StoreUnavailable("a guard has no store.")

    clock = SystemClock()
    processes = system_processes(clock)
    tools = Tools(clock, processes, no_store, gate_opener(rights), lambda _: None)

    def learn(order: RunOrder, facts: StoreFacts) -> GuardSkills:
        return GuardSkills(tools, order, facts)

    return lambda listener, place: RunGuard(listener, place, clock, processes, learn).serve()


def _look_at_projects(grounds: ReachableProjects) -> None:
    """Say which projects are not here, and remember for the others which configuration is theirs."""
    from fencepost.config.find import config_path
    from fencepost.operations.project_lookup import note_project

    for problem in grounds.problems():
        say(f"warning: {problem}")
    config = config_path(os.environ, os.getcwd())
    for name in grounds.declared if config else ():
        project = grounds.find(grounds.tenant, name)
        if project is not None and config is not None:
            note_project(project, config, os.environ)


def serve_app(url: str, config: Config, *, name: str, folder: str, ticks: bool, workers: int, ttl: float) -> int:
    """Serve for a program, and give its signals back afterwards."""
    import signal
    from threading import current_thread, main_thread

    from fencepost.model.duration import parse_duration
    from fencepost.model.lease import check_ttl
    from fencepost.service.station import StationPlan

    if current_thread() is not main_thread():
        raise Invalid(f"app.{name}() takes signals and forks, so that it belongs in the main thread of the program.")
    if not 0 <= workers <= WORKERS_MAX:
        raise Invalid(f"workers is a number from 0 to {WORKERS_MAX}, not {workers}.")
    keep_to_ourselves()
    settings = config.settings
    drain = parse_duration(settings.drain_timeout)
    plan = StationPlan(settings.tenant, ticks, workers, check_ttl(ttl), drain)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        post = post_of(config)
        return serve(
            url, plan, settings, name=name, folder=folder, projects=config.projects, rights=config.rights, post=post
        )
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


def post_of(config: Config) -> Post:
    """Return the targets that a configuration wants told."""
    from fencepost.service.notifier import Post

    settings = config.settings
    return Post(
        settings.tenant,
        config.path,
        config.notifications,
        settings.http_allow,
        config.rights,
        settings.web_url,
    )


def try_notice(name: str, *, tenant: str | None = None, within_seconds: float | None = None) -> str | None:
    """Send a test to a target of this machine's configuration; return why it did not arrive.

    A run of a tenant reaches the targets of a configuration only if it is that tenant's.
    """
    from fencepost.config.find import config_path
    from fencepost.config.load import load
    from fencepost.config.value_kinds import did_you_mean
    from fencepost.service.notifier import DEADLINE_SECONDS, try_target

    path = config_path(os.environ, os.getcwd())
    if path is None:
        raise Unknown("there is no fencepost.toml from here upwards; name one with --config.")
    post = post_of(load(path))
    if tenant not in (None, post.tenant):
        raise Unknown(f"the configuration of this server is another tenant's: it has no target {name!r} for yours.")
    if name not in post.targets:
        hint = did_you_mean(name, post.targets) or f" There are: {', '.join(post.targets) or 'none'}."
        raise Unknown(f"{path} has no [notifications.{name}].{hint}")
    return try_target(post, name, at=now_text(), within_seconds=within_seconds or DEADLINE_SECONDS)


def chores_of(plan: StationPlan, tools: Tools, settings: Settings, folder: str, keeper: str = "") -> list[Chore]:
    """Return what a station does beside its main work; a configuration's paths are relative to its folder."""
    from datetime import timedelta

    from fencepost.host.identity import this_host
    from fencepost.host.kept_seals import append_line
    from fencepost.model.audit_chain import head_line
    from fencepost.model.duration import parse_duration
    from fencepost.service import chores

    found = [chores.reaping(tools.processes, tools.say, keeper)]
    if plan.slots:
        found.append(chores.sweeping_logs(this_host().name, log_folder()))
    if plan.ticks:
        key = audit_key(create=True)
        assert key is not None, "it was made just now"
        heads = os.path.join(folder, settings.audit_heads) if settings.audit_heads else None
        retention = timedelta(seconds=parse_duration(settings.retention))
        found.append(chores.watching_clock(plan.tenant, this_host().name, tools.clock, tools.say))
        found.append(chores.pruning(plan.tenant, retention))
        found.append(chores.counting(plan.tenant))
        found.append(chores.telling_of_lines(plan.tenant, lambda: _line_teller(plan.tenant)))
        found.append(chores.sealing(key, lambda seal: append_line(heads, head_line(seal)), kept_seals, tools.say))
        found.append(chores.packing())
    return found


def _line_teller(tenant: str) -> Callable[[Any], float]:
    """Load what looks at the line only where a target wants to hear of it."""
    from fencepost.operations.queue_notices import QueueTeller

    return QueueTeller(tenant).step


def engine_of(name: str, http_allow: tuple[str, ...] = ()) -> Engine:
    """Return the engine of an agent; `http_allow` are the private networks that it may post to."""
    from fencepost.engines.claude import ClaudeEngine
    from fencepost.engines.cli import CliEngine
    from fencepost.engines.command import CommandEngine
    from fencepost.engines.http import HttpEngine
    from fencepost.engines.python import PythonEngine
    from fencepost.model.errors import Misconfigured

    engines: dict[str, Engine] = {
        "command": CommandEngine(),
        "python": PythonEngine(),
        "http": HttpEngine(http_allow),
        "claude": ClaudeEngine(),
        "cli": CliEngine(),
    }
    if name not in engines:
        raise Misconfigured(f"this worker has no engine {name!r}; it knows {', '.join(engines)}.")
    return engines[name]


def open_hint(url: str) -> Hint:
    """Return how this process hears that something may be ready; where nothing can be heard, nothing is said."""
    from fencepost.service.wakeup import Deaf, NotifyHint, WatchHint

    if url.startswith("sqlite:"):
        from fencepost.stores.sqlite.listening import CommitWatch

        return WatchHint(CommitWatch(sqlite_opening(url.partition(":")[2]).path))
    import psycopg

    from fencepost.host.clock import SystemClock
    from fencepost.stores.postgres.listening import PostgresEar, listen
    from fencepost.stores.postgres.server import at

    server = at(url)

    def open_ear() -> PostgresEar | None:
        try:
            return listen(server)
        except psycopg.Error:
            raise Deaf from None

    return NotifyHint(open_ear, SystemClock().awake_ns)


def say_end(told: EndLine) -> None:
    """Tell of a run that has ended, in the colour of its end where a person sees colours.

    A reader that has stopped to read is not waited for: the store says the same.
    """
    from select import select

    try:
        if select([], [sys.stderr.fileno()], [], 0)[1]:
            print(_spelled(told), file=sys.stderr, flush=True)
    except (OSError, ValueError):
        return  # the reader is gone


def _spelled(told: EndLine) -> str:
    if os.environ.get(LOG_FORMAT) == "json":
        return json_line(told.text, "warning" if told.tone == "bad" else "info", **dict(told.facts))
    shade = SHADES.get(told.tone) if _is_coloured() else None
    text = tame(told.text)
    return f"fencepost: {shade}{text}{PLAIN}" if shade else f"fencepost: {text}"


def _is_coloured() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
