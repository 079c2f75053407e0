"""Ended runs in any number, as the program wrote them: copies of runs that it carried out, each a while earlier.

Every table is asked which rows tell of a run, so that one that is new is copied as well. A copy has an id, times and
an occurrence and a fence of its own, random hashes, and its place in the audit before all others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from bench.ground import execute

SPAN_US = 90 * 86_400_000_000
SECOND_US = 1_000_000
CHUNK = 100_000
LENGTH = 19  # of a run's id
WALL = {"slot", "slot_until"}
RANDOM = {"idempotency_key", "hash"}
TELLS = {"id": "{0} = '{1}'", "run_id": "{0} = '{1}'", "subject": "{0} = 'run:{1}'", "detail": "{0} LIKE '%{1}%'"}


class Column(NamedTuple):
    """A column of a table, and whether it holds text."""

    name: str
    is_text: bool


def copy_runs(url: str, shares: dict[str, int], number: int) -> str:
    """Copy the ended run of each state, by its share of all, until there are so many; return the id of one in the middle."""
    tables, whole, first = tables_of(url), sum(shares.values()), 0
    rows = execute(url, f"SELECT state, id, fence FROM {place(url, 'run')}")
    found = {str(state): (str(run_id), int(fence)) for state, run_id, fence in rows}
    for state, share in shares.items():
        which = f"n % {whole} BETWEEN {first} AND {first + share - 1}"
        copies = Copies(url, *found[state], max(SECOND_US, SPAN_US // number), number)
        with samples(url, found[state][0], tables):
            for high in range(number, 0, -CHUNK):  # the oldest first, as they came
                span = series(url, max(high - CHUNK + 1, 1), high)
                execute(url, *(f"{copies.of(table, columns, span)} WHERE {which}" for table, columns in tables.items()))
        first += share
    execute(url, "ANALYZE" if is_lite(url) else "VACUUM ANALYZE")
    return id_of(number // 2)


@contextmanager
def samples(url: str, run_id: str, tables: dict[str, list[Column]]) -> Iterator[None]:
    """Keep a run's rows of each table apart, so that they need not be looked for among their copies."""
    kept = {table: place(url, f"sample_{table}") for table in tables}
    for table, columns in tables.items():
        mine = " OR ".join(text.format(name, run_id) for name, text in TELLS.items() if name in texts(columns))
        execute(url, f"CREATE TABLE {kept[table]} AS SELECT * FROM {place(url, table)} WHERE {mine}")
    yield
    execute(url, *(f"DROP TABLE {name}" for name in kept.values()))


def series(url: str, low: int, high: int) -> str:
    """Spell the numbers from one to another as a table."""
    if is_lite(url):
        return f"(WITH RECURSIVE c(n) AS (SELECT {high} UNION ALL SELECT n - 1 FROM c WHERE n > {low}) SELECT n FROM c)"
    return f"generate_series({high}::bigint, {low}, -1) AS n"


class Copies(NamedTuple):
    """Which run is copied, how far apart in time, and how often."""

    url: str
    run_id: str
    fence: int
    step_us: int
    number: int

    def of(self, table: str, columns: list[Column], span: str) -> str:
        """Spell the statement that copies a table's rows of the run."""
        names = ", ".join(one.name for one in columns)
        values = ", ".join(self.value(table, one) for one in columns)
        over = "" if is_lite(self.url) else "OVERRIDING SYSTEM VALUE"
        into, sample = place(self.url, table), place(self.url, f"sample_{table}")
        return f"INSERT INTO {into} ({names}) {over} SELECT {values} FROM {span} CROSS JOIN {sample}"

    def value(self, table: str, column: Column) -> str:
        """Spell what a copy has in a column."""
        name = column.name
        if name in WALL:
            return self.wall()
        if name == "occurrence":
            return f"'UTC|' || {self.wall()} || '|0'"
        if name in RANDOM:
            return "lower(hex(randomblob(32)))" if is_lite(self.url) else "md5(random()::text) || md5(random()::text)"
        if table == "audit" and name in {"seq", "place"}:
            return f"{name} - 1000 * n"
        if name.endswith("_us") or name == "fence":
            return f"{name} - n * {self.step_us}"
        return f"replace({self.own(name)}, '{self.run_id}', {self.id()})" if column.is_text else name

    def own(self, name: str) -> str:
        """Spell a text with the copy's own fence in it."""
        return f"replace({name}, '{self.fence}', CAST({self.fence} - n * {self.step_us} AS text))"

    def wall(self) -> str:
        """Spell the wall time of a copy's tick, in UTC."""
        seconds = f"(tick_us - n * {self.step_us}) / {SECOND_US}"
        if is_lite(self.url):
            return f"strftime('%Y-%m-%dT%H:%M:%S', {seconds}, 'unixepoch')"
        return f"to_char(to_timestamp({seconds}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')"

    def id(self) -> str:
        """Spell a copy's id: as long as any, and older ones first."""
        rest, digits = f"{self.number} - n", LENGTH - 2
        lite = f"printf('r0%0{digits}d', {rest})"
        return lite if is_lite(self.url) else f"'r0' || lpad(({rest})::text, {digits}, '0')"


def id_of(rest: int) -> str:
    """Return the id of the copy that has so many before it."""
    return f"r0{rest:0{LENGTH - 2}d}"


def tables_of(url: str) -> dict[str, list[Column]]:
    """Return the columns of every table that may tell of a run."""
    found: dict[str, list[Column]] = {}
    for table, name, kind in execute(url, LITE_COLUMNS if is_lite(url) else COLUMNS):
        found.setdefault(str(table), []).append(Column(str(name), str(kind).lower() == "text"))
    return {table: columns for table, columns in found.items() if texts(columns) & TELLS.keys()}


def texts(columns: list[Column]) -> set[str]:
    """Return the names of those that hold text."""
    return {one.name for one in columns if one.is_text}


def shrink(url: str, table: str) -> None:
    """Give back the room of rows that are gone, which new rows would use; SQLite keeps it apart by itself."""
    if not is_lite(url):
        execute(url, f"VACUUM FULL ANALYZE {place(url, table)}")


def size_of(url: str) -> dict[str, int]:
    """Return the bytes of each table, with its indexes."""
    rows = execute(url, "PRAGMA wal_checkpoint(TRUNCATE)", LITE_SIZES) if is_lite(url) else execute(url, SIZES)
    return {str(name): int(size) for name, size in rows}


def place(url: str, table: str) -> str:
    """Return a table's full name."""
    return table if is_lite(url) else f"fencepost.{table}"


def is_lite(url: str) -> bool:
    """Tell SQLite from PostgreSQL."""
    return url.startswith("sqlite:")


COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns JOIN information_schema.tables
 USING (table_schema, table_name)
 WHERE table_schema = 'fencepost' AND table_type = 'BASE TABLE' AND is_generated = 'NEVER'
   AND table_name <> 'dead'  -- a trigger keeps it
"""
LITE_COLUMNS = """
SELECT m.name, c.name, c.type FROM sqlite_master AS m JOIN pragma_table_xinfo(m.name) AS c
 WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND c.hidden = 0
"""
SIZES = """
SELECT relname, pg_total_relation_size(oid) FROM pg_class
 WHERE relnamespace = 'fencepost'::regnamespace AND relkind IN ('r', 'p')
"""
LITE_SIZES = """
SELECT m.tbl_name, sum(d.pgsize) FROM dbstat AS d JOIN sqlite_master AS m ON m.name = d.name GROUP BY m.tbl_name
"""
