-- The registry: what shall run, when, in which version; what is held back; and who asked for it.
-- All times are microseconds since 1970.

CREATE TABLE agent (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    definition TEXT NOT NULL,
    source     TEXT NOT NULL,  -- the file that defines it; no other may, unless it takes over
    applied_us INTEGER NOT NULL,
    applied_by TEXT NOT NULL,
    retired_us INTEGER,
    PRIMARY KEY (tenant, name)
) STRICT;

CREATE INDEX agent_of_source ON agent (tenant, source);

-- A schedule's row is never deleted: its cursor keeps what was evaluated from being evaluated again.
CREATE TABLE schedule (
    tenant          TEXT NOT NULL,
    name            TEXT NOT NULL,
    version         INTEGER NOT NULL,
    hash            TEXT NOT NULL,
    agent           TEXT NOT NULL,
    definition      TEXT NOT NULL,
    manifest        TEXT NOT NULL,  -- the agent's definition in force for this version
    manifest_hash   TEXT NOT NULL,
    source          TEXT NOT NULL,
    trigger         TEXT NOT NULL CHECK (trigger IN ('cron', 'every', 'at')),
    cursor_us       INTEGER NOT NULL,  -- everything up to and including this instant is evaluated
    due_us          INTEGER,           -- when the ticker must look next; NULL: never
    applied_us      INTEGER NOT NULL,
    skip_next       TEXT,
    failures        INTEGER NOT NULL DEFAULT 0,
    last_success_us INTEGER,
    retired_us      INTEGER,
    once_done       INTEGER NOT NULL DEFAULT 0 CHECK (once_done IN (0, 1)),
    PRIMARY KEY (tenant, name)
) STRICT;

CREATE INDEX schedule_due ON schedule (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX schedule_of_source ON schedule (tenant, source);
CREATE INDEX schedule_of_agent ON schedule (tenant, agent);

CREATE TABLE schedule_version (
    tenant        TEXT NOT NULL,
    name          TEXT NOT NULL,
    version       INTEGER NOT NULL,
    hash          TEXT NOT NULL,
    definition    TEXT NOT NULL,
    manifest      TEXT NOT NULL,
    manifest_hash TEXT NOT NULL,
    applied_us    INTEGER NOT NULL,
    applied_by    TEXT NOT NULL,
    after_us      INTEGER NOT NULL,  -- evaluated up to here when it took over
    until_us      INTEGER,           -- evaluated up to here when it was replaced or retired
    PRIMARY KEY (tenant, name, version)
) STRICT;

-- A pause that was resumed is kept with its end: ticks of its time may still be undecided.
CREATE TABLE pause (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant   TEXT NOT NULL,
    schedule TEXT NOT NULL,  -- '': everything of the tenant
    since_us INTEGER NOT NULL,
    until_us INTEGER NOT NULL,
    note     TEXT NOT NULL,
    by_whom  TEXT NOT NULL
) STRICT;

CREATE INDEX pause_of_schedule ON pause (tenant, schedule, until_us);

CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant  TEXT NOT NULL,
    at_us   INTEGER NOT NULL,
    actor   TEXT NOT NULL,
    verb    TEXT NOT NULL,
    subject TEXT NOT NULL,
    detail  TEXT NOT NULL DEFAULT '{}'
) STRICT;
