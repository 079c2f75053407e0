"""Builds everything from the settings: the only module that knows each concrete class."""

from __future__ import annotations

import os
import sys

from fencepost.model.errors import Invalid
from fencepost.model.light import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.config.load import Config, Settings
    from fencepost.host.worktree import Repository, Worktree
    from fencepost.model.light import Any, Callable, Mapping
    from fencepost.operations.projects import Ground
    from fencepost.ports.engine import Engine
    from fencepost.ports.gate import Gate
    from fencepost.ports.store import LeaseStore
    from fencepost.service.chores import Chore
    from fencepost.service.courier import Post
    from fencepost.service.gateway import Upstream
    from fencepost.service.hint import Hint
    from fencepost.service.order import Tools
    from fencepost.service.projects import Grounds
    from fencepost.service.station import Plan
    from fencepost.service.tool_gate import Rules, ToolGate
    from fencepost.stores.postgres.store import PostgresStore
    from fencepost.stores.runtime import RuntimeStore
    from fencepost.stores.sqlite.store import Opening, SqliteStore

    PutAway = Callable[[Repository, Worktree, tuple[str, ...]], str | None]

WORKERS_MAX = 1000
LOG_FORMAT = "FENCEPOST_LOG_FORMAT"

FIRST_USE = "guards this machine; for several, set FENCEPOST_STORE=postgresql://…"


def exec_store_url(explicit: str | None) -> str:
    """Return the store of bare `exec`: the same one whatever the current folder is."""
    from fencepost.config.find import state_folder

    return explicit or os.environ.get("FENCEPOST_STORE") or f"sqlite:{state_folder(os.environ)}/state.db"


def serve_proxy(
    listen: str, upstream: str, *, marks: str, key: str, allow: list[str], deadline: float, closed: float
) -> int:
    """Be a fencing proxy until asked to stop; requests in flight are waited for."""
    import signal
    from threading import Thread

    from fencepost.gates.http.door import Door
    from fencepost.gates.reference import resolved
    from fencepost.host.clock import SystemClock
    from fencepost.model.errors import Misconfigured
    from fencepost.service.proxy import Proxy, Rules, parse_allow, parse_listen

    if os.environ.get("FENCEPOST_RUN_ID"):
        raise Misconfigured("a fencing proxy that a run has started dies with it; start it outside, as a service.")
    clock = SystemClock()
    rules = Rules(upstream, tuple(map(parse_allow, allow)), deadline_seconds=deadline, closed_seconds=closed)
    proxy = Proxy(parse_listen(listen), rules, Door(marks, resolved(key), clock=clock, name=upstream), clock)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: Thread(target=proxy.stop).start())
    say(f"fencing {upstream} at {listen.rpartition(':')[0] or '127.0.0.1'}:{proxy.port}")
    proxy.serve()
    return 0


def find_ground(project: str) -> Ground:
    """Find the project that a person means, by its name or by a directory in it."""
    from fencepost.operations.projects import find_ground as find

    return find(project, os.environ, os.getcwd())


def worktree_keeper(url: str) -> PutAway:
    """Return a way to put a leftover worktree away, which says on which branch it was saved, if anything was."""
    from fencepost.service.workplace import clear_away

    tools = exec_tools(url)._replace(say=lambda _: None)

    def put_away(repository: Repository, worktree: Worktree, discard: tuple[str, ...]) -> str | None:
        saved = clear_away(repository, worktree, discard, tools)
        return saved.branch if saved and saved.changed else None

    return put_away


def store_url(explicit: str | None) -> str:
    """Return the store of every other command: named, or the configuration's, or else the one of `exec`."""
    from fencepost.config.find import config_path, store_url_of

    if explicit or os.environ.get("FENCEPOST_STORE"):
        return exec_store_url(explicit)
    path = config_path(os.environ, os.getcwd())
    return store_url_of(path, os.environ) if path else exec_store_url(None)


