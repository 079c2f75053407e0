"""What the conformance suite needs to know about a kind of gate; a new kind adds one of these, and nothing else.

Each harness has a real target. `place` is all that another process needs to find the same one.
"""

# ruff: noqa: ANN401  # connections of several libraries

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

import boto3
import httpx
import psycopg
import redis

from fencepost.gates.directory import DirectoryGate
from fencepost.gates.file import FileGate
from fencepost.gates.git.gate import GitGate
from fencepost.gates.redis.gate import RedisGate
from fencepost.gates.s3.gate import S3Gate
from fencepost.gates.sql.gate import SqlGate
from fencepost.integrations.asgi import FenceMiddleware as AsgiMiddleware
from fencepost.integrations.httpx import FenceTransport
from fencepost.integrations.wsgi import FenceMiddleware as WsgiMiddleware
from fencepost.model.gate import Proof
from fencepost.operations.gate_kinds import open_gate
from fencepost.ports.gate import Gate
from tests.support.s3 import CREDENTIALS
from tests.support.services import GATE_KEY, Report, asgi_app, asgi_served, proxy_before, wsgi_app, wsgi_served

Asked = Callable[[str], Any]  # for a fixture by its name


def nothing() -> None:
    """Do not pause."""


class Harness(Protocol):
    """One target of one kind."""

    place: str
    stale_writes: int  # how many of them the suite throws at it; a slow kind has its thousands in `make stress`
    crew: int
    write_lifts: bool  # a write with a newer fence lifts the mark; not where a stranger could send one

    @property
    def target(self) -> str:
        """Return the target as a person writes it."""
        ...

    def gate(self) -> Gate:
        """Open the gate as another process would: no state is shared with one that was opened before."""
        ...

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        """Replace the payload; `pause` is called between the comparison and the effect, as near to it as can be."""
        ...

    def content(self) -> str | None:
        """Return the payload, read past the gate; None if nothing was ever written."""
        ...

    def command(self, text: str) -> str:
        """Return a shell command that writes the text through the gate, with the proof from its environment."""
        ...

    def stale_writer(self) -> Callable[[Proof], None]:
        """Return what tries a write again and again, without what comes before the gate."""
        ...


class Stale:
    """Tries whole writes; a kind with costly preparations does those once."""

    crew = 1  # how many try at the same time
    write_lifts = True

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        raise NotImplementedError

    def stale_writer(self) -> Callable[[Proof], None]:
        return lambda proof: self.write(proof, "zombie")


class FileHarness(Stale):
    """A file on a local disk."""

    stale_writes = 10_000

    def __init__(self, place: str) -> None:
        self.place = place
        self._path = Path(place)

    @classmethod
    @contextmanager
    def made(cls, folder: Path, _: Asked) -> "Iterator[FileHarness]":
        yield cls(str(folder / "out.txt"))

    @property
    def target(self) -> str:
        return f"file:{self.place}"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        def slowly() -> Iterator[bytes]:
            yield text.encode()
            pause()

        gate = self.gate()
        assert isinstance(gate, FileGate)
        gate.write(proof, slowly())

    def content(self) -> str | None:
        return self._path.read_text() if self._path.exists() else None

    def command(self, text: str) -> str:
        return f"printf %s {text} | fencepost gate write-file {self.place}"


class DirectoryHarness(Stale):
    """A directory that is published as a whole."""

    stale_writes = 1_000

    def __init__(self, place: str) -> None:
        self.place = place
        self._folder = Path(place)

    @classmethod
    @contextmanager
    def made(cls, folder: Path, _: Asked) -> "Iterator[DirectoryHarness]":
        yield cls(str(folder))

    @property
    def target(self) -> str:
        return f"dir:{self.place}/site"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        build = self._folder / f"build-{text}"
        build.mkdir(exist_ok=True)
        (build / "report.txt").write_text(text)
        gate = self.gate()
        assert isinstance(gate, DirectoryGate)
        gate.publish(proof, str(build), pause=pause)

    def content(self) -> str | None:
        report = self._folder / "site" / "report.txt"
        return report.read_text() if report.exists() else None

    def command(self, text: str) -> str:
        build = f"{self.place}/build-{text}"
        return f"mkdir -p {build} && printf %s {text} > {build}/report.txt && fencepost gate publish-dir {build} {self.place}/site"


