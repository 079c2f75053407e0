"""Targets that guard themselves: triggers and server-side hooks, before clients that never heard of us.

They are harnesses as well, for the tests that ask no more than who may write. Their clients show a fence as far as their
own language can: SQL can, plain git cannot.
"""

import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from fencepost.gates.git.receive_hooks import install
from fencepost.gates.sql.gate import SqlGate
from fencepost.model.errors import FenceRefused
from fencepost.model.gate import Proof
from tests.gates.harness import BY_PLACE, HARNESSES, Asked, GitHarness, Harness, Making, SqlHarness, nothing

MARKS_OF_POSTGRES = "SELECT set_config('fencepost.resource', %s, true), set_config('fencepost.fence', %s, true)"


class PostgresGuardHarness(SqlHarness):
    """A table with the guard's trigger, written by a plain session that shows its fence in SQL."""

    @classmethod
    @contextmanager
    def made(cls, _: Path, asked: Asked) -> "Iterator[PostgresGuardHarness]":
        with cls.postgres(_, asked) as made:
            assert isinstance(made, cls)
            guarded(made)
            yield made

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        connection = self._connection()
        try:
            with connection.transaction():
                connection.execute(MARKS_OF_POSTGRES, (" ".join(proof.resources), str(proof.fence)))
                connection.execute("DELETE FROM report")
                pause()
                connection.execute("INSERT INTO report VALUES (%s)", (text,))
        except psycopg.Error as error:
            raise refused(error) from None

    def command(self, text: str) -> str:
        shown = "os.environ['FENCEPOST_RESOURCE'], os.environ['FENCEPOST_FENCE']"
        return self._program(f"c.execute({MARKS_OF_POSTGRES!r}, ({shown}))", text)

    def _program(self, shows: str, text: str) -> str:
        connect = "import os, psycopg; c = psycopg.connect(os.environ['GATED_URL'])"
        return python(connect, shows, "c.execute('DELETE FROM report')", insert(text), "c.commit()")

    def stray_writer(self) -> Callable[[int], bool]:
        """Return what writes past the gate, and tells whether that was refused."""
        connection = psycopg.connect(self.place, autocommit=True)
        self._own.append(connection)  # closed with the harness

        def write(number: int) -> bool:
            shown = "" if number % 2 else str(number)
            try:
                connection.execute("SELECT set_config('fencepost.fence', %s, false)", (shown,))
                connection.execute("SELECT set_config('fencepost.resource', 'lock:z', false)")
                connection.execute(STATEMENTS[number % 3])
            except psycopg.Error as error:
                return error.sqlstate == "FP077"
            return False

        return write


class SqliteGuardHarness(SqlHarness):
    """A table with the guard's triggers, written by a plain connection that shows its fence in SQL."""

    @classmethod
    @contextmanager
    def made(cls, folder: Path, asked: Asked) -> "Iterator[SqliteGuardHarness]":
        with cls.sqlite(folder, asked) as made:
            assert isinstance(made, cls)
            guarded(made)
            yield made

    def write(self, proof: Proof, text: str, pause: Callable[[], None] = nothing) -> None:
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            for key in proof.keys:
                connection.execute("INSERT INTO fencepost_fence_pass VALUES (?, ?)", (key, proof.fence))
            connection.execute("DELETE FROM report")
            connection.execute("INSERT INTO report VALUES ('')")
            pause()
            connection.execute("UPDATE report SET text = ?", (text,))
            connection.execute("DELETE FROM fencepost_fence_pass")
            connection.commit()
        except sqlite3.Error as error:
            connection.rollback()
            raise refused(error) from None

    def command(self, text: str) -> str:
        shows = "c.execute('INSERT INTO fencepost_fence_pass VALUES (?, ?)', ('default ' + os.environ['FENCEPOST_RESOURCE'], int(os.environ['FENCEPOST_FENCE'])))"
        return self._program(shows, text, "c.execute('DELETE FROM fencepost_fence_pass')")

    def _program(self, shows: str, text: str, hides: str = "") -> str:
        path = self.place.removeprefix("sqlite:")
        connect = f"import os, sqlite3; c = sqlite3.connect({path!r}, timeout=60)"
        return python(connect, shows, "c.execute('DELETE FROM report')", insert(text), hides, "c.commit()")

    def stray_writer(self) -> Callable[[int], bool]:
        """Return what writes past the gate, and tells whether that was refused."""
        connection = sqlite3.connect(self.place.removeprefix("sqlite:"), isolation_level=None)
        self._own.append(connection)  # closed with the harness

        def write(number: int) -> bool:
            try:
                connection.execute("BEGIN IMMEDIATE")
                if number % 2:
                    connection.execute("INSERT INTO fencepost_fence_pass VALUES ('default lock:z', ?)", (number,))
                connection.execute(STATEMENTS[number % 3])
            except sqlite3.IntegrityError as error:
                connection.execute("ROLLBACK")
                return "behind a gate" in str(error)
            connection.execute("COMMIT")
            return False

        return write