def open_store(url: str) -> SqliteStore | PostgresStore:
    """Open a store by its URL."""
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        return _open_sqlite(rest)
    if scheme in ("postgresql", "postgres") and colon:
        from fencepost.stores.postgres.store import open_store as open_postgres

        return open_postgres(url, new_id=_store_id())
    raise Invalid(f"{url.partition('@')[0]!r} is no store; write sqlite:/path/state.db or postgresql://host/database.")


def open_runtime(url: str) -> RuntimeStore:
    """Open a store with every verb of the runtime."""
    from fencepost.stores.runtime import RuntimeStore

    return RuntimeStore(open_store(url))


def open_patiently(url: str) -> RuntimeStore:
    """Open a store for a daemon: a server that is being restarted is waited for, a file is not."""
    from fencepost.host.clock import SystemClock
    from fencepost.model.errors import StoreUnavailable

    for pause in (0.2, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0):
        try:
            return open_runtime(url)
        except StoreUnavailable as error:
            if url.startswith("sqlite:"):
                raise
            say(f"the store is out of reach, trying again: {error}")
            SystemClock().sleep(pause)
    return open_runtime(url)


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


def serve(
    url: str,
    plan: Plan,
    settings: Settings,
    *,
    name: str,
    folder: str,
    projects: Mapping[str, Mapping[str, Any]],
    post: Post | None = None,
) -> int:
    """Schedule, work, or both, until asked to stop."""
    from datetime import timedelta

    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.service.attempt import Bench, attempt
    from fencepost.service.chores import delivering
    from fencepost.service.lane import lane
    from fencepost.service.nursery import open_nursery
    from fencepost.service.order import Tools
    from fencepost.service.projects import Grounds, Presence
    from fencepost.service.station import Station

    clock = SystemClock()
    tools = Tools(clock, system_processes(clock), lambda: open_runtime(url), open_gate, say)
    bench = Bench(
        tools,
        lambda: open_runtime(url),
        lambda engine: engine_of(engine, settings.http_allow),
        folder=folder,
        log_folder=log_folder(),
        ttl_seconds=plan.ttl_seconds,
        drain_timeout=timedelta(seconds=plan.drain_seconds),
        grounds=Grounds(plan.tenant, projects, folder),
    )
    nursery = (
        open_nursery(
            lambda alive, leased: attempt(bench, worker_alive=alive, leased=leased),
            lambda alive: lane(bench, open_hint(url), worker_alive=alive),
        )
        if plan.slots
        else None
    )
    say(f"{name}: {shown(url)}, room for {plan.slots} runs at once. Ctrl-C drains and stops.")
    if plan.slots:
        _look_at_projects(bench.grounds)
    presence = Presence(bench.grounds, tools, ttl_seconds=plan.ttl_seconds) if plan.slots else None
    chores = chores_of(plan, tools, settings, folder)
    if post is not None and plan.ticks:
        chores.append(delivering(post, clock, say))
    hint = open_hint(url) if plan.slots else None
    return Station(plan, tools, lambda: open_runtime(url), nursery, chores, presence=presence, hint=hint).serve()


def _look_at_projects(grounds: Grounds) -> None:
    """Say which projects are not here, and remember for the others which configuration is theirs."""
    from fencepost.config.find import config_path
    from fencepost.operations.projects import note_project

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
    from fencepost.service.station import Plan

    if current_thread() is not main_thread():
        raise Invalid(f"app.{name}() takes signals and forks, so that it belongs in the main thread of the program.")
    if not 0 <= workers <= WORKERS_MAX:
        raise Invalid(f"workers is a number from 0 to {WORKERS_MAX}, not {workers}.")
    settings = config.settings
    drain = parse_duration(settings.drain_timeout)
    plan = Plan(settings.tenant, ticks, workers, check_ttl(ttl), drain)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        post = post_of(config)
        return serve(url, plan, settings, name=name, folder=folder, projects=config.projects, post=post)
    finally:
        signal.set_wakeup_fd(-1)
        for number, handler in before.items():
            signal.signal(number, handler)