class SqlHarness(Stale):
    """A table in a database, written through a connection of the program's own."""

    stale_writes = 10_000

    def __init__(self, place: str) -> None:
        self.place = place  # the database's URL
        os.environ["GATED_URL"] = place
        self._own: list[Any] = []

    @classmethod
    @contextmanager
    def sqlite(cls, folder: Path, _: Asked) -> "Iterator[SqlHarness]":
        with closing(sqlite3.connect(folder / "app.db")) as database:
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("CREATE TABLE report (text TEXT)")
            database.commit()
        with cls(f"sqlite:{folder}/app.db")._closing() as made:
            yield made

    @classmethod
    @contextmanager
    def postgres(cls, _: Path, asked: Asked) -> "Iterator[SqlHarness]":
        url = asked("postgres_url")
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE report (text text)")
        with cls(url)._closing() as made:
            made.stale_writes = 1_000  # a millisecond each on a quiet machine
            yield made

    @contextmanager
    def _closing(self) -> "Iterator[SqlHarness]":
        try:
            yield self
        finally:
            del os.environ["GATED_URL"]
            for connection in self._own:
                connection.close()

    @property
    def target(self) -> str:
        return "sql:env:GATED_URL"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        gate = self.gate()
        assert isinstance(gate, SqlGate)
        mark = "?" if self.place.startswith("sqlite:") else "%s"
        with gate.transaction(proof, self._connection()) as connection:
            connection.execute("DELETE FROM report")
            pause()
            connection.execute(f"INSERT INTO report VALUES ({mark})", (text,))

    def content(self) -> str | None:
        with closing(self._connect()) as connection:
            row = connection.execute("SELECT text FROM report").fetchone()
        return str(row[0]) if row else None

    def command(self, text: str) -> str:
        script = f"DELETE FROM report; INSERT INTO report VALUES ('{text}');"
        return f'echo "{script}" | fencepost gate write-sql {self.target}'

    def _connection(self) -> Any:
        """Return this thread's connection; a program keeps its own between writes."""
        if not self._own:
            self._own.append(self._connect())
        return self._own[0]

    def _connect(self) -> Any:
        if self.place.startswith("sqlite:"):
            return sqlite3.connect(self.place.removeprefix("sqlite:"), check_same_thread=False)
        return psycopg.connect(self.place)


