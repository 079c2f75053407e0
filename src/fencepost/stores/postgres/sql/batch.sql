-- :name lane_lines
-- As `ready_lines`, of the runs that lanes carry out.
WITH RECURSIVE line (tenant, rank) AS (
    (SELECT tenant, rank FROM fencepost.lane_run WHERE state = 'ready' ORDER BY tenant, rank LIMIT 1)
    UNION ALL
    SELECT next.tenant, next.rank
      FROM line
     CROSS JOIN LATERAL (SELECT run.tenant, run.rank FROM fencepost.lane_run AS run
                          WHERE run.state = 'ready' AND (run.tenant, run.rank) > (line.tenant, line.rank)
                          ORDER BY run.tenant, run.rank LIMIT 1) AS next)
SELECT tenant, rank
  FROM (SELECT tenant, rank, (SELECT max(fence) FROM fencepost.run
                               WHERE run.tenant = line.tenant AND fence IS NOT NULL) AS served
          FROM line) AS each_line
 WHERE NOT EXISTS (SELECT 1 FROM fencepost.pause
                    WHERE pause.tenant = each_line.tenant AND schedule = ''
                      AND since_us <= fencepost.clock_us() AND until_us > fencepost.clock_us())
 ORDER BY served NULLS FIRST, tenant, rank

-- :name lane_heads
-- As `line_heads`, with the rows locked; whom somebody else is busy with is left to them. A run without a schedule
-- leases only itself, so there is nothing to look up for it.
SELECT * FROM fencepost.lane_run
 WHERE state = 'ready' AND tenant = %(tenant)s AND rank = %(rank)s
   AND place_us <= (SELECT fencepost.clock_us()) AND ready_us <= (SELECT fencepost.clock_us())
   AND id <> ALL (ARRAY(SELECT jsonb_array_elements_text(%(passed)s::jsonb)))
   AND (schedule IS NULL
        OR (NOT EXISTS (SELECT 1 FROM fencepost.keys(lane_run.resources) AS mine
                          JOIN fencepost.resource ON resource.tenant = mine.tenant AND resource.name = mine.name
                          JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                         WHERE lease_fact.remaining_ns > 0)
            AND lease_max > (SELECT count(*) FROM fencepost.run AS other
                               JOIN fencepost.lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                              WHERE other.tenant = lane_run.tenant AND other.schedule = lane_run.schedule
                                AND other.state = 'running' AND other.state IN ('ready', 'running')
                                AND lease_fact.remaining_ns > 0)))
 ORDER BY place_us, id
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED

-- :name try_resources
SELECT tenant, name, fence, owed_gates
  FROM fencepost.resource
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
 ORDER BY tenant, name
   FOR UPDATE SKIP LOCKED

-- :name grant_resources
INSERT INTO fencepost.resource (tenant, name, fence, lease_id, owed_gates)
SELECT tenant, name, %(fence)s, %(id)s, %(owed_gates)s
  FROM fencepost.keys(%(keys)s)
 ORDER BY tenant COLLATE "C", name COLLATE "C"
ON CONFLICT (tenant, name) DO UPDATE
   SET fence = excluded.fence, lease_id = excluded.lease_id, owed_gates = excluded.owed_gates
 WHERE resource.fence < excluded.fence
RETURNING name

-- :name take_runs
UPDATE fencepost.run
   SET state = 'running', reason = NULL, lease_id = %(lease_id)s, fence = %(fence)s, worker = %(worker)s,
       attempt = attempt + 1, stop = NULL,
       started_us = CASE WHEN %(started)s THEN coalesce(started_us, (SELECT fencepost.clock_us())) ELSE started_us END
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND state = 'ready'
RETURNING id, attempt

-- :name insert_attempts
INSERT INTO fencepost.attempt (run_id, number, fence, worker, started_us)
SELECT id, attempt, fence, worker, CASE WHEN %(started)s THEN (SELECT fencepost.clock_us()) END
  FROM fencepost.run
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name audit_leased
INSERT INTO fencepost.audit (tenant, at_us, actor, verb, subject, detail)
SELECT tenant, (SELECT fencepost.clock_us()), 'leaser', 'lease', 'run:' || id,
       json_build_object('fence', fence, 'attempt', attempt, 'worker', worker, 'manifest_hash', manifest_hash)::text
  FROM fencepost.run
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name checkpoints
SELECT run_id, content FROM fencepost.checkpoint
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name runs_of_lease
SELECT * FROM fencepost.run_fact WHERE lease_id = %(lease_id)s AND state = 'running' ORDER BY place_us, id

-- :name begun_of_lease
SELECT run_id FROM fencepost.attempt
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND fence = %(fence)s
   AND started_us IS NOT NULL

-- :name lock_runs
SELECT id, fence, state, stop
  FROM fencepost.run
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
 ORDER BY id
   FOR UPDATE

-- :name settle_runs
UPDATE fencepost.run
   SET state = %(state)s, reason = %(reason)s, ready_us = coalesce(%(ready_us)s::bigint, ready_us),
       place_us = CASE WHEN %(steps_back)s THEN coalesce(%(ready_us)s::bigint, place_us) ELSE place_us END,
       attempt = attempt - %(refund)s, resume = %(resume)s,
       started_us = CASE WHEN %(never_began)s THEN NULL ELSE started_us END,
       ended_us = CASE WHEN %(state)s <> 'ready' THEN (SELECT fencepost.clock_us()) END,
       exit_code = %(exit_code)s, cost_micro = coalesce(cost_micro + %(cost_micro)s::bigint, %(cost_micro)s::bigint, cost_micro),
       summary = coalesce(%(summary)s::text, summary), log = coalesce(%(log)s::text, log),
       lease_id = NULL, worker = NULL
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
   AND fence = %(fence)s AND state = 'running'
RETURNING id, ended_us

-- :name end_attempts
UPDATE fencepost.attempt
   SET ended_us = coalesce(ended_us, (SELECT fencepost.clock_us())), outcome = %(outcome)s, exit_code = %(exit_code)s,
       last_log = %(last_log)s, started_us = CASE WHEN %(began)s THEN started_us END
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND fence = %(fence)s

-- :name audit_settled
INSERT INTO fencepost.audit (tenant, at_us, actor, verb, subject, detail)
SELECT tenant, (SELECT fencepost.clock_us()), 'settler', 'settle', 'run:' || id,
       json_build_object('state', state, 'reason', reason, 'fence', fence, 'attempt', attempt + %(refund)s)::text
  FROM fencepost.run
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name stops_asked
SELECT id, stop FROM fencepost.run
 WHERE lease_id = %(lease_id)s AND fence = %(fence)s AND state = 'running' AND stop IS NOT NULL

-- :name lane_ready
-- The order makes it walk along the lane's own index, whatever else is ready.
SELECT count(*)
  FROM (SELECT 1 FROM fencepost.lane_run
         WHERE state = 'ready' AND ready_us <= (SELECT fencepost.clock_us())
         ORDER BY tenant, rank, place_us, id
         LIMIT %(limit)s) AS ready