class GitHookHarness(GitHarness):
    """A bare repository with the server's hooks, pushed to by plain git."""

    stale_writes = 8

    @classmethod
    @contextmanager
    def made(cls, folder: Path, asked: Asked) -> "Iterator[GitHookHarness]":
        with super().made(folder, asked) as made:
            assert isinstance(made, cls)
            install(f"{folder}/remote.git")
            yield made

    def stray_in_a_run(self, text: str) -> str:
        """Return a plain push."""
        clone = f"{self.place}/clone"
        return (
            f"cd {clone} && git pull -q --rebase origin main; printf %s {text} > report.txt && git add -A "
            f"&& git -c user.name=a -c user.email=a@b commit -qm {text} && git push -q origin HEAD:main"
        )

    def stray_writer(self) -> Callable[[int], bool]:
        """Return what pushes past the gate: the branch alone, or with marks that the gate has left behind."""
        commit, clone = self.commit("zombie"), self._folder / "clone"
        self.git("fetch", "-q", "origin", "refs/fencepost/main", folder=clone)
        old = self.git("rev-list", "--max-parents=0", "FETCH_HEAD", folder=clone).strip()
        branch, marks = f"{commit}:refs/heads/main", f"+{old}:refs/fencepost/main"

        def write(number: int) -> bool:
            specs = [["push", "-q", "origin", branch], ["push", "-q", "--atomic", "origin", branch, marks]][number % 2]
            ran = subprocess.run(["git", *specs], cwd=clone, capture_output=True, text=True, check=False)
            said = "this push shows no fence" in ran.stderr or "would take that back" in ran.stderr
            assert said or not ran.returncode, ran.stderr
            return said

        return write


STATEMENTS = ("DELETE FROM report", "UPDATE report SET text = 'zombie'", "INSERT INTO report VALUES ('zombie')")


def guarded(made: SqlHarness) -> None:
    """Put the guard before the table."""
    gate = made.gate()
    assert isinstance(gate, SqlGate)
    gate.install(gate.guard("report"))


def refused(error: Exception) -> Exception:
    """Return what a guard's no means to the suite; every other error stays what it is."""
    is_ours = getattr(error, "sqlstate", "") == "FP077" or "behind a gate" in str(error)
    return FenceRefused(str(error)) if is_ours else error


def insert(text: str) -> str:
    """Return the statement of a program that writes the text."""
    statement = f"INSERT INTO report VALUES ('{text}')"
    return f"c.execute({statement!r})"


def python(*lines: str) -> str:
    """Return a shell command that runs these lines."""
    program = "\n".join(line for line in lines if line)
    return f"{sys.executable} -c {shlex.quote(program)}"


GUARDS: dict[str, Making] = {
    "sqlite-guard": SqliteGuardHarness.made,
    "postgres-guard": PostgresGuardHarness.made,
    "git-hook": GitHookHarness.made,
}
ALL: dict[str, Making] = {**HARNESSES, **GUARDS}
ALL_BY_PLACE: dict[str, Callable[[str], Harness]] = {
    **BY_PLACE,
    "sqlite-guard": SqliteGuardHarness,
    "postgres-guard": PostgresGuardHarness,
    "git-hook": GitHookHarness,
}
