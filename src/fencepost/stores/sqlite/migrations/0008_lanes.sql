-- Runs that a worker may carry out in a process that it keeps, many one after the other: a lane.

ALTER TABLE run ADD COLUMN in_process INTEGER NOT NULL DEFAULT 0;

-- Two lines beside each other, so that neither hides the other, however long one of them is.
CREATE INDEX run_apart ON run (tenant, rank, place_us, id) WHERE state = 'ready' AND NOT in_process;
CREATE INDEX run_lane ON run (tenant, rank, place_us, id) WHERE state = 'ready' AND in_process;

CREATE VIEW lane_run AS
SELECT id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
       period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
       manifest, manifest_hash, payload, resources, lease_max, lines_up, priority,
       state, reason, created_us, waiting_us, ready_us, attempt, resume, stop, lease_id, fence, worker,
       started_us, ended_us, exit_code, reserved_micro, counted_us, cost_micro, summary, log, discarded_us,
       give_up_us, rank, place_us, requests
  FROM run
 WHERE in_process;
