-- Adoption: a run outlives the worker that keeps its lease, as long as its guard does.

ALTER TABLE fencepost.lease
    ADD COLUMN keeper        text COLLATE "C",          -- the worker that has custody; none for exec, sessions and lanes
    ADD COLUMN epoch         bigint NOT NULL DEFAULT 0, -- how often it was adopted: only its newest keeper extends or ends it
    ADD COLUMN left_us       bigint,                    -- when its keeper left it on purpose; empty while it is attended
    ADD COLUMN adopt_key     text,                      -- what a worker shows to the guard; a secret
    ADD COLUMN keeper_socket text;                      -- where the guard waits for a worker

-- What a renewal writes is not in it: it still rewrites the row in place (HOT).
CREATE INDEX lease_kept ON fencepost.lease (keeper) WHERE keeper IS NOT NULL;

-- A list of leases as their keeper has them, as rows. STRICT keeps the planner from looking inside.
CREATE FUNCTION fencepost.kept(leases text) RETURNS TABLE (id text, fence bigint, epoch bigint)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 10 AS
$$ SELECT value ->> 0, (value ->> 1)::bigint, (value ->> 2)::bigint FROM jsonb_array_elements(leases::jsonb) $$;

-- Resources that are let go of, likewise.
CREATE FUNCTION fencepost.freed(resources text)
RETURNS TABLE (tenant text, name text, id text, fence bigint, owed_gates text)
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 2 AS
$$ SELECT * FROM jsonb_to_recordset(resources::jsonb) AS one (
       tenant text, name text, id text, fence bigint, owed_gates text) $$;

-- What is written about runs comes in groups of those about which it is the same, `{"ids": [[...], ...], "given": [...]}`.
-- All ids, so that a run's own key is an index condition; and in which group each is.
CREATE FUNCTION fencepost.ids_of(ids jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT array_agg(id) FROM jsonb_array_elements(ids) AS one, jsonb_array_elements_text(one) AS id $$;

CREATE FUNCTION fencepost.group_of(ids jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS
$$ SELECT jsonb_object_agg(id, number - 1)
     FROM jsonb_array_elements(ids) WITH ORDINALITY AS one (members, number),
          jsonb_array_elements_text(one.members) AS id $$;

-- As lease_fact, which older programs read column by column, with its custody. The secret is not for looking at.
CREATE VIEW fencepost.lease_custody AS
SELECT id, tenant, resources, fence, run_id, holder, label,
       host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
       ttl_ms, renewals, granted_us, started_us,
       expires_us, (expires_us - fencepost.clock_us()) * 1000 AS remaining_ns,
       state = 'lost' AS lost,
       keeper, epoch, left_us, keeper_socket
  FROM fencepost.lease;