class GitHarness(Stale):
    """A branch of a bare repository, pushed from a clone."""

    stale_writes = 10
    crew = 3  # most of the time is that of starting git

    def __init__(self, place: str) -> None:
        self.place = place
        self._folder = Path(place)

    @classmethod
    @contextmanager
    def made(cls, folder: Path, _: Asked) -> "Iterator[GitHarness]":
        made = cls(str(folder))
        made.git("init", "--quiet", "--bare", "-b", "main", f"{folder}/remote.git", folder=folder)
        made.git("clone", "--quiet", f"{folder}/remote.git", f"{folder}/clone", folder=folder)
        yield made

    @property
    def target(self) -> str:
        return f"git:{self.place}/remote.git#branch=main"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        gate = self.gate()
        assert isinstance(gate, GitGate)
        gate.push(proof, self.commit(text), clone=f"{self.place}/clone", meanwhile=pause)

    def stale_writer(self) -> Callable[[Proof], None]:
        commit = self.commit("zombie")

        def write(proof: Proof) -> None:
            gate = self.gate()
            assert isinstance(gate, GitGate)
            gate.push(proof, commit, clone=f"{self.place}/clone")

        return write

    def content(self) -> str | None:
        try:
            return self.git("show", "main:report.txt", folder=self._folder / "remote.git")
        except subprocess.CalledProcessError:
            return None

    def command(self, text: str) -> str:
        clone = f"{self.place}/clone"
        return (
            f"cd {clone} && git pull -q --rebase origin main 2>/dev/null; printf %s {text} > report.txt && git add -A "
            f"&& git -c user.name=a -c user.email=a@b commit -qm {text} && fencepost gate git-push '{self.target}'"
        )

    def commit(self, text: str) -> str:
        """Return a commit with the text, on top of whatever the remote has."""
        clone = self._folder / "clone"
        blob = self.git("hash-object", "-w", "--stdin", folder=clone, stdin=text).strip()
        tree = self.git("mktree", folder=clone, stdin=f"100644 blob {blob}\treport.txt\n").strip()
        self.git("fetch", "--quiet", "origin", folder=clone)
        head = self.git("for-each-ref", "--format=%(objectname)", "refs/remotes/origin/main", folder=clone).strip()
        parents = ["-p", head] if head else []
        return self.git("commit-tree", tree, *parents, "-m", text, folder=clone).strip()

    def git(self, *words: str, folder: Path, stdin: str = "") -> str:
        identity = ["-c", "user.name=agent", "-c", "user.email=agent@example.com"]
        ran = subprocess.run(
            ["git", *identity, *words], cwd=folder, input=stdin, capture_output=True, text=True, check=True
        )
        return ran.stdout


class RedisHarness(Stale):
    """A key of a Redis server."""

    stale_writes = 10_000

    def __init__(self, place: str) -> None:
        self.place = place  # the server's URL
        os.environ["GATED_REDIS"] = place
        self._own: list[Gate] = []

    @classmethod
    @contextmanager
    def made(cls, _: Path, asked: Asked) -> "Iterator[RedisHarness]":
        try:
            yield cls(asked("redis_url"))
        finally:
            del os.environ["GATED_REDIS"]

    @property
    def target(self) -> str:
        return "redis:env:GATED_REDIS"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        gate = self._kept()
        assert isinstance(gate, RedisGate)
        gate.write(proof, "report", text, meanwhile=pause)

    def content(self) -> str | None:
        with redis.Redis.from_url(self.place) as client:
            found = client.get("report")
        return found.decode() if isinstance(found, bytes) else None

    def command(self, text: str) -> str:
        return f"printf %s {text} | fencepost gate write-redis {self.target} report"

    def _kept(self) -> Gate:
        """Return a gate that stays open between writes, as a program's own does."""
        if not self._own:
            self._own.append(self.gate())
        return self._own[0]


class S3Harness(Stale):
    """An object in a bucket."""

    stale_writes = 300

    def __init__(self, place: str) -> None:
        self.place = place  # the server's address and the bucket
        self._endpoint, _, self._bucket = place.rpartition("/")
        os.environ.update(CREDENTIALS)
        self._own: list[Gate] = []

    @classmethod
    @contextmanager
    def made(cls, _: Path, asked: Asked) -> "Iterator[S3Harness]":
        server = asked("s3_server")
        before = {name: os.environ.get(name) for name in CREDENTIALS}
        try:
            yield cls(f"{server.endpoint}/{server.new_bucket()}")
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    @property
    def target(self) -> str:
        return f"s3:s3://{self._bucket}/reports/latest.txt#endpoint={self._endpoint}"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        gate = self._kept()
        assert isinstance(gate, S3Gate)
        gate.write(proof, text.encode(), meanwhile=pause)

    def content(self) -> str | None:
        """Follow the pointer by hand, as a reader would that knows only S3."""
        client = boto3.client("s3", endpoint_url=self._endpoint)
        try:
            pointer = json.load(client.get_object(Bucket=self._bucket, Key="reports/latest.txt")["Body"])
        except client.exceptions.NoSuchKey:
            return None
        if not pointer["data"]:
            return None
        return str(client.get_object(Bucket=self._bucket, Key=pointer["data"])["Body"].read().decode())

    def command(self, text: str) -> str:
        return f"printf %s {text} | fencepost gate write-s3 '{self.target}'"

    def _kept(self) -> Gate:
        """Return a gate that stays open between writes, as a program's own does."""
        if not self._own:
            self._own.append(self.gate())
        return self._own[0]


