-- Leases, fences and the queue for them.
-- The store's clock is awake_ns() with boot_id(): all rivals are on this host and sleep together.
-- These functions are registered on each connection.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO meta VALUES ('schema_needs', '1');

-- A resource's row is never deleted: its fence must outlive every lease on it.
CREATE TABLE resource (
    tenant     TEXT NOT NULL,
    name       TEXT NOT NULL,
    fence      INTEGER NOT NULL DEFAULT 0,
    lease_id   TEXT,
    owed_gates TEXT NOT NULL DEFAULT '[]',  -- gates raised since the last clean end
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- One row per acquisition. A lost one stays until its processes are known to be gone.
CREATE TABLE lease (
    id            TEXT PRIMARY KEY,
    tenant        TEXT NOT NULL,
    resources     TEXT NOT NULL,
    fence         INTEGER NOT NULL,
    run_id        TEXT NOT NULL,
    holder        TEXT,
    label         TEXT NOT NULL,
    host          TEXT NOT NULL,
    machine       TEXT NOT NULL,
    boot          TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    pid_started   TEXT NOT NULL,
    guard_pid     INTEGER,
    guard_started TEXT,
    cgroup        TEXT,
    ttl_ms        INTEGER NOT NULL,
    renewals      INTEGER NOT NULL DEFAULT 0,
    granted_us    INTEGER NOT NULL,
    started_us    INTEGER,
    expires_boot  TEXT NOT NULL,
    expires_ns    INTEGER NOT NULL,
    state         TEXT NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'lost')),
    lost_us       INTEGER,
    lost_why      TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE waiter (
    seq           INTEGER PRIMARY KEY AUTOINCREMENT,
    id            TEXT NOT NULL UNIQUE,
    tenant        TEXT NOT NULL,
    resources     TEXT NOT NULL,
    run_id        TEXT NOT NULL,
    label         TEXT NOT NULL,
    host          TEXT NOT NULL,
    machine       TEXT NOT NULL,
    boot          TEXT NOT NULL,
    pid_namespace TEXT NOT NULL,
    pid           INTEGER NOT NULL,
    pid_started   TEXT NOT NULL,
    ttl_ms        INTEGER NOT NULL,
    since_us      INTEGER NOT NULL,
    stale_boot    TEXT NOT NULL,
    stale_ns      INTEGER NOT NULL
) STRICT;

-- A lease of an earlier boot has no time left: everything that ran then is gone.
CREATE VIEW lease_fact AS
SELECT id, tenant, resources, fence, run_id, holder, label,
       host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
       ttl_ms, renewals, granted_us, started_us,
       wall_us() + iif(expires_boot = boot_id(), expires_ns - awake_ns(), 0) / 1000 AS expires_us,
       iif(expires_boot = boot_id(), expires_ns - awake_ns(), 0) AS remaining_ns,
       state = 'lost' AS lost
  FROM lease;

CREATE VIEW waiter_fact AS
SELECT seq, id, tenant, resources, run_id, label,
       host, machine, boot, pid_namespace, pid, pid_started, since_us,
       stale_boot <> boot_id() OR stale_ns <= awake_ns() AS stale
  FROM waiter;
