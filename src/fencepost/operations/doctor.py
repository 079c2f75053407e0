"""Whether a machine and its store can be relied on: one line for each check, with what to do."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from fencepost.config.find import config_path, gate_target, gates_of, gates_of_agents, projects_of, state_folder
from fencepost.config.load import Config
from fencepost.host import cgroup, filesystem, libc, unreadable_process
from fencepost.host.kept_seals import KeptSeals
from fencepost.host.life_lock import holders_in
from fencepost.host.process_limits import Room, room_left
from fencepost.model.errors import AuditCut, FencepostError
from fencepost.model.zone import tzdata_version
from fencepost.operations.agent_hooks import standings
from fencepost.operations.agent_probe import missing_parts, place_of
from fencepost.operations.agent_versions import AskVersion, untried
from fencepost.operations.doctor_finding import CheckFinding, Status
from fencepost.operations.gate_probe import standing_problems, ways_around
from fencepost.operations.open_transactions import left_open
from fencepost.operations.phrases import SECOND_US, ago, counted, span
from fencepost.operations.run_queries import Store
from fencepost.operations.scheduler_health import PATIENCE_US, driver_words, is_driven
from fencepost.operations.worktrees import list_worktrees, unshown_merges
from fencepost.ports.clock import Clock
from fencepost.ports.read_rows import StorePulse
from fencepost.ports.store import LeaseStore, StoreFacts

SKEW_MAX_US = 2 * SECOND_US
LOST_SHOWN_MAX = 100
HOSTS_NAMED_MAX = 3
PROCESSES_MIN, DESCRIPTORS_MIN = 50, 1064  # a worker takes up to 1,000 runs, and keeps 64 for all the rest
MEMORY_MIN_BYTES = 200_000_000  # less than any agent CLI takes
LOGS_BIG_BYTES = 5_000_000_000
FREE_MIN_BYTES = 500_000_000
GROUP_OR_OTHERS = 0o077
MEGABYTE = 1_000_000
VEILED = "something is not in order on the machine of this server"


@dataclass(frozen=True, slots=True)
class Patient:
    """What is to be looked at."""

    environ: Mapping[str, str]
    cwd: str
    tenant: str
    log_folder: str
    open_store: Callable[[], Store | LeaseStore]
    check_config: Callable[[str], Config]
    clock: Clock
    ask_sqlite: Callable[[], str]  # which SQLite there is, if it is safe
    shows_host: bool = True  # the caller may see the machine itself: its paths, its files, its other tenants
    memory_of: Callable[[Store], KeptSeals] | None = None
    ask_version: AskVersion | None = None  # starts a program to ask it; never for a browser


def patient(
    environ: Mapping[str, str],
    *,
    tenant: str,
    log_folder: str,
    open_store: Callable[[], Store | LeaseStore],
    check_config: Callable[[str], Config],
    clock: Clock,
    ask_sqlite: Callable[[], str],
    shows_host: bool = True,
    memory_of: Callable[[Store], KeptSeals] | None = None,
    ask_version: AskVersion | None = None,
) -> Patient:
    """Describe this machine as its user sees it."""
    return Patient(
        environ,
        os.getcwd(),
        tenant,
        log_folder,
        open_store,
        check_config,
        clock,
        ask_sqlite,
        shows_host,
        memory_of,
        ask_version,
    )


def examine(who: Patient) -> Iterator[CheckFinding]:
    """Yield one finding for each check, the store first; one that cannot be made does not hide the others."""
    yield from _examine_store(who)
    yield from _veiled(who, _examine_host(who))
    yield CheckFinding("tzdata", Status.OK, f"the time zone tables are of release {tzdata_version()}")


def _examine_host(who: Patient) -> Iterator[CheckFinding]:
    yield _config(who)
    yield from _agents(who)
    yield from _versions(who)
    yield from _gates(who)
    yield from _ways_around(who)
    yield from _places(who)
    yield from _hooks(who)
    yield from _host()
    yield from _limits(who)
    yield _secrecy()
    yield _sqlite(who.ask_sqlite)


def _limits(who: Patient) -> list[CheckFinding]:
    """Look at what this process may have, and at what each worker of this user may: a service has limits of its own."""
    workers = holders_in(os.path.join(state_folder(who.environ), "workers")).values()
    found = [limits(room_left()), *(limits(room_left(pid), f"worker {pid}: ") for pid in workers)]
    return [one for one in found if one.status is not Status.OK] or found[:1]


def limits(room: Room, whose: str = "") -> CheckFinding:
    """Say whether there is room for agents: one that cannot be started waits, and up says so once."""
    processes, descriptors, memory = room
    if processes is not None and processes < PROCESSES_MIN:
        what = f"{whose}{counted(processes, 'more process', 'more processes')} may be started"
        return CheckFinding(
            "limits", Status.WARN, what, "raise ulimit -u, or TasksMax= of the service; each run takes a few"
        )
    if descriptors is not None and descriptors < DESCRIPTORS_MIN:
        what = f"{whose}a process may have {descriptors} open files and connections"
        return CheckFinding("limits", Status.WARN, what, "raise ulimit -n, or LimitNOFILE= of the service")
    if memory is not None and memory < MEMORY_MIN_BYTES:
        what = f"{whose}{memory // MEGABYTE} MB of memory are left"
        return CheckFinding(
            "limits", Status.WARN, what, "run fewer agents at once (--workers), or raise MemoryMax= of the service"
        )
    return CheckFinding("limits", Status.OK, "there is room for processes, open files and memory")


def _veiled(who: Patient, findings: Iterable[CheckFinding]) -> Iterator[CheckFinding]:
    """Yield findings about the machine; a tenant who only rents it learns how bad it is, and nothing of its insides."""
    for one in findings:
        if who.shows_host:
            yield one
        elif one.status is Status.OK:
            yield CheckFinding(one.check, one.status, "in order")
        else:
            yield CheckFinding(one.check, one.status, VEILED, "the owner of this server sees it with: fencepost doctor")


def _examine_store(who: Patient) -> Iterator[CheckFinding]:
    try:
        store = who.open_store()
    except FencepostError as error:
        yield from _veiled(who, [CheckFinding("store", Status.FAIL, str(error), "until it answers, nothing starts")])
        return
    if not isinstance(store, Store):
        yield from _examine_cells(store)
        return
    try:
        facts = store.facts()
        yield from _veiled(who, _store(facts))
        if facts.counts_sleep:
            yield _skew(store, who.clock)
        look = store.reads(who.tenant)
        now_us = look.clock_us()
        health = look.health(late_us=now_us - PATIENCE_US)  # asked once: it counts among all runs on record
        yield _scheduler(store, health, who.tenant, now_us)
        yield _lost(store, who.tenant)
        yield _leftovers(store, who)
        yield from _veiled(who, left_open(facts, look, who.clock.sleep))
        yield from _veiled(who, _worktrees(store, who))
        yield _dead(health)
        yield _notices(store, who.tenant)
        yield _audit(store, who)
    except FencepostError as error:
        yield from _veiled(who, [CheckFinding("store", Status.FAIL, str(error))])
    finally:
        store.close()


def _store(facts: StoreFacts) -> Iterator[CheckFinding]:
    yield CheckFinding("store", Status.OK, f"{facts.url} answers, schema {facts.schema}")
    yield from (CheckFinding("store", Status.WARN, notice, "see: fencepost store --help") for notice in facts.notices)


def _examine_cells(store: LeaseStore) -> Iterator[CheckFinding]:
    """Say how a store of cells has stood the probe that opening it was."""
    try:
        number, facts = len(store.leases()), store.facts()
        yield CheckFinding("store", Status.OK, f"{facts.url} compares and swaps: {number} leases, store {facts.id}")
        yield from (CheckFinding("store", Status.WARN, notice) for notice in facts.notices)
    except FencepostError as error:
        yield CheckFinding("store", Status.FAIL, str(error))
    finally:
        store.close()


def _skew(store: Store, clock: Clock) -> CheckFinding:
    before_us = clock.wall_us()
    theirs_us = store.clock_us()
    ours_us = (before_us + clock.wall_us()) // 2
    if abs(theirs_us - ours_us) <= SKEW_MAX_US:
        return CheckFinding("clock", Status.OK, f"this clock and the store's differ by {span(theirs_us - ours_us)}")
    way = "ahead of" if ours_us > theirs_us else "behind"
    return CheckFinding(
        "clock",
        Status.WARN,
        f"this clock is {span(theirs_us - ours_us)} {way} the store's, which decides",
        "let this machine follow a time server",
    )


def _scheduler(store: Store, health: StorePulse, tenant: str, now_us: int) -> CheckFinding:
    if not health.schedules:
        return CheckFinding("scheduler", Status.OK, "no schedules yet; it has nothing to do")
    if not health.overdue:
        told = f"{counted(health.schedules, 'schedule')}, none overdue"
        if is_driven(store, tenant):
            return CheckFinding("scheduler", Status.OK, told)
        return CheckFinding(
            "scheduler", Status.WARN, f"{told} yet, but no scheduler drives them", "start it: fencepost up"
        )
    since = ago(health.oldest_due_us or now_us, now_us)
    return CheckFinding(
        "scheduler",
        Status.FAIL,
        f"overdue: {health.overdue} of {counted(health.schedules, 'schedule')}, the oldest was due {since}; "
        f"{driver_words(store, tenant)}",
        "start it: fencepost up",
    )


def _lost(store: Store, tenant: str) -> CheckFinding:
    runs = [run for run in store.lost_runs(LOST_SHOWN_MAX) if run.tenant == tenant]
    if not runs:
        return CheckFinding("runs", Status.OK, "every running run has its lease")
    return CheckFinding(
        "runs",
        Status.WARN,
        f"{counted(len(runs), 'run')} marked running although their lease is not held, such as {runs[0].id}",
        "a worker settles them: fencepost up",
    )


def _leftovers(store: Store, who: Patient) -> CheckFinding:
    lost = [held for held in store.leases() if held.lost and (who.shows_host or held.tenant == who.tenant)]
    if not lost:
        return CheckFinding("leases", Status.OK, "nothing is left of lost leases")
    hosts = sorted({held.supervisor.host.name for held in lost})
    forget = ", ".join(f"fencepost lease forget --host {host}" for host in hosts[:HOSTS_NAMED_MAX])
    return CheckFinding(
        "leases",
        Status.WARN,
        f"{counted(len(lost), 'lost lease')} whose processes were not seen dead, from {', '.join(hosts)}",
        f"a worker there ends them before it starts anything; if that machine or container is gone: {forget}",
    )


def _worktrees(store: Store, who: Patient) -> Iterator[CheckFinding]:
    """Find what crashed runs left of their worktrees; a configuration that is not in order is told elsewhere."""
    path = config_path(who.environ, who.cwd)
    if path is None:
        return
    declared, base = projects_of(path), os.path.dirname(os.path.realpath(path))
    found = list_worktrees(store, who.tenant, declared, base)
    left = [one for one in found if not one.in_use]
    if left:
        unfinished = [one for one in left if one.standing == "unfinished"]
        of_these = f", {len(unfinished)} of them unfinished checkouts in which no agent worked" if unfinished else ""
        message = (
            f"{counted(len(left), 'worktree')} left by runs that did not end well{of_these}, such as {left[0].where}"
        )
        yield CheckFinding("worktrees", Status.WARN, message, "save and remove them: fencepost worktree clean")
    elif found:
        yield CheckFinding("worktrees", Status.OK, f"{counted(len(found), 'worktree')}, each in use")
    for words in unshown_merges(declared, base):
        fix = "the next run there finishes it, unless those files were changed: git status"
        yield CheckFinding("merges", Status.WARN, words, fix)


def _dead(health: StorePulse) -> CheckFinding:
    if not health.dead:
        return CheckFinding("dead letters", Status.OK, "none wait")
    return CheckFinding("dead letters", Status.WARN, f"{health.dead} wait for a person", "see: fencepost dead list")


def _audit(store: Store, who: Patient) -> CheckFinding:
    """Compare the newest seal with what this machine remembers; the whole chain takes `audit verify`."""
    if who.memory_of is not None:
        try:
            store.audit_chain().check(who.memory_of(store).kept(who.tenant))
        except AuditCut as error:
            return CheckFinding("audit", Status.FAIL, str(error), "see: fencepost audit verify")
    seal = store.audit_chain().last(who.tenant)
    told = f"sealed up to seal {seal.number}, as this machine remembers it" if seal else "nothing is sealed yet"
    return CheckFinding("audit", Status.OK, told)


def _notices(store: Store, tenant: str) -> CheckFinding:
    health = store.notices().health(tenant)
    if health.dead:
        said = f"{counted(health.dead, 'notice')} could not be delivered in the last 30 days; the last: {health.last_error}"
        return CheckFinding(
            "notifications",
            Status.WARN,
            said,
            "try the target: fencepost notice test NAME; see: fencepost notice list --state dead",
        )
    if health.late:
        said = f"{counted(health.late, 'notice')} due for more than 15 minutes, and no scheduler sends them"
        return CheckFinding("notifications", Status.WARN, said, "start it: fencepost up")
    waiting = f"{counted(health.waiting, 'notice')} on their way" if health.waiting else "nothing waits to be told"
    return CheckFinding("notifications", Status.OK, waiting)


def _config(who: Patient) -> CheckFinding:
    try:
        path = config_path(who.environ, who.cwd)
        if path is None:
            return CheckFinding("config", Status.OK, "no fencepost.toml from here upwards; exec needs none")
        who.check_config(path)
    except FencepostError as error:
        return CheckFinding("config", Status.FAIL, str(error), "then look again: fencepost plan")
    return CheckFinding("config", Status.OK, f"{path} is valid")


def _config_of(who: Patient) -> Config | None:
    """Return the configuration; a file that is not in order is told elsewhere."""
    try:
        path = config_path(who.environ, who.cwd)
        return who.check_config(path) if path else None
    except FencepostError:
        return None


def _agents(who: Patient) -> Iterator[CheckFinding]:
    """Find agents that could not start here."""
    config = _config_of(who)
    if config is None or not config.agents:
        return
    folder, broken = os.path.dirname(config.path), False
    for name, agent in config.agents.items():
        for problem in missing_parts(agent, environ=who.environ, folder=folder, projects=config.projects):
            broken = True
            yield CheckFinding(
                "agents", Status.FAIL, f"{name}: {problem}", "install it, or put the path right in the file"
            )
    if not broken:
        yield CheckFinding("agents", Status.OK, f"{counted(len(config.agents), 'agent')}, each with its program here")


def _versions(who: Patient) -> Iterator[CheckFinding]:
    """Tell of agent CLIs that are newer than what their definition was tried with."""
    config = _config_of(who) if who.ask_version else None
    if config is not None and who.ask_version is not None:
        yield from untried(config, who.environ, who.ask_version)


def _ways_around(who: Patient) -> Iterator[CheckFinding]:
    """Tell of agents whose own `git push` would not pass their gate."""
    config = _config_of(who)
    if config is None:
        return
    for name, agent in config.agents.items():
        place = place_of(agent, os.path.dirname(config.path), config.projects)
        for problem in ways_around(agent, place, who.environ):
            yield CheckFinding("gates", Status.WARN, f"{name}: {problem}", "then look again: fencepost doctor")


def _gates(who: Patient) -> Iterator[CheckFinding]:
    """Tell which gates would not hold, or only as a best effort; a file that is not in order is told elsewhere."""
    try:
        path = config_path(who.environ, who.cwd)
        targets = {name: gate_target(path, name) for name in gates_of(path)} if path else {}
        targets |= {name: name for name in gates_of_agents(path)} if path else {}
    except FencepostError:
        return
    for name, target in targets.items():
        for problem in standing_problems(target) if target else ():
            told = problem if name == target and name in problem else f"{name}: {problem}"
            yield CheckFinding("gates", Status.WARN, told, f"see: fencepost gate status {name}")


def _places(who: Patient) -> Iterator[CheckFinding]:
    folder = state_folder(who.environ)
    yield _private(folder)
    service = filesystem.is_synced_folder(folder)
    if service is not None:
        yield CheckFinding(
            "sync", Status.FAIL, f"{service} copies {folder} to other machines", "point XDG_STATE_HOME elsewhere"
        )
    here = filesystem.is_synced_folder(who.cwd)
    if here is not None:
        yield CheckFinding(
            "sync", Status.WARN, f"{here} copies this folder: files written here appear on other machines too"
        )
    yield _free(folder)
    yield _logs(who.log_folder)


def _private(folder: str) -> CheckFinding:
    try:
        mode = os.stat(folder).st_mode
    except FileNotFoundError:
        return CheckFinding("state", Status.OK, f"{folder} will be made when it is needed")
    if mode & GROUP_OR_OTHERS:
        return CheckFinding("state", Status.WARN, f"{folder} is open to other users", f"chmod 700 {folder}")
    return CheckFinding("state", Status.OK, f"{folder} is this user's alone")


def _free(folder: str) -> CheckFinding:
    room = os.statvfs(filesystem.nearest_existing(folder))
    free = room.f_bavail * room.f_frsize
    if free < FREE_MIN_BYTES:
        return CheckFinding("disk", Status.FAIL, f"only {free // MEGABYTE} MB are free at {folder}", "free some space")
    return CheckFinding("disk", Status.OK, f"{free // MEGABYTE} MB are free")


def _logs(folder: str) -> CheckFinding:
    size, count = 0, 0
    if os.path.isdir(folder):
        for entry in os.scandir(folder):
            size, count = size + entry.stat(follow_symlinks=False).st_size, count + 1
    status = Status.WARN if size > LOGS_BIG_BYTES else Status.OK
    fix = f"delete what you no longer need in {folder}" if status is Status.WARN else ""
    return CheckFinding("logs", status, f"{counted(count, 'file')}, {size // MEGABYTE} MB in {folder}", fix)


def _hooks(who: Patient) -> Iterator[CheckFinding]:
    """Find agent CLIs whose hooks are absent, not trusted or switched off: such agents act without a check."""
    for one in standings(who.environ, who.cwd):
        name, check = one.cli.name, f"{one.cli.name} hooks"
        if one.broken:
            yield CheckFinding(
                check, Status.WARN, one.broken, "put the file right; until then it is not known what it does"
            )
        elif one.off:
            yield CheckFinding(
                check, Status.WARN, f"switched off in {one.off}: nothing is checked", "switch them on there"
            )
        elif not one.files:
            yield CheckFinding(
                check,
                Status.WARN,
                "absent: sessions hold no project, and of its runs only those of the claude engine are checked",
                f"fencepost hook install {name}",
            )
        elif one.trust:
            yield CheckFinding(check, Status.WARN, f"not trusted: {', '.join(one.files)}", one.trust)
        else:
            yield CheckFinding(check, Status.OK, f"installed in {', '.join(one.files)}")


def _host() -> Iterator[CheckFinding]:
    path = cgroup.plan(f"doctor-{os.getpid()}")
    if path is not None and cgroup.make(path):
        cgroup.remove(path)
        yield CheckFinding("cgroup", Status.OK, "each run gets its own: nothing that it starts can get away")
    else:
        yield CheckFinding(
            "cgroup",
            Status.WARN,
            "none to be had; what a run leaves behind is found by its environment, which is weaker",
            "under systemd, run with Delegate=yes",
        )
    if libc.become_subreaper():
        yield CheckFinding("subreaper", Status.OK, "orphans of a run come back to its guard")
    else:
        yield CheckFinding(
            "subreaper", Status.WARN, "this system has none; orphans are found by their traces, which is weaker"
        )


def _secrecy() -> CheckFinding:
    """Tell whether an agent could look up in a worker's or guard's environment what it was not handed."""
    if unreadable_process.reads_everything():
        return CheckFinding(
            "secrets",
            Status.WARN,
            "agents run as root here, and can read every variable of the worker",
            "run fencepost as a user of its own",
        )
    if unreadable_process.become_unreadable():
        return CheckFinding("secrets", Status.OK, "no agent can read the variables of the worker and its guards")
    return CheckFinding(
        "secrets",
        Status.WARN,
        "this system lets an agent read the variables of the worker, whose user it shares, which is weaker",
        "keep secrets in files of another user, or run tenants as users of their own",
    )


def _sqlite(ask: Callable[[], str]) -> CheckFinding:
    try:
        version = ask()
    except FencepostError as error:
        return CheckFinding("sqlite", Status.FAIL, str(error))
    return CheckFinding("sqlite", Status.OK, f"{version}, which is safe for many processes")