def post_of(config: Config) -> Post:
    """Return whom a configuration wants told."""
    from fencepost.service.courier import Post

    settings = config.settings
    return Post(settings.tenant, config.path, config.notifications, settings.http_allow)


def chores_of(plan: Plan, tools: Tools, settings: Settings, folder: str) -> list[Chore]:
    """Return what a station does beside its main work; a configuration's paths are relative to its folder."""
    from datetime import timedelta

    from fencepost.host.audit_key import append_line
    from fencepost.host.identity import this_host
    from fencepost.model.audit import head_line
    from fencepost.model.duration import parse_duration
    from fencepost.service import chores

    found = [chores.reaping(tools.processes, tools.say)]
    if plan.slots:
        found.append(chores.sweeping_logs(this_host().name, log_folder()))
    if plan.ticks:
        key = audit_key(create=True)
        assert key is not None, "it was made just now"
        heads = os.path.join(folder, settings.audit_heads) if settings.audit_heads else None
        retention = timedelta(seconds=parse_duration(settings.retention))
        found.append(chores.pruning(plan.tenant, retention))
        found.append(chores.sealing(key, lambda seal: append_line(heads, head_line(seal)), tools.say))
    return found


def open_hint(url: str) -> Hint:
    """Return how this process hears that something may be ready; where nothing can be heard, nothing is said."""
    from fencepost.service.hint import Deaf, NotifyHint, WatchHint

    if url.startswith("sqlite:"):
        from fencepost.stores.sqlite.listening import CommitWatch

        return WatchHint(CommitWatch(_sqlite_opening(url.partition(":")[2]).path))
    import psycopg

    from fencepost.host.clock import SystemClock
    from fencepost.stores.postgres.listening import Ear, listen
    from fencepost.stores.postgres.server import at

    server = at(url)

    def open_ear() -> Ear | None:
        try:
            return listen(server)
        except psycopg.Error:
            raise Deaf from None

    return NotifyHint(open_ear, SystemClock().awake_ns)


def shown(url: str) -> str:
    """Show a store's URL without its password."""
    before, at, after = url.rpartition("@")
    scheme, slashes, login = before.partition("//")
    return f"{scheme}{slashes}{login.partition(':')[0]}{at}{after}"


def log_folder() -> str:
    """Return where the logs of this machine's runs are kept."""
    from fencepost.config.find import state_folder

    return os.path.join(state_folder(os.environ), "logs")


def audit_key(*, create: bool) -> bytes | None:
    """Return the key that seals the audit here: the configuration's, or this machine's own."""
    from fencepost.config.find import audit_key_of, config_path, state_folder
    from fencepost.host.audit_key import key_from, own_key

    path = config_path(os.environ, os.getcwd())
    reference = audit_key_of(path) if path else ""
    if reference:
        return key_from(reference)
    return own_key(os.path.join(state_folder(os.environ), "audit.key"), create=create)


def audit_key_from(reference: str) -> bytes:
    """Return a key of the audit by its reference."""
    from fencepost.host.audit_key import key_from

    return key_from(reference)


def migrate_store(url: str) -> tuple[int, int]:
    """Bring a store to this program's schema; return the schema before and after."""
    if url.partition(":")[0] in ("postgresql", "postgres"):
        from fencepost.stores.postgres.store import migrate_store as migrate_postgres

        return migrate_postgres(url, new_id=_store_id())
    return _sqlite_opening(url.partition(":")[2]).migrate(new_id=_store_id())


def _open_sqlite(path: str) -> SqliteStore:
    return _sqlite_opening(path).open(new_id=_store_id())


def _sqlite_opening(path: str) -> Opening:
    from fencepost.host.clock import SystemClock
    from fencepost.host.identity import this_host
    from fencepost.stores.sqlite.store import Opening

    def network_kind(place: str) -> str | None:
        if _is_on_a_disk(place):
            return None
        from fencepost.host.filesystem import is_network, kind_of

        kind = kind_of(place)
        return kind if kind and is_network(kind) else None

    path = path.removeprefix("//") if path.startswith("///") else path
    if path.startswith("~"):
        path = os.path.expanduser(path)
    return Opening(path, clock=SystemClock(), boot=this_host().boot, network_kind=network_kind)


