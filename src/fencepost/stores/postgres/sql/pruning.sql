-- :name prune_runs
-- Looks again: one that was changed in the meantime stays.
DELETE FROM fencepost.run
 WHERE id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND tenant = %(tenant)s
   AND state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= %(horizon_us)s
   AND (state <> 'dead' OR discarded_us <= %(horizon_us)s)
RETURNING id, schedule, state, trigger, version, tick_us, started_us, ended_us, agent, cost_micro, requests, reason,
          created_us

-- :name past_to_prune
-- As `prune_runs` returns them; the narrow row has the attempt, too.
SELECT id, schedule, state, trigger, version, tick_us, started_us, ended_us, agent, cost_micro, requests, reason,
       created_us
  FROM fencepost.past_plain
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND tenant = %(tenant)s AND ended_us <= %(horizon_us)s
   FOR UPDATE

-- :name past_attempts_to_prune
SELECT run_id, fence, worker, outcome, usage FROM fencepost.past_attempt WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name prune_attempts
DELETE FROM fencepost.attempt WHERE run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb))
RETURNING run_id, fence, worker, outcome, usage

-- :name prune_checkpoints
DELETE FROM fencepost.checkpoint WHERE run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb))

-- :name prune_completions
DELETE FROM fencepost.completion WHERE run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb))

-- :name prune_deliveries
DELETE FROM fencepost.delivery WHERE run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb))

-- :name prune_gatherings
DELETE FROM fencepost.gathering WHERE run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb))

-- :name prune_effects
-- What was recorded for the attempts of one run; what was recorded for the whole tenant stays.
DELETE FROM fencepost.ledger
 WHERE tenant = %(tenant)s AND scope = ANY (SELECT 'run:' || jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'completed'

-- :name prune_resources
-- Only a run itself leases `run:` and its id, and this one is gone. A lease of it that was lost keeps the row until its
-- processes are known to be gone, and a gate that is owed its fence keeps it for good.
DELETE FROM fencepost.resource
 WHERE tenant = %(tenant)s AND name = ANY (SELECT 'run:' || jsonb_array_elements_text(%(ids)s::jsonb))
   AND owed_gates = '[]' AND NOT EXISTS (SELECT 1 FROM fencepost.lease WHERE lease.id = resource.lease_id)
   AND NOT EXISTS (SELECT 1 FROM fencepost.lease
                    WHERE lease.tenant = %(tenant)s AND 'run:' || lease.run_id = resource.name)
RETURNING fence

-- :name keep_first_starts
UPDATE fencepost.schedule_version
   SET started_us = least(started_us, (one.value ->> 2)::bigint)
  FROM jsonb_array_elements(%(starts)s::jsonb) AS one
 WHERE tenant = %(tenant)s AND name = one.value ->> 0 AND version = (one.value ->> 1)::bigint

-- :name raise_watermarks
INSERT INTO fencepost.watermark (tenant, schedule, pruned_us, tzdata, kept_for_us, at_us)
SELECT %(tenant)s, value ->> 0, (value ->> 1)::bigint, value ->> 2, %(kept_for_us)s, fencepost.clock_us()
  FROM jsonb_array_elements(%(marks)s::jsonb)
 ORDER BY 2
ON CONFLICT (tenant, schedule) DO UPDATE
   SET tzdata = CASE WHEN excluded.pruned_us >= watermark.pruned_us AND excluded.tzdata <> ''
                     THEN excluded.tzdata ELSE watermark.tzdata END,
       pruned_us = greatest(watermark.pruned_us, excluded.pruned_us),
       kept_for_us = excluded.kept_for_us, at_us = excluded.at_us

-- :name add_tallies
INSERT INTO fencepost.tally (tenant, schedule, kind, name, number)
SELECT %(tenant)s, value ->> 0, value ->> 1, value ->> 2, (value ->> 3)::bigint
  FROM jsonb_array_elements(%(counts)s::jsonb)
 ORDER BY 2, 3, 4
ON CONFLICT (tenant, schedule, kind, name) DO UPDATE SET number = tally.number + excluded.number

-- :name add_meters
INSERT INTO fencepost.meter (tenant, schedule, agent, name, number)
SELECT %(tenant)s, value ->> 0, value ->> 1, value ->> 2, (value ->> 3)::bigint
  FROM jsonb_array_elements(%(counts)s::jsonb)
 ORDER BY 2, 3, 4
ON CONFLICT (tenant, schedule, agent, name) DO UPDATE SET number = meter.number + excluded.number

-- :name prune_ticks
DELETE FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND occurrence = ANY (SELECT jsonb_array_elements_text(%(occurrences)s::jsonb))
RETURNING disposition, count, tick_until_us, tzdata, decided_us

-- :name prune_pauses
DELETE FROM fencepost.pause
 WHERE tenant = %(tenant)s AND id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb)::bigint)
RETURNING id

-- :name tallies
-- All there ever were: what is kept, and what was pruned.
SELECT kind, name, sum(number)::bigint, sum(pruned)::bigint
  FROM (SELECT kind, name, number, number AS pruned FROM fencepost.tally
         WHERE tenant = %(tenant)s AND schedule = %(schedule)s
        UNION ALL
        SELECT 'tick', disposition, sum(count), 0 FROM fencepost.tick
         WHERE tenant = %(tenant)s AND schedule = %(schedule)s GROUP BY disposition
        UNION ALL
        SELECT 'run', state, count(*), 0 FROM fencepost.run
         WHERE tenant = %(tenant)s AND schedule = %(schedule)s GROUP BY state
        UNION ALL
        SELECT 'run', 'succeeded', count(*), 0 FROM fencepost.past_run
         WHERE tenant = %(tenant)s AND schedule = %(schedule)s HAVING count(*) > 0) AS each
 GROUP BY kind, name
 ORDER BY kind DESC, name

-- :name add_old_logs
INSERT INTO fencepost.old_log (host, tenant, run_id, fence, since_us)
SELECT value ->> 0, %(tenant)s, value ->> 1, (value ->> 2)::bigint, fencepost.clock_us()
  FROM jsonb_array_elements(%(logs)s::jsonb)
ON CONFLICT DO NOTHING

-- :name forget_old_logs
DELETE FROM fencepost.old_log
 WHERE host = %(host)s
   AND (tenant, run_id, fence) IN (SELECT value ->> 0, value ->> 1, (value ->> 2)::bigint
                                     FROM jsonb_array_elements(%(logs)s::jsonb))
