"""The gate of a database: marks are compared and lifted in the transaction that writes the payload."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from fencepost.gates.sql.connection import SqlLink, link_to
from fencepost.gates.sql.open_database import Database, database_at
from fencepost.gates.sql.statements import DEFAULT_TABLE, MarkStatements, statements
from fencepost.gates.sql.table_trigger import guard_statements, unguard_statements
from fencepost.model.errors import Misconfigured
from fencepost.model.gate import FLOOR, MARKS_MAX, Mark, Proof, check, raised
from fencepost.model.target import Target
from fencepost.ports.gate import Fetch, GateStatus

if TYPE_CHECKING:
    from fencepost.ports.clock import Clock


class SqlGate:
    """Marks in a table of the target's own database, locked until the payload is committed with them."""

    def __init__(self, target: Target, *, clock: "Clock", database: Database) -> None:
        self._clock = clock
        self._database = database
        self._table = target.option("table", DEFAULT_TABLE)
        options = tuple((name, value) for name, value in target.options if value != DEFAULT_TABLE)
        self._target = Target("sql", self._database.spelled, options)

    @property
    def target(self) -> str:
        """Return `sql:` and where the database is, or where that is written."""
        return self._target.text

    def raise_fence(self, proof: Proof, *, adopt: bool = False) -> None:
        """Lift the marks, durably, or raise FenceRefused; wait for transactions that are under way, within limits."""
        with self._database.connected() as connection:
            link = link_to(connection)
            with self._explained("raise"):
                self._make(link)
                with self._transaction(link) as words:
                    link.run(words["hide"])  # a pass that was left open by mistake ends here
                    self._pass(link, words, proof, adopt=adopt, folding=self._is_full(link, words))

    @contextmanager
    def transaction(self, proof: Proof, connection: Any = None) -> Iterator[Any]:  # noqa: ANN401  # the program's own
        """Write in a transaction that commits only if this fence passes: mark and payload together, or nothing.

        The connection is the program's own, with no transaction open; without one, the gate opens its own. The
        block's statements are run on it as usual, and it is committed at the end of the block.
        """
        if connection is None:
            with self._database.connected() as own, self.transaction(proof, own) as given:
                yield given
            return
        link = link_to(connection)
        with self._transaction(link) as words:
            with self._explained("write"):
                self._demand_marks(link, words)
                link.run(words["patience"])
                self._pass(link, words, proof)
                self._show(link, words, proof)
            yield connection
            link.run(words["hide"])

    def run_script(self, proof: Proof, script: str) -> None:
        """Run SQL statements in one transaction of the gate's own; the script may neither commit nor roll back."""
        with self._explained("write"), self.transaction(proof) as connection:
            self._database.run_script(connection, script)

    def guard(self, table: str, *, resource: str = "", tenant: str = "default", remove: bool = False) -> list[str]:
        """Return the statements that put a guard before a table, or take it away; the marks' table is made first."""
        if remove:
            return unguard_statements(self._database.dialect, self._table, table)
        return guard_statements(self._database.dialect, self._table, table, resource=resource, tenant=tenant)

    def guarded_tables(self) -> list[str]:
        """Return the tables that refuse a writer without a fence."""
        with self._database.connected() as connection, self._explained("look at"):
            link = link_to(connection)
            return [str(row[0]) for row in link.run(self._words(link)["guarded"])]

    def install(self, definitions: list[str]) -> None:
        """Carry out such statements, all or none."""
        with self._database.connected() as connection, self._explained("guard a table at"):
            link = link_to(connection)
            self._make(link)
            with self._transaction(link):
                for definition in definitions:
                    link.run(definition)

    def check(self, proof: Proof) -> None:
        """Raise FenceRefused if a write would be refused now; it may be refused later all the same."""
        check(proof, self._read(), target=self.target)

    def status(self) -> GateStatus:
        """Return the marks in the table; none if it was never raised."""
        return GateStatus(self.target, self._read(), tuple(self._database.warnings()))

    def _read(self) -> dict[str, Mark]:
        with self._database.connected() as connection, self._explained("read"):
            link = link_to(connection)
            words = self._words(link)
            return _marks(link.run(words["marks"])) if self._is_made(link, words) else {}

    @contextmanager
    def _transaction(self, link: SqlLink) -> Iterator[MarkStatements]:
        link.begin()
        try:
            yield self._words(link)
            link.commit()
        except BaseException:
            link.rollback()
            raise

    def _words(self, link: SqlLink) -> MarkStatements:
        return statements(link.dialect, self._table)

    def _is_made(self, link: SqlLink, words: MarkStatements) -> bool:
        return bool(link.run(words["exists"], words.table)[0][0])

    def _make(self, link: SqlLink) -> None:
        words = self._words(link)
        if not self._is_made(link, words):
            self._database.make(lambda: [link.run(words[name]) for name in ("make", "make_pass") if name in words])

    def _demand_marks(self, link: SqlLink, words: MarkStatements) -> None:
        """Refuse a database that was never raised: its marks would fence no writer, since they are kept elsewhere."""
        if not self._is_made(link, words):
            raise Misconfigured(
                f"the connection leads to a database without the table {words.table}, so it is not the one whose fence "
                f"was raised: {self.target}. Connect to that one, or raise this one first: fencepost gate raise sql:…"
            )

    def _is_full(self, link: SqlLink, words: MarkStatements) -> bool:
        return len(link.run(words["marks"])) >= MARKS_MAX

    def _pass(
        self, link: SqlLink, words: MarkStatements, proof: Proof, *, adopt: bool = False, folding: bool = False
    ) -> None:
        """Compare, and lift what is lower, with every row locked from here to the commit: the floor's first."""
        keys = proof.keys
        seen = {key: link.run(words["look"], key) for key in (FLOOR, *keys)}
        # A first look without locks: who is refused anyway keeps no other writer waiting.
        check(proof, _marks([row for rows in seen.values() for row in rows]), target=self.target, adopt=adopt)
        marks = self._locked(link, words, [FLOOR], exclusively=folding)
        mine = all(seen[key] and seen[key][0][1] == proof.fence for key in keys)
        marks |= self._locked(link, words, keys, exclusively=not mine)
        if folding:
            marks = _marks(link.run(words["marks"]))
        check(proof, marks, target=self.target, adopt=adopt)
        lifted = raised(proof, marks, at_us=self._clock.wall_us())
        for key in sorted(lifted.keys() | marks.keys()):
            if key not in lifted:
                link.run(words["forget"], key)
            elif lifted[key] != marks.get(key):
                link.run(words["lift"], *lifted[key], key)

    def _locked(self, link: SqlLink, words: MarkStatements, keys: list[str], *, exclusively: bool) -> dict[str, Mark]:
        found: dict[str, Mark] = {}
        for key in keys:
            link.run(words["prepare"], key)
            found |= _marks(link.run(words["hold" if exclusively else "share"], key))
        return found

    def _show(self, link: SqlLink, words: MarkStatements, proof: Proof) -> None:
        """Tell guarded tables who is writing."""
        if link.dialect == "postgres":
            resources = " ".join(proof.resources)
            link.run(words["show"], proof.tenant, resources, str(proof.fence), proof.run_id, proof.store or "")
            return
        for key in proof.keys:
            link.run(words["show"], key, proof.fence)

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            explained = self._database.explain(error, f"cannot {verb} {self.target}")
            if explained is None:
                raise
            raise explained from error


def open_sql_gate(target: Target, *, clock: "Clock", fetch: Fetch) -> SqlGate:
    """Open the gate of a database."""
    return SqlGate(target, clock=clock, database=database_at(target.where, fetch))


def _marks(rows: list[tuple[Any, ...]]) -> dict[str, Mark]:
    return {row[0]: Mark(*row[1:]) for row in rows if row[1] > 0}
