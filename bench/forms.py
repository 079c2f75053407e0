"""Ended runs in a narrower form, tried beside a real store: bytes, whether the same rows come back, how quickly lists are read.

No part of the product reads this form; decision 24 says what it would take. Ended runs are made as `bench/history.py` makes them. Then each
that succeeded, with its attempt, goes into one narrow row: what runs share stands once, keys are bytes, times are distances. A view
gives back the columns of `run`, and is compared with it row by row.
"""

import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import apsw
import psycopg

from bench.ground import KINDS, execute, report, stores
from bench.history import MANY_SHARES, Place
from bench.past import is_lite, size_of

ROUNDS = 20
SHARED = (
    *("agent", "version", "trigger", "manifest_hash", "lease_max", "lines_up", "priority", "rank", "state", "reason"),
    *("project", "in_process", "reserved_micro", "resume", "attempt", "exit_code"),
)
OF_RUN = (
    *("id", "tenant", "agent", "schedule", "version", "trigger", "occurrence", "tick_us", "period_start_us"),
    *(
        "period_end_us",
        "last_success_us",
        "backfill_from_us",
        "idempotency_key",
        "manifest_hash",
        "payload",
        "resources",
    ),
    *("lease_max", "lines_up", "priority", "rank", "state", "reason", "created_us", "waiting_us", "ready_us"),
    *("give_up_us", "place_us", "attempt", "resume", "fence", "started_us", "ended_us", "exit_code", "reserved_micro"),
    *("counted_us", "cost_micro", "summary", "log", "project", "in_process"),
)
TEXTS = {  # what differs between runs by their id and fence only
    "resources": "replace(run.resources, run.id, '*')",
    "log": "replace(replace(run.log, run.id, '*'), CAST(run.fence AS text), '#')",
}
# Both parts of a view must agree in the type of each column, or SQLite reads all of it before it sorts: hence the casts. And each
# part must be one table, or PostgreSQL does: hence no join.
MAKE = """
CREATE TABLE {s}past_common AS
SELECT run.tenant, row_number() OVER () AS number, {shared}, min(attempt.outcome) AS outcome
  FROM {s}run AS run JOIN {s}attempt AS attempt ON attempt.run_id = run.id AND attempt.fence = run.fence
 WHERE run.state = 'succeeded' AND run.request_key IS NULL AND run.origin IS NULL
 GROUP BY run.tenant, {groups};
CREATE UNIQUE INDEX past_common_number ON {s}past_common (tenant, number);
CREATE TABLE {s}past_run (
    id text {c} PRIMARY KEY, tenant text {c} NOT NULL, schedule text {c}, created_us bigint NOT NULL, tick_us bigint,
    counted_us bigint NOT NULL, fence bigint, started bigint, ended bigint, give_up bigint, ready bigint, waited bigint,
    place bigint, period_start bigint, period_end bigint, last_success bigint, backfill_from bigint, cost_micro bigint,
    began bigint, stopped bigint, attempt_cost bigint, turns bigint, common integer NOT NULL, occurrence text,
    key {bytes} NOT NULL, payload text, summary text, worker text, last_log text, session text, usage text) {without};
CREATE INDEX past_by_age ON {s}past_run (tenant, created_us, id);
CREATE INDEX past_by_tick ON {s}past_run (tenant, schedule, tick_us) WHERE schedule IS NOT NULL;
CREATE INDEX past_counted ON {s}past_run (tenant, schedule, counted_us) WHERE schedule IS NOT NULL;
INSERT INTO {s}past_run
SELECT run.id, run.tenant, run.schedule, run.created_us, run.tick_us, run.counted_us, run.fence,
       run.started_us - run.created_us, run.ended_us - run.created_us, run.give_up_us - run.created_us,
       nullif(run.ready_us - run.created_us, 0), nullif(run.waiting_us - run.created_us, 0),
       nullif(run.place_us - run.ready_us, 0), run.period_start_us - run.tick_us, run.period_end_us - run.tick_us,
       run.last_success_us - run.created_us, run.backfill_from_us - run.created_us, run.cost_micro,
       attempt.started_us - run.started_us, attempt.ended_us - run.ended_us, attempt.cost_micro, attempt.turns,
       past_common.number, run.occurrence, {unhex}, nullif(run.payload, '{{}}'), run.summary, attempt.worker,
       nullif(attempt.last_log, ''), attempt.session, attempt.usage
  FROM {s}run AS run
  JOIN {s}attempt AS attempt ON attempt.run_id = run.id AND attempt.fence = run.fence
  JOIN {s}past_common AS past_common ON past_common.tenant = run.tenant AND {same}
 WHERE run.state = 'succeeded' AND run.request_key IS NULL AND run.origin IS NULL
 ORDER BY run.id;
CREATE VIEW {s}past_as_run AS
SELECT past_run.id, past_run.tenant, {of_common}, past_run.schedule, past_run.occurrence, past_run.tick_us,
       CAST(past_run.tick_us + period_start AS bigint) AS period_start_us,
       CAST(past_run.tick_us + period_end AS bigint) AS period_end_us,
       CAST(created_us + last_success AS bigint) AS last_success_us,
       CAST(created_us + backfill_from AS bigint) AS backfill_from_us,
       CAST({hex} AS text) AS idempotency_key, CAST(coalesce(payload, '{{}}') AS text) AS payload,
       CAST(replace({resources}, '*', past_run.id) AS text) AS resources,
       CAST(replace(replace({log}, '*', past_run.id), '#', CAST(past_run.fence AS text)) AS text) AS log,
       created_us, CAST(created_us + coalesce(waited, 0) AS bigint) AS waiting_us,
       CAST(created_us + coalesce(ready, 0) AS bigint) AS ready_us, CAST(created_us + give_up AS bigint) AS give_up_us,
       CAST(created_us + coalesce(ready, 0) + coalesce(place, 0) AS bigint) AS place_us,
       past_run.fence, CAST(created_us + started AS bigint) AS started_us, CAST(created_us + ended AS bigint) AS ended_us,
       counted_us, cost_micro, summary
  FROM {s}past_run AS past_run;
CREATE TABLE {s}hot AS SELECT * FROM {s}run WHERE state <> 'succeeded';
CREATE UNIQUE INDEX hot_id ON {s}hot (id);
CREATE INDEX hot_by_age ON {s}hot (tenant, created_us, id);
CREATE VIEW {s}run_seen AS
SELECT {of_run} FROM {s}hot UNION ALL SELECT {of_run} FROM {s}past_as_run
"""
DIFFERENT = """
SELECT (SELECT count(*) FROM (SELECT {of_run} FROM {s}run WHERE state = 'succeeded'
                              EXCEPT SELECT {of_run} FROM {s}past_as_run) AS lost),
       (SELECT count(*) FROM {s}past_run)
"""
LISTS = {
    "newest 50": "WHERE tenant = 'default' ORDER BY created_us DESC, id DESC LIMIT 50",
    "one by its id": "WHERE id = '{shown}'",
    "50 of a schedule": "WHERE tenant = 'default' AND schedule = 'daily-good' ORDER BY created_us DESC, id DESC LIMIT 50",
}


