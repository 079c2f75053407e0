-- What the runs of an agent share is kept once, by its hash. A run's row has an empty manifest then, and reading it through
-- the views finds the definition; an older program reads through them too, and goes on to write the definition itself.

CREATE TABLE fencepost.manifest (
    tenant     text COLLATE "C" NOT NULL,
    hash       text COLLATE "C" NOT NULL,
    definition text NOT NULL,
    used_us    bigint NOT NULL,  -- when a run was last made with it, give or take a day
    PRIMARY KEY (tenant, hash)
);

CREATE OR REPLACE VIEW fencepost.run_fact AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
       period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       CASE WHEN manifest <> '' THEN manifest
            ELSE (SELECT definition FROM fencepost.manifest WHERE manifest.tenant = run.tenant AND hash = manifest_hash)
        END AS manifest,
       manifest_hash, payload, resources, lease_max, lines_up, priority,
       state, reason, created_us, waiting_us, ready_us, attempt, resume, stop, lease_id, fence, worker,
       started_us, ended_us, exit_code, reserved_micro, counted_us, cost_micro, summary, log, discarded_us,
       give_up_us, rank, place_us, requests
  FROM fencepost.run;

CREATE OR REPLACE VIEW fencepost.lane_run AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
       period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       CASE WHEN manifest <> '' THEN manifest
            ELSE (SELECT definition FROM fencepost.manifest WHERE manifest.tenant = run.tenant AND hash = manifest_hash)
        END AS manifest,
       manifest_hash, payload, resources, lease_max, lines_up, priority,
       state, reason, created_us, waiting_us, ready_us, attempt, resume, stop, lease_id, fence, worker,
       started_us, ended_us, exit_code, reserved_micro, counted_us, cost_micro, summary, log, discarded_us,
       give_up_us, rank, place_us, requests
  FROM fencepost.run
 WHERE in_process;

-- As lane_run, for those who remember what definitions say: the manifest as the row has it.
CREATE VIEW fencepost.lane_row AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
       period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       manifest,
       manifest_hash, payload, resources, lease_max, lines_up, priority,
       state, reason, created_us, waiting_us, ready_us, attempt, resume, stop, lease_id, fence, worker,
       started_us, ended_us, exit_code, reserved_micro, counted_us, cost_micro, summary, log, discarded_us,
       give_up_us, rank, place_us, requests
  FROM fencepost.run
 WHERE in_process;