class HttpHarness(Stale):
    """A service that keeps one report, with the middleware in it."""

    stale_writes = 500
    write_lifts = False

    def __init__(self, place: str) -> None:
        self.place = place  # the service's address
        os.environ["GATE_KEY"] = GATE_KEY
        self._connections = httpx.HTTPTransport(
            verify=False
        )  # loopback; reading certificates takes a tenth of a second

    @classmethod
    @contextmanager
    def asgi(cls, folder: Path, _: Asked) -> "Iterator[HttpHarness]":
        app = AsgiMiddleware(asgi_app(Report()), marks=str(folder / "fences"), key=GATE_KEY, wait_seconds=2)
        with asgi_served(app) as url, cls(url)._closing() as made:
            yield made

    @classmethod
    @contextmanager
    def wsgi(cls, folder: Path, _: Asked) -> "Iterator[HttpHarness]":
        app = WsgiMiddleware(wsgi_app(Report()), marks=str(folder / "fences"), key=GATE_KEY, wait_seconds=2)
        with wsgi_served(app) as url, cls(url)._closing() as made:
            yield made

    @classmethod
    @contextmanager
    def proxied(cls, folder: Path, _: Asked) -> "Iterator[HttpHarness]":
        served = wsgi_served(wsgi_app(Report()))
        with served as upstream, proxy_before(upstream, folder) as url, cls(url)._closing() as made:
            yield made

    @contextmanager
    def _closing(self) -> "Iterator[HttpHarness]":
        try:
            yield self
        finally:
            del os.environ["GATE_KEY"]
            self._connections.close()

    @property
    def target(self) -> str:
        return f"http:{self.place}#key=env:GATE_KEY"

    def gate(self) -> Gate:
        return open_gate(self.target)

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        def slowly() -> Iterator[bytes]:
            yield text[:1].encode()
            pause()
            yield text[1:].encode()

        headers = {"Content-Length": str(len(text.encode()))}
        client = httpx.Client(transport=FenceTransport(proof, transport=self._connections), timeout=60)
        client.put(f"{self.place}/report", content=slowly(), headers=headers).raise_for_status()

    def content(self) -> str | None:
        answer = httpx.Client(transport=self._connections).get(f"{self.place}/report")
        return answer.text if answer.status_code == 200 else None

    def command(self, text: str) -> str:
        return f"printf %s {text} | fencepost gate send '{self.target}' PUT /report"


Making = Callable[[Path, Asked], AbstractContextManager[Harness]]

# kind -> how a target is made; the second process only knows its place
HARNESSES: dict[str, Making] = {
    "file": FileHarness.made,
    "dir": DirectoryHarness.made,
    "sqlite": SqlHarness.sqlite,
    "postgres": SqlHarness.postgres,
    "git": GitHarness.made,
    "redis": RedisHarness.made,
    "s3": S3Harness.made,
    "asgi": HttpHarness.asgi,
    "wsgi": HttpHarness.wsgi,
    "proxy": HttpHarness.proxied,
}
BY_PLACE: dict[str, Callable[[str], Harness]] = {
    "file": FileHarness,
    "dir": DirectoryHarness,
    "sqlite": SqlHarness,
    "postgres": SqlHarness,
    "git": GitHarness,
    "redis": RedisHarness,
    "s3": S3Harness,
    "asgi": HttpHarness,
    "wsgi": HttpHarness,
    "proxy": HttpHarness,
}
