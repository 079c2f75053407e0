-- Ticks and the runs that come of them: the durable queue.

-- One row per occurrence, or per range of neighbours that share what became of them.
CREATE TABLE tick (
    tenant        TEXT NOT NULL,
    schedule      TEXT NOT NULL,
    occurrence    TEXT NOT NULL,
    version       INTEGER NOT NULL,
    slot          TEXT NOT NULL,
    slot_until    TEXT NOT NULL,
    tick_us       INTEGER NOT NULL,
    tick_until_us INTEGER NOT NULL,
    count         INTEGER NOT NULL,
    disposition   TEXT NOT NULL,
    run_id        TEXT,
    into_us       INTEGER,
    tzdata        TEXT NOT NULL,
    decided_us    INTEGER NOT NULL,
    PRIMARY KEY (tenant, schedule, occurrence)
) STRICT, WITHOUT ROWID;

CREATE INDEX tick_by_time ON tick (tenant, schedule, tick_us);
-- Where a range ends, for whoever asks what covers an instant.
CREATE INDEX tick_ranges ON tick (tenant, schedule, tick_until_us) WHERE count > 1;

CREATE TABLE run (
    id               TEXT PRIMARY KEY,
    tenant           TEXT NOT NULL,
    agent            TEXT NOT NULL,
    schedule         TEXT,
    version          INTEGER,
    trigger          TEXT NOT NULL,
    occurrence       TEXT,
    tick_us          INTEGER,
    period_start_us  INTEGER,
    period_end_us    INTEGER,
    backfill_from_us INTEGER,
    last_success_us  INTEGER,
    idempotency_key  TEXT NOT NULL,
    request_key      TEXT,
    origin           TEXT,
    manifest         TEXT NOT NULL,
    manifest_hash    TEXT NOT NULL,
    payload          TEXT NOT NULL,
    resources        TEXT NOT NULL,
    lease_max        INTEGER NOT NULL,
    lines_up         INTEGER NOT NULL,
    priority         INTEGER NOT NULL,
    rank             INTEGER NOT NULL,  -- minus the priority, so that one index has both in order
    state            TEXT NOT NULL CHECK (state IN ('ready', 'running', 'succeeded', 'dead', 'cancelled')),
    reason           TEXT,
    created_us       INTEGER NOT NULL,
    waiting_us       INTEGER NOT NULL,
    ready_us         INTEGER NOT NULL,
    give_up_us       INTEGER,  -- when it has waited too long for its first start
    place_us         INTEGER NOT NULL,  -- the place in line: from when on it was ready; kept when it comes back unharmed
    requests         INTEGER NOT NULL DEFAULT 1,  -- how often it was asked for with its key
    attempt          INTEGER NOT NULL DEFAULT 0,
    resume           INTEGER NOT NULL DEFAULT 0,
    stop             TEXT,
    lease_id         TEXT,
    fence            INTEGER,
    worker           TEXT,
    started_us       INTEGER,
    ended_us         INTEGER,
    exit_code        INTEGER,
    reserved_micro   INTEGER NOT NULL DEFAULT 0,
    counted_us       INTEGER NOT NULL,
    cost_micro       INTEGER,
    summary          TEXT,
    log              TEXT,
    discarded_us     INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX run_ready ON run (tenant, rank, place_us, id) WHERE state = 'ready';
CREATE INDEX run_soonest ON run (ready_us) WHERE state = 'ready';
CREATE INDEX run_overdue ON run (give_up_us) WHERE state = 'ready' AND give_up_us IS NOT NULL;
CREATE INDEX run_live ON run (tenant, schedule, agent) WHERE state IN ('ready', 'running');
CREATE INDEX run_running ON run (lease_id) WHERE state = 'running';
CREATE INDEX run_by_age ON run (tenant, created_us, id);
CREATE INDEX run_counted ON run (tenant, schedule, counted_us) WHERE schedule IS NOT NULL;
CREATE INDEX run_by_tick ON run (tenant, schedule, tick_us) WHERE schedule IS NOT NULL;
CREATE INDEX run_by_origin ON run (origin) WHERE origin IS NOT NULL;
-- The newest fence of a tenant tells when it was served last.
CREATE INDEX run_served ON run (tenant, fence) WHERE fence IS NOT NULL;
-- A tick makes one run, whoever tries, and a key one request.
CREATE UNIQUE INDEX run_of_tick ON run (tenant, schedule, occurrence) WHERE trigger IN ('cron', 'every', 'at');
CREATE UNIQUE INDEX run_of_request ON run (tenant, coalesce(schedule, agent), request_key) WHERE request_key IS NOT NULL;

-- One row per try at a run; what the last one printed is kept for whoever has to look into it.
CREATE TABLE attempt (
    run_id     TEXT NOT NULL,
    number     INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    worker     TEXT NOT NULL,
    started_us INTEGER,
    ended_us   INTEGER,
    outcome    TEXT,
    exit_code  INTEGER,
    last_log   TEXT,
    PRIMARY KEY (run_id, fence)
) STRICT, WITHOUT ROWID;

CREATE TABLE checkpoint (
    run_id  TEXT PRIMARY KEY,
    fence   INTEGER NOT NULL,
    content TEXT NOT NULL,
    at_us   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE schedule ADD COLUMN last_run TEXT;         -- the newest tick-born run, which `every` counts from
ALTER TABLE schedule ADD COLUMN last_ended_us INTEGER; -- when it ended; empty while it has not
ALTER TABLE schedule ADD COLUMN seen TEXT;              -- what the wall showed at the cursor, by which tzdata

CREATE VIEW run_fact AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
       period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       manifest, manifest_hash, payload, resources, lease_max, lines_up, priority,
       state, reason, created_us, waiting_us, ready_us, attempt, resume, stop, lease_id, fence, worker,
       started_us, ended_us, exit_code, reserved_micro, counted_us, cost_micro, summary, log, discarded_us,
       give_up_us, rank, place_us, requests
  FROM run;