def _is_on_a_disk(path: str) -> bool:
    """Tell for certain that a file is on a block device: on Linux, everything that comes over a network has none."""
    try:
        return sys.platform == "linux" and os.major(os.stat(path).st_dev) != 0
    except OSError:
        return False  # not there yet: the mount table will tell


def _store_id() -> str:
    return os.urandom(8).hex()


def exec_tools(url: str) -> Tools:
    """Return what guarding a command takes."""
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.service.order import Tools

    clock = SystemClock()
    told = False

    def open_and_tell() -> LeaseStore:
        nonlocal told
        is_new = url.startswith("sqlite:") and not os.path.exists(url[len("sqlite:") :])
        store = open_store(url)
        if not told:
            told = True
            for notice in (*([FIRST_USE] if is_new else []), *store.facts().notices):
                say(notice)
        return store

    return Tools(clock, system_processes(clock), open_and_tell, open_gate, say)


def open_gate(name: str) -> Gate:
    """Open a gate by its target, `kind:where`, or by its name in the configuration."""
    from fencepost.operations.gate_kinds import open_gate as open_kind

    return open_kind(name)


def say(text: str) -> None:
    """Tell a person, without getting in the way of the command's own output."""
    print(
        json_line(text) if os.environ.get(LOG_FORMAT) == "json" else f"fencepost: {text}", file=sys.stderr, flush=True
    )


def now_text() -> str:
    """Spell this machine's time."""
    from fencepost.host.clock import SystemClock
    from fencepost.model.instant import format_instant
    from fencepost.model.moment import from_us

    return format_instant(from_us(SystemClock().wall_us()))


def json_line(text: str) -> str:
    """Spell what is said for a machine that collects logs."""
    import json

    level = "warning" if text.startswith(("warning:", "the store is out of reach")) else "info"
    return json.dumps({"ts": now_text(), "level": level, "logger": "fencepost", "pid": os.getpid(), "message": text})


def gate_mcp_command(rules: Rules, command: list[str], *, outside: bool, say: Callable[[str], None]) -> int:
    """Stand between the agent on our standard input and output and a server that is started here."""
    from fencepost.service.mcp_child import ChildServer

    return _gate_mcp(rules, lambda _: ChildServer(command), outside=outside, say=say)


def gate_mcp_url(rules: Rules, url: str, headers: list[str], *, outside: bool, say: Callable[[str], None]) -> int:
    """Stand between the agent on our standard input and output and a server that is reached over HTTP."""
    from fencepost.service.mcp_http import RemoteServer, headers_of

    given = headers_of(headers, os.environ)
    return _gate_mcp(rules, lambda gate: RemoteServer(url, given, gate), outside=outside, say=say)


def _gate_mcp(rules: Rules, reach: Callable[[ToolGate], Upstream], *, outside: bool, say: Callable[[str], None]) -> int:
    from fencepost.host.clock import SystemClock
    from fencepost.model.check import is_in_a_run
    from fencepost.operations.inside import ask, ask_outside
    from fencepost.service.gateway import Gateway
    from fencepost.service.signals import Mailbox
    from fencepost.service.tool_gate import ToolGate

    inside = is_in_a_run(os.environ)
    asked = ask if inside else None if outside else ask_outside
    gate = ToolGate(rules, asked, wait=SystemClock().sleep, say=say)
    mailbox = Mailbox()
    try:
        return Gateway(gate, reach(gate), mailbox, say).run(0, 1)
    finally:
        mailbox.close()


