-- :name count_lost_leases
SELECT count(*) FROM fencepost.lease WHERE tenant = %(tenant)s AND state = 'lost' AND lost_us <= %(horizon_us)s

-- :name prune_lost_leases
-- The machine or container that these were held on has not been heard of for as long as records are kept.
DELETE FROM fencepost.lease
 WHERE id IN (SELECT id FROM fencepost.lease WHERE tenant = %(tenant)s AND state = 'lost' AND lost_us <= %(horizon_us)s
               LIMIT %(limit)s)
   AND state = 'lost'
RETURNING id

-- :name prune_run_page
-- The oldest runs, each with whether it may go: it has ended long ago, no person has to look at it or at an effect of it,
-- no budget counts it, and the run that it was made of is gone already.
SELECT id, created_us, schedule, state,
       state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= %(horizon_us)s
       AND (state <> 'dead' OR discarded_us <= %(horizon_us)s)
       AND (counted_us <= %(spending_us)s OR started_us IS NULL OR coalesce(cost_micro, reserved_micro) = 0)
       AND NOT EXISTS (SELECT 1 FROM fencepost.run AS first WHERE first.id = run.origin)
       AND NOT EXISTS (SELECT 1 FROM fencepost.ledger
                        WHERE ledger.tenant = %(tenant)s AND ledger.state = 'in_progress' AND ledger.run_id = run.id)
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us <= %(horizon_us)s AND (created_us, id) > (%(after_us)s, %(after)s)
 ORDER BY created_us, id
 LIMIT %(limit)s

-- :name prune_runs
-- Looks again: whoever changed one of these in the meantime has kept it.
DELETE FROM fencepost.run
 WHERE id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND tenant = %(tenant)s
   AND state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= %(horizon_us)s
   AND (state <> 'dead' OR discarded_us <= %(horizon_us)s)
RETURNING id, schedule, state, trigger, version, tick_us, started_us, ended_us, agent, cost_micro, requests, reason,
          created_us

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

-- :name prune_schedule_page
SELECT name, cursor_us, EXISTS (SELECT 1 FROM fencepost.tick
                                 WHERE tick.tenant = %(tenant)s AND tick.schedule = schedule.name
                                   AND tick.tick_us <= %(horizon_us)s)
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name >= %(after)s
 ORDER BY name
 LIMIT %(limit)s

-- :name prune_tick_page
-- A tick goes after its run, and both after the time for which records are kept.
SELECT occurrence, tick_us, disposition, count,
       tick_until_us <= %(until_us)s AND decided_us <= %(horizon_us)s
       AND NOT EXISTS (SELECT 1 FROM fencepost.run WHERE run.id = tick.run_id)
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND tick_us <= %(horizon_us)s
   AND (tick_us, occurrence) > (%(after_us)s, %(after)s)
 ORDER BY tick_us, occurrence
 LIMIT %(limit)s

-- :name prune_ticks
DELETE FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND occurrence = ANY (SELECT jsonb_array_elements_text(%(occurrences)s::jsonb))
RETURNING disposition, count, tick_until_us, tzdata, decided_us

-- :name prune_pause_page
-- A pause goes when it is over and no tick of its time is undecided.
SELECT id
  FROM fencepost.pause
 WHERE tenant = %(tenant)s AND until_us <= %(horizon_us)s
   AND NOT EXISTS (SELECT 1 FROM fencepost.schedule
                    WHERE schedule.tenant = %(tenant)s AND (schedule.name = pause.schedule OR pause.schedule = '')
                      AND schedule.due_us IS NOT NULL AND schedule.cursor_us < pause.until_us)
 ORDER BY id
 LIMIT %(limit)s

-- :name prune_pauses
DELETE FROM fencepost.pause
 WHERE tenant = %(tenant)s AND id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb)::bigint)
RETURNING id

-- :name watermark
SELECT pruned_us, tzdata, kept_for_us, at_us
  FROM fencepost.watermark
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s

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
         WHERE tenant = %(tenant)s AND schedule = %(schedule)s GROUP BY state) AS each
 GROUP BY kind, name
 ORDER BY kind DESC, name

-- :name add_old_logs
INSERT INTO fencepost.old_log (host, tenant, run_id, fence, since_us)
SELECT value ->> 0, %(tenant)s, value ->> 1, (value ->> 2)::bigint, fencepost.clock_us()
  FROM jsonb_array_elements(%(logs)s::jsonb)
ON CONFLICT DO NOTHING

-- :name old_logs
SELECT tenant, run_id, fence
  FROM fencepost.old_log
 WHERE host = %(host)s
 ORDER BY tenant, run_id, fence
 LIMIT %(limit)s

-- :name forget_old_logs
DELETE FROM fencepost.old_log
 WHERE host = %(host)s
   AND (tenant, run_id, fence) IN (SELECT value ->> 0, value ->> 1, (value ->> 2)::bigint
                                     FROM jsonb_array_elements(%(logs)s::jsonb))

-- :name prune_old_logs
-- The worker that had these has not been heard of for as long as records are kept.
DELETE FROM fencepost.old_log
 WHERE (host, tenant, run_id, fence) IN (SELECT host, tenant, run_id, fence FROM fencepost.old_log
                                          WHERE tenant = %(tenant)s AND since_us <= %(horizon_us)s LIMIT %(limit)s)
RETURNING fence
