-- Ticks and the runs that come of them: the durable queue.

-- One row per occurrence, or per range of neighbours that share what became of them.
CREATE TABLE fencepost.tick (
    tenant           text COLLATE "C" NOT NULL,
    schedule         text COLLATE "C" NOT NULL,
    occurrence       text COLLATE "C" NOT NULL,
    version          bigint NOT NULL,
    slot             text NOT NULL,
    slot_until       text NOT NULL,
    tick_us          bigint NOT NULL,
    tick_until_us    bigint NOT NULL,
    count            bigint NOT NULL,
    disposition      text COLLATE "C" NOT NULL,
    run_id           text COLLATE "C",
    into_us          bigint,
    tzdata           text NOT NULL,
    decided_us       bigint NOT NULL,
    PRIMARY KEY (tenant, schedule, occurrence)
);

CREATE INDEX tick_by_time ON fencepost.tick (tenant, schedule, tick_us);
-- Where a range ends, for whoever asks what covers an instant.
CREATE INDEX tick_ranges ON fencepost.tick (tenant, schedule, tick_until_us) WHERE count > 1;

CREATE TABLE fencepost.run (
    id               text COLLATE "C" PRIMARY KEY,
    tenant           text COLLATE "C" NOT NULL,
    agent            text COLLATE "C" NOT NULL,
    schedule         text COLLATE "C",
    version          bigint,
    trigger          text COLLATE "C" NOT NULL,
    occurrence       text COLLATE "C",
    tick_us          bigint,
    period_start_us  bigint,
    period_end_us    bigint,
    backfill_from_us bigint,
    last_success_us  bigint,
    idempotency_key  text NOT NULL,
    request_key      text COLLATE "C",
    origin           text,
    manifest         text NOT NULL,
    manifest_hash    text NOT NULL,
    payload          text NOT NULL,
    resources        text NOT NULL,
    lease_max        bigint NOT NULL,
    lines_up         boolean NOT NULL,
    priority         bigint NOT NULL,
    rank             bigint NOT NULL,  -- minus the priority, so that one index has both in order
    state            text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'running', 'succeeded', 'dead', 'cancelled')),
    reason           text,
    created_us       bigint NOT NULL,
    waiting_us       bigint NOT NULL,
    ready_us         bigint NOT NULL,
    give_up_us       bigint,  -- when it has waited too long for its first start
    place_us         bigint NOT NULL,  -- the place in line: from when on it was ready; kept when it comes back unharmed
    requests         bigint NOT NULL DEFAULT 1,  -- how often it was asked for with its key
    attempt          bigint NOT NULL DEFAULT 0,
    resume           boolean NOT NULL DEFAULT false,
    stop             text,
    lease_id         text COLLATE "C",
    fence            bigint,
    worker           text,
    started_us       bigint,
    ended_us         bigint,
    exit_code        bigint,
    reserved_micro   bigint NOT NULL DEFAULT 0,
    counted_us       bigint NOT NULL,
    cost_micro       bigint,
    summary          text,
    log              text,
    discarded_us     bigint
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX run_ready ON fencepost.run (tenant, rank, place_us, id) WHERE state = 'ready';
CREATE INDEX run_soonest ON fencepost.run (ready_us) WHERE state = 'ready';
CREATE INDEX run_overdue ON fencepost.run (give_up_us) WHERE state = 'ready' AND give_up_us IS NOT NULL;
CREATE INDEX run_live ON fencepost.run (tenant, schedule, agent) WHERE state IN ('ready', 'running');
CREATE INDEX run_running ON fencepost.run (lease_id) WHERE state = 'running';
CREATE INDEX run_by_age ON fencepost.run (tenant, created_us, id);
CREATE INDEX run_counted ON fencepost.run (tenant, schedule, counted_us) WHERE schedule IS NOT NULL;
CREATE INDEX run_by_tick ON fencepost.run (tenant, schedule, tick_us) WHERE schedule IS NOT NULL;
CREATE INDEX run_by_origin ON fencepost.run (origin) WHERE origin IS NOT NULL;
-- The newest fence of a tenant tells when it was served last.
CREATE INDEX run_served ON fencepost.run (tenant, fence) WHERE fence IS NOT NULL;
-- A tick makes one run, whoever tries, and a key one request.
CREATE UNIQUE INDEX run_of_tick ON fencepost.run (tenant, schedule, occurrence) WHERE trigger IN ('cron', 'every', 'at');
CREATE UNIQUE INDEX run_of_request ON fencepost.run (tenant, coalesce(schedule, agent), request_key) WHERE request_key IS NOT NULL;

-- One row per try at a run; what the last one printed is kept for whoever has to look into it.
CREATE TABLE fencepost.attempt (
    run_id           text COLLATE "C" NOT NULL,
    number           bigint NOT NULL,
    fence            bigint NOT NULL,
    worker           text NOT NULL,
    started_us       bigint,
    ended_us         bigint,
    outcome          text,
    exit_code        bigint,
    last_log         text,
    PRIMARY KEY (run_id, fence)
) WITH (fillfactor = 80);

CREATE TABLE fencepost.checkpoint (
    run_id           text COLLATE "C" PRIMARY KEY,
    fence            bigint NOT NULL,
    content          text NOT NULL,
    at_us            bigint NOT NULL
) WITH (fillfactor = 60);

ALTER TABLE fencepost.schedule ADD COLUMN last_run text;        -- the newest tick-born run, which `every` counts from
ALTER TABLE fencepost.schedule ADD COLUMN last_ended_us bigint; -- when it ended; empty while it has not
ALTER TABLE fencepost.schedule ADD COLUMN seen text;            -- what the wall showed at the cursor, by which tzdata

CREATE VIEW fencepost.run_fact AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
       period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       manifest, manifest_hash, payload, resources, lease_max, lines_up, priority,
       state, reason, created_us, waiting_us, ready_us, attempt, resume, stop, lease_id, fence, worker,
       started_us, ended_us, exit_code, reserved_micro, counted_us, cost_micro, summary, log, discarded_us,
       give_up_us, rank, place_us, requests
  FROM fencepost.run;