def start_session(data: bytes) -> str:
    """Have a person's agent session hold its project; return what the person should know, or nothing."""
    import subprocess

    from fencepost.host.ancestors import caller
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.model.check import is_in_a_run
    from fencepost.model.errors import Misconfigured
    from fencepost.model.process import Fate
    from fencepost.operations.sessions import Notes, session_of

    if is_in_a_run(os.environ):
        return ""  # a run holds what it works on by itself
    processes = system_processes(SystemClock())
    above = caller(processes)
    if above is None:
        raise Misconfigured("session-start is for an agent's hook: no program was found that could have called it.")
    session = session_of(data, os.environ, os.getcwd())
    name = session.id or f"{above.pid}-{above.started}"
    notes = Notes(os.environ)
    locked = notes.lock()
    try:
        before = notes.keeper(name)
        if before is not None and processes.fate(before) is Fate.ALIVE:
            return ""
        words = [sys.executable, "-m", "fencepost", "hook", "keep", name, str(above.pid), above.started]
        program = subprocess.Popen(
            [*words, session.folder, session.label],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        keeper = processes.identify(program.pid)
        if keeper is not None:
            notes.write(name, keeper)
    finally:
        os.close(locked)
    assert program.stdout is not None
    return _first_word(program.stdout.fileno())


def _first_word(descriptor: int) -> str:
    """Return why the keeper waits, if it has to; nothing if it holds the project, or takes its time to say."""
    from select import select

    from fencepost.service.keeper import HELD

    patience = 3.0
    ready, _, _ = select([descriptor], [], [], patience)
    said = os.read(descriptor, 4096).decode(errors="replace").partition("\n")[0] if ready else ""
    return "" if said == HELD else said


def end_session(data: bytes) -> None:
    """End the keeper of a session, which gives the project back; a session that nobody keeps is no trouble."""
    from fencepost.host.ancestors import caller
    from fencepost.host.clock import SystemClock
    from fencepost.host.processes import system_processes
    from fencepost.model.light_signal import SIGTERM
    from fencepost.operations.sessions import Notes, session_of

    processes = system_processes(SystemClock())
    session = session_of(data, os.environ, os.getcwd())
    above = None if session.id else caller(processes)
    name = session.id or (f"{above.pid}-{above.started}" if above else "")
    notes = Notes(os.environ)
    locked = notes.lock()
    try:
        keeper = notes.keeper(name)
        if keeper is not None:
            processes.signal_process(keeper, SIGTERM)
    finally:
        os.close(locked)


def keep_session(name: str, pid: int, started: str, *, folder: str, label: str) -> None:
    """Be the keeper of a session: hold its project while its process lives."""
    from fencepost.model.lease import TTL_DEFAULT_SECONDS
    from fencepost.model.process import ProcessId
    from fencepost.operations.projects import ground_at
    from fencepost.operations.sessions import Notes
    from fencepost.service.keeper import Keeper
    from fencepost.service.order import Order

    ground = ground_at(folder, os.environ, folder)
    tools = exec_tools(ground.store or exec_store_url(None))
    order = Order(
        argv=(),
        tenant="default",
        resources=(ground.resource,),
        label=label,
        ttl_seconds=TTL_DEFAULT_SECONDS,
        wait_seconds=float("inf"),
        holder=name,
        slots=ground.slots,
        what=ground.words,
    )
    try:
        Keeper(order, tools, ProcessId(tools.processes.here(), pid, started), _tell_once).run()
    finally:
        Notes(os.environ).forget(name, tools.processes.myself())


def _tell_once(text: str) -> None:
    """Tell whoever started us how it stands, the first time; after that nobody listens."""
    try:
        os.write(1, f"{' '.join(text.split())}\n".encode())
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError:
        return


def new_run_id() -> str:
    """Name a run."""
    from fencepost.host.clock import SystemClock
    from fencepost.service.order import new_id

    return new_id(SystemClock())


def now_seconds() -> int:
    """Return seconds since 1970, for signatures that carry a time."""
    from fencepost.host.clock import SystemClock

    return SystemClock().wall_us() // 1_000_000


def fetch_secret(reference: str) -> str:
    """Return the secret that `env:NAME` or `file:PATH` means, as this machine has it."""
    from fencepost.service.agent_environment import secret_value

    return secret_value(reference, os.environ, what="the secret")
