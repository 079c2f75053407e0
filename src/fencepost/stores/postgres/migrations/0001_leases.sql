-- Leases, fences and the queue for them.
-- The server's clock decides, as microseconds since 1970. now() would be the start of the transaction, which may
-- have waited for a lock since: a lease could be born expired, and one that has ended could pass for valid.

CREATE FUNCTION fencepost.clock_us() RETURNS bigint LANGUAGE sql VOLATILE AS
$$ SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint $$;

-- A list of resources, as rows. STRICT keeps the planner from looking inside, where it would expect a hundred.
CREATE FUNCTION fencepost.keys(keys text) RETURNS TABLE (tenant text, name text)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 2 AS
$$ SELECT value ->> 0, value ->> 1 FROM jsonb_array_elements(keys::jsonb) $$;

-- The same as one text for each, so that an index can find an overlap.
CREATE FUNCTION fencepost.each_key(keys text) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT array_agg(value::text) FROM jsonb_array_elements(keys::jsonb) $$;

CREATE TABLE fencepost.meta (
    key   text PRIMARY KEY,
    value text NOT NULL
);

INSERT INTO fencepost.meta VALUES ('schema_needs', '1');

-- A resource's row is never deleted: its fence must outlive every lease on it.
-- Only the key is indexed, so that a grant and its end rewrite the row in place (HOT).
CREATE TABLE fencepost.resource (
    tenant     text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    fence      bigint NOT NULL DEFAULT 0,
    lease_id   text COLLATE "C",
    owed_gates text NOT NULL DEFAULT '[]',  -- gates raised since the last clean end
    PRIMARY KEY (tenant, name)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

-- One row per acquisition. A lost one stays until its processes are known to be gone.
-- What a renewal writes is not indexed, and pages have room for it (HOT).
CREATE TABLE fencepost.lease (
    id            text COLLATE "C" PRIMARY KEY,
    tenant        text COLLATE "C" NOT NULL,
    resources     text NOT NULL,
    fence         bigint NOT NULL,
    run_id        text NOT NULL,
    holder        text,
    label         text NOT NULL,
    host          text NOT NULL,
    machine       text NOT NULL,
    boot          text NOT NULL,
    pid_namespace text NOT NULL,
    pid           bigint NOT NULL,
    pid_started   text NOT NULL,
    guard_pid     bigint,
    guard_started text,
    cgroup        text,
    ttl_ms        bigint NOT NULL,
    renewals      bigint NOT NULL DEFAULT 0,
    granted_us    bigint NOT NULL,
    started_us    bigint,
    expires_us    bigint NOT NULL,
    state         text COLLATE "C" NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'lost')),
    lost_us       bigint,
    lost_why      text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX lost_lease ON fencepost.lease USING gin (fencepost.each_key(resources)) WHERE state = 'lost';

CREATE TABLE fencepost.waiter (
    seq           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id            text COLLATE "C" NOT NULL UNIQUE,
    tenant        text COLLATE "C" NOT NULL,
    resources     text NOT NULL,
    run_id        text NOT NULL,
    label         text NOT NULL,
    host          text NOT NULL,
    machine       text NOT NULL,
    boot          text NOT NULL,
    pid_namespace text NOT NULL,
    pid           bigint NOT NULL,
    pid_started   text NOT NULL,
    ttl_ms        bigint NOT NULL,
    since_us      bigint NOT NULL,
    stale_us      bigint NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
        autovacuum_vacuum_cost_delay = 0);

CREATE INDEX waiter_on ON fencepost.waiter USING gin (fencepost.each_key(resources));

CREATE VIEW fencepost.lease_fact AS
SELECT id, tenant, resources, fence, run_id, holder, label,
       host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
       ttl_ms, renewals, granted_us, started_us,
       expires_us, (expires_us - fencepost.clock_us()) * 1000 AS remaining_ns,
       state = 'lost' AS lost
  FROM fencepost.lease;

CREATE VIEW fencepost.waiter_fact AS
SELECT seq, id, tenant, resources, run_id, label,
       host, machine, boot, pid_namespace, pid, pid_started, since_us,
       stale_us <= fencepost.clock_us() AS stale
  FROM fencepost.waiter;