def main() -> int:
    """Make runs, put them into both forms, compare and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100_000, metavar="N")
    parser.add_argument("--store", choices=KINDS, action="append")
    args = parser.parse_args()
    sizes, times = [], []
    for kind in args.store or KINDS:
        with stores([kind]) as made, tempfile.TemporaryDirectory() as folder:
            _, url = next(made)
            place = Place(Path(folder, "many"), url, args.runs, MANY_SHARES)
            words = words_of(url)
            execute(url, *MAKE.format(**words).split(";\n"))
            ((lost, moved),) = execute(url, DIFFERENT.format(**words))
            assert not lost, f"{lost} of {moved} runs do not come back as they were"
            execute(url, "ANALYZE" if is_lite(url) else "VACUUM ANALYZE")
            found = {name: size / args.runs for name, size in size_of(url).items()}
            sizes.append(size_row(kind, place, found))
            times += [
                time_row(kind, url, name, which.format(shown=place.shown), words) for name, which in LISTS.items()
            ]
    report("bytes per ended run", sizes, target="at most 1,024")
    report(
        "milliseconds of a question to the table and to both parts",
        times,
        target="less than a millisecond more, however many there are",
    )
    print(f"load: {' '.join(f'{one:.1f}' for one in os.getloadavg())} on {os.cpu_count()} cores")
    return 0


def words_of(url: str) -> dict[str, str]:
    """Return what the statements say for this kind of store."""
    lite = is_lite(url)
    plain = {name: f"run.{name}" for name in SHARED} | TEXTS
    return {
        "s": "" if lite else "fencepost.",
        "c": "" if lite else 'COLLATE "C"',
        "bytes": "blob" if lite else "bytea",
        "without": "WITHOUT ROWID" if lite else "",
        "unhex": "unhex(run.idempotency_key)" if lite else "decode(run.idempotency_key, 'hex')",
        "hex": "lower(hex(past_run.key))" if lite else "encode(past_run.key, 'hex')",
        "shared": ", ".join(f"{text} AS {name}" for name, text in plain.items()),
        "groups": ", ".join(plain.values()),
        "same": " AND ".join(f"past_common.{name} IS NOT DISTINCT FROM {text}" for name, text in plain.items()),
        "of_common": ", ".join(f"{common(name, lite=lite)} AS {name}" for name in SHARED),
        "resources": common("resources", lite=lite),
        "log": common("log", lite=lite),
        "of_run": ", ".join(OF_RUN),
    }


def common(name: str, *, lite: bool) -> str:
    """Spell what a past run shares with others."""
    place = "past_common" if lite else "fencepost.past_common"
    return f"(SELECT {name} FROM {place} AS c WHERE c.tenant = past_run.tenant AND c.number = past_run.common)"


def size_row(kind: str, place: Place, found: dict[str, float]) -> dict[str, object]:
    """Tell what a run takes in plain rows, with the audit packed, and with narrow runs as well."""
    packs = sum(place.bytes.values())
    both = packs - place.bytes["run"] - place.bytes["attempt"] + found["past_run"] + found["past_common"]
    return {
        "store": kind,
        "plain": round(sum(place.plain_bytes.values())),
        "packed_audit": round(packs),
        "narrow_runs_too": round(both),
        "of_which": f"past_run {found['past_run']:.0f}, audit_pack {found['audit_pack']:.0f}, tick {found['tick']:.0f}",
    }


def time_row(kind: str, url: str, name: str, which: str, words: dict[str, str]) -> dict[str, object]:
    """Tell how long a question takes at the table of all runs, and at both parts of it."""
    questions = [f"SELECT {words['of_run']} FROM {words['s']}{place} {which}" for place in ("run", "run_seen")]
    took: list[list[float]] = [[], []]
    with asking(url) as ask:
        assert ask(questions[0]) == ask(questions[1]), f"{name}: both parts give another answer than the whole"
        for _ in range(ROUNDS):
            for number, one in enumerate(questions):
                began = perf_counter()
                ask(one)
                took[number].append(perf_counter() - began)
    whole, parts = (min(one) * 1000 for one in took)
    times = {"run_ms": round(whole, 3), "both_parts_ms": round(parts, 3), "ratio": round(parts / whole, 2)}
    return {"store": kind, "what": name, **times}


@contextmanager
def asking(url: str) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
    """Keep a connection, and ask questions over it."""
    if is_lite(url):
        connection = apsw.Connection(url.removeprefix("sqlite:"))
        yield lambda question: connection.execute(question).fetchall()
        connection.close()
    else:
        with psycopg.connect(url, autocommit=True) as server:
            yield lambda question: server.execute(question.encode()).fetchall()


if __name__ == "__main__":
    sys.exit(main())
