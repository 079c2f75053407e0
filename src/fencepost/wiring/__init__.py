"""Builds everything from the settings: the only room that knows each concrete class. Here: what `exec` and every door need."""

from __future__ import annotations

import os
import sys

from fencepost.model.errors import Invalid
from fencepost.model.fast_typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost.host.worktree import Repository, Worktree
    from fencepost.model.fast_typing import Callable
    from fencepost.operations.project_lookup import ProjectGround
    from fencepost.operations.simulation.machine import VirtualClock
    from fencepost.ports.gate import Gate
    from fencepost.ports.store import LeaseStore
    from fencepost.service.command_order import Tools
    from fencepost.service.model_gate_client import ModelGateStarter
    from fencepost.stores.postgres.store import PostgresStore
    from fencepost.stores.runtime import RuntimeStore
    from fencepost.stores.sqlite.commit_group import CommitGroup
    from fencepost.stores.sqlite.store import Opening, SqliteStore
    from fencepost.wiring.tick_memory import TickJournal

    PutAway = Callable[[Repository, Worktree, tuple[str, ...]], str | None]

LOG_FORMAT = "FENCEPOST_LOG_FORMAT"
PATIENCE_SECONDS, PATIENCE_MAX_SECONDS = 0.2, 5.0

FIRST_USE = "guards this machine; for several, set FENCEPOST_STORE=postgresql://…"


def exec_store_url(explicit: str | None) -> str:
    """Return the store of bare `exec`: the same one in every folder."""
    from fencepost.config.find import state_folder

    return explicit or os.environ.get("FENCEPOST_STORE") or f"sqlite:{state_folder(os.environ)}/state.db"


def find_ground(project: str) -> ProjectGround:
    """Find the project that a person means, by its name or by a directory in it."""
    from fencepost.operations.project_lookup import find_ground as find

    return find(project, os.environ, os.getcwd())


def worktree_keeper(url: str) -> PutAway:
    """Return a way to put a leftover worktree away, which says on which branch it was saved, if anything was."""
    from fencepost.service.workplace import clear_away

    tools = exec_tools(url)._replace(say=lambda _: None)

    def put_away(repository: Repository, worktree: Worktree, discard: tuple[str, ...]) -> str | None:
        saved = clear_away(repository, worktree, discard, tools)
        return saved.branch if saved and saved.changed else None

    return put_away


def open_store(url: str, *, group: CommitGroup | None = None) -> SqliteStore | PostgresStore:
    """Open a store by its URL; threads of one `group` commit together."""
    if runtime_kind(url) == "sqlite":
        store = _open_sqlite(url.partition(":")[2])
        store.dialect.group = group
        return store
    from fencepost.stores.postgres.store import open_store as open_postgres

    return open_postgres(url, new_id=_store_id())


def runtime_kind(url: str) -> str:
    """Return `sqlite` or `postgresql`; what is no runtime store is refused in a sentence."""
    scheme, colon, rest = url.partition(":")
    if scheme == "sqlite" and rest:
        return scheme
    if scheme in ("postgresql", "postgres") and colon:
        return "postgresql"
    from fencepost.config.find import without_password

    shown = without_password(url)
    if is_cells(url):
        raise Invalid(
            f"{shown} keeps leases and ticks of guarded commands, and no more: this command needs a runtime store, "
            "sqlite:/path on one machine or postgresql://… for several."
        )
    raise Invalid(
        f"{shown!r} is no store; write sqlite:/path/state.db or postgresql://host/database; for guarded commands alone "
        "also git+ssh://…, git+https://…, git+file:///…, s3://…, redis://…, etcd://… or https://…."
    )


def is_cells(url: str) -> bool:
    """Tell whether a URL names a store of cells, which serves guarded commands and no more."""
    if url.partition(":")[0] in ("sqlite", "postgresql", "postgres"):
        return False
    from fencepost.wiring.cell_stores import SCHEMES

    return url.partition(":")[0] in SCHEMES


def is_shared(url: str) -> bool:
    """Tell whether other machines may be using the same store."""
    return url.partition(":")[0] in ("postgresql", "postgres") or is_cells(url)


def synced_by(path: str) -> str | None:
    """Return which service copies this path's folder to other machines, or None."""
    from fencepost.host.synced_folders import is_synced_folder

    return is_synced_folder(path)


def default_ttl(url: str) -> float:
    """Return how long a lease lasts whose caller says nothing about it."""
    if not is_cells(url):
        from fencepost.model.lease import TTL_DEFAULT_SECONDS

        return TTL_DEFAULT_SECONDS
    from fencepost.wiring.cell_stores import default_ttl as ttl_of_cells

    return ttl_of_cells(url)


def lease_opener(url: str) -> Callable[[], LeaseStore]:
    """Return a way to open a store of any kind for leases."""
    if is_cells(url):
        from fencepost.wiring.cell_stores import CellOpener

        return CellOpener(url).open
    return lambda: open_store(url)


def probe_leases(url: str) -> LeaseStore:
    """Open a store of cells and try whether it can compare and swap, whenever that was tried last."""
    from fencepost.wiring.cell_stores import CellOpener

    return CellOpener(url).open(probe=True)


def tick_journal(url: str, tenant: str, resource: str) -> TickJournal:
    """Return what this machine remembers of the ticks of a lock."""
    from fencepost.wiring.tick_memory import TickJournal

    return TickJournal(url, is_cells(url), tenant, resource)


def open_leases(url: str) -> LeaseStore:
    """Open a store of any kind for leases."""
    return lease_opener(url)()


