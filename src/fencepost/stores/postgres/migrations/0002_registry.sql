-- The registry: what shall run, when, in which version; what is held back; and who asked for it.
-- All times are microseconds since 1970.

CREATE TABLE fencepost.agent (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    hash       text COLLATE "C" NOT NULL,
    definition text NOT NULL,
    source     text COLLATE "C" NOT NULL,  -- the file that defines it; no other may, unless it takes over
    applied_us bigint NOT NULL,
    applied_by text NOT NULL,
    retired_us bigint,
    PRIMARY KEY (tenant, name)
);

CREATE INDEX agent_of_source ON fencepost.agent (tenant, source);

-- A schedule's row is never deleted: its cursor keeps what was evaluated from being evaluated again.
CREATE TABLE fencepost.schedule (
    tenant          text COLLATE "C" NOT NULL,
    name            text COLLATE "C" NOT NULL,
    version         bigint NOT NULL,
    hash            text COLLATE "C" NOT NULL,
    agent           text COLLATE "C" NOT NULL,
    definition      text NOT NULL,
    manifest        text NOT NULL,  -- the agent's definition in force for this version
    manifest_hash   text COLLATE "C" NOT NULL,
    source          text COLLATE "C" NOT NULL,
    trigger         text COLLATE "C" NOT NULL CHECK (trigger IN ('cron', 'every', 'at')),
    cursor_us       bigint NOT NULL,  -- everything up to and including this instant is evaluated
    due_us          bigint,           -- when the ticker must look next; NULL: never
    applied_us      bigint NOT NULL,
    skip_next       text,
    failures        bigint NOT NULL DEFAULT 0,
    last_success_us bigint,
    retired_us      bigint,
    once_done       boolean NOT NULL DEFAULT false,
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX schedule_due ON fencepost.schedule (due_us) WHERE due_us IS NOT NULL;
CREATE INDEX schedule_of_source ON fencepost.schedule (tenant, source);
CREATE INDEX schedule_of_agent ON fencepost.schedule (tenant, agent);

CREATE TABLE fencepost.schedule_version (
    tenant        text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    version       bigint NOT NULL,
    hash          text COLLATE "C" NOT NULL,
    definition    text NOT NULL,
    manifest      text NOT NULL,
    manifest_hash text COLLATE "C" NOT NULL,
    applied_us    bigint NOT NULL,
    applied_by    text NOT NULL,
    after_us      bigint NOT NULL,  -- evaluated up to here when it took over
    until_us      bigint,           -- evaluated up to here when it was replaced or retired
    PRIMARY KEY (tenant, name, version)
);

-- A pause that was resumed is kept with its end: ticks of its time may still be undecided.
CREATE TABLE fencepost.pause (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text COLLATE "C" NOT NULL,
    schedule text COLLATE "C" NOT NULL,  -- '': everything of the tenant
    since_us bigint NOT NULL,
    until_us bigint NOT NULL,
    note     text NOT NULL,
    by_whom  text NOT NULL
);

CREATE INDEX pause_of_schedule ON fencepost.pause (tenant, schedule, until_us);

CREATE TABLE fencepost.audit (
    seq     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    at_us   bigint NOT NULL,
    actor   text NOT NULL,
    verb    text NOT NULL,
    subject text NOT NULL,
    detail  text NOT NULL DEFAULT '{}'
);