def open_runtime(url: str, *, group: CommitGroup | None = None) -> RuntimeStore:
    """Open a store with every verb of the runtime."""
    from fencepost.stores.runtime import RuntimeStore

    return RuntimeStore(open_store(url, group=group))


def commit_group(url: str) -> CommitGroup | None:
    """Return what lets several threads of this process commit together; a server does that by itself."""
    if not url.startswith("sqlite:"):
        return None
    from fencepost.stores.sqlite.commit_group import CommitGroup

    return CommitGroup()


def open_patiently(url: str, *, meanwhile: Callable[[], object] = lambda: None) -> RuntimeStore:
    """Open a store for a daemon: a server that is away is waited for, a file is not.

    What can be done `meanwhile` is done after each try in vain. There is no end to the waiting, as there is none when
    the server goes away later; the parent hears of it, and may end us.
    """
    from fencepost.host.clock import SystemClock
    from fencepost.model.errors import StoreUnavailable

    pause, told = PATIENCE_SECONDS, ""
    while True:
        try:
            return open_runtime(url)
        except StoreUnavailable as error:
            if url.startswith("sqlite:"):
                raise
            if str(error) != told:  # the same again is no news
                say(f"the store is out of reach, trying again: {error}")
            told = str(error)
        meanwhile()
        SystemClock().sleep(pause)
        pause = min(2 * pause, PATIENCE_MAX_SECONDS)


def simulated_store(path: str, clock: VirtualClock) -> RuntimeStore:
    """Make a store for a simulation, which goes by its clock and is thrown away."""
    from fencepost.stores.runtime import RuntimeStore
    from fencepost.stores.sqlite.store import Opening

    opening = Opening(path, clock=clock, boot="simulated", network_kind=lambda _: None, throwaway=True)
    return RuntimeStore(opening.open(new_id="simulated"))


def migrate_store(url: str, progress: Callable[[int, int], None] = lambda _schema, _newest: None) -> tuple[int, int]:
    """Bring a store to this program's schema; return the schema before and after. `progress` hears of each step."""
    if runtime_kind(url) == "postgresql":
        from fencepost.stores.postgres.store import migrate_store as migrate_postgres

        return migrate_postgres(url, new_id=_store_id(), progress=progress)
    return sqlite_opening(url.partition(":")[2]).migrate(new_id=_store_id(), progress=progress)


def _open_sqlite(path: str) -> SqliteStore:
    return sqlite_opening(path).open(new_id=_store_id())


def sqlite_opening(path: str) -> Opening:
    """Return how the file of a store is opened on this machine."""
    from fencepost.host.clock import SystemClock
    from fencepost.host.identity import this_host
    from fencepost.host.synced_folders import is_synced_folder
    from fencepost.stores.sqlite.store import Opening

    def network_kind(place: str) -> str | None:
        if _is_on_a_disk(place):
            return None
        from fencepost.host.filesystem import is_network, kind_of

        kind = kind_of(place)
        return kind if kind and is_network(kind) else None

    return Opening(
        sqlite_path(path),
        clock=SystemClock(),
        boot=this_host().boot,
        network_kind=network_kind,
        synced_by=is_synced_folder,
    )


def sqlite_path(path: str) -> str:
    """Return the file that the URL of a store names."""
    path = path.removeprefix("//") if path.startswith("///") else path
    return os.path.expanduser(path) if path.startswith("~") else path


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
    from fencepost.service.command_order import Tools

    clock = SystemClock()
    opener = lease_opener(url)
    told = False

    def open_and_tell() -> LeaseStore:
        nonlocal told
        is_new = url.startswith("sqlite:") and not os.path.exists(url[len("sqlite:") :])
        store = opener()
        if not told:
            told = True
            for notice in (*([FIRST_USE] if is_new else []), *store.facts().notices):
                say(notice)
        return store

    def model_gate() -> ModelGateStarter:
        from fencepost.service.model_gate_client import ModelGateStarter
        from fencepost.wiring.state_folders import model_gate_folder, prices_file

        return ModelGateStarter(model_gate_folder(), prices_file(), clock)

    processes = system_processes(clock)
    return Tools(clock, processes, open_and_tell, lambda target, _: open_gate(target), say, model_gate=model_gate)


def open_gate(name: str) -> Gate:
    """Open a gate by its target, `kind:where`, or by its name in the configuration, for this very process."""
    from fencepost.operations.gate_kinds import open_gate as open_kind

    return open_kind(name)


def say(text: str) -> None:
    """Tell a person, without getting in the way of the command's own output."""
    from fencepost.model.terminal_text import tame

    told = json_line(text) if os.environ.get(LOG_FORMAT) == "json" else f"fencepost: {tame(text)}"
    print(told, file=sys.stderr, flush=True)


def now_text() -> str:
    """Spell this machine's time."""
    from fencepost.host.clock import SystemClock
    from fencepost.model.instants import format_instant, from_us

    return format_instant(from_us(SystemClock().wall_us()))


def json_line(text: str, level: str = "", **facts: object) -> str:
    """Spell what is said for a machine that collects logs."""
    import json

    level = level or ("warning" if text.startswith(("warning:", "the store is out of reach")) else "info")
    line = {"ts": now_text(), "level": level, "logger": "fencepost", "pid": os.getpid(), "message": text}
    return json.dumps({**line, **facts})


def new_run_id() -> str:
    """Name a run."""
    return new_run_ids(1)[0]


def new_run_ids(count: int) -> list[str]:
    """Name many runs at once, in the order in which they sort."""
    from fencepost.host.clock import SystemClock
    from fencepost.service.command_order import new_ids

    return new_ids(SystemClock(), count)
