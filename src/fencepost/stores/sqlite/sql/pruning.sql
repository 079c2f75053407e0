-- :name count_lost_leases
SELECT count(*) FROM lease WHERE tenant = :tenant AND state = 'lost' AND lost_us <= :horizon_us

-- :name prune_lost_leases
-- The machine or container that these were held on has not been heard of for as long as records are kept.
DELETE FROM lease
 WHERE id IN (SELECT id FROM lease WHERE tenant = :tenant AND state = 'lost' AND lost_us <= :horizon_us
               LIMIT :limit)
   AND state = 'lost'
RETURNING id

-- :name prune_run_page
-- The oldest runs, each with whether it may go: it has ended long ago, no person has to look at it or at an effect of it,
-- no budget counts it, and the run that it was made of is gone already.
SELECT id, created_us, schedule, state,
       state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= :horizon_us
       AND (state <> 'dead' OR discarded_us <= :horizon_us)
       AND (counted_us <= :spending_us OR started_us IS NULL OR coalesce(cost_micro, reserved_micro) = 0)
       AND NOT EXISTS (SELECT 1 FROM run AS first WHERE first.id = run.origin)
       AND NOT EXISTS (SELECT 1 FROM ledger
                        WHERE ledger.tenant = :tenant AND ledger.state = 'in_progress' AND ledger.run_id = run.id)
  FROM run
 WHERE tenant = :tenant AND created_us <= :horizon_us AND (created_us, id) > (:after_us, :after)
 ORDER BY created_us, id
 LIMIT :limit

-- :name prune_runs
-- Looks again: whoever changed one of these in the meantime has kept it.
DELETE FROM run
 WHERE id IN (SELECT value FROM json_each(:ids)) AND tenant = :tenant
   AND state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= :horizon_us
   AND (state <> 'dead' OR discarded_us <= :horizon_us)
RETURNING id, schedule, state, trigger, version, tick_us, started_us, ended_us, agent, cost_micro, requests, reason,
          created_us

-- :name prune_manifests
-- Let go of definitions that no run rests on: none is left that was made before they were last used, or soon after. When
-- that was is noted once a day, and a run is made a moment after its note was read: twice as long is long enough.
DELETE FROM manifest
 WHERE tenant = :tenant AND used_us < wall_us() - 2 * :fresh_us
   AND NOT EXISTS (SELECT 1 FROM run WHERE run.tenant = :tenant AND run.created_us <= manifest.used_us + 2 * :fresh_us)

-- :name prune_attempts
DELETE FROM attempt WHERE run_id IN (SELECT value FROM json_each(:ids)) RETURNING run_id, fence, worker, outcome, usage

-- :name prune_checkpoints
DELETE FROM checkpoint WHERE run_id IN (SELECT value FROM json_each(:ids))

-- :name prune_completions
DELETE FROM completion WHERE run_id IN (SELECT value FROM json_each(:ids))

-- :name prune_deliveries
DELETE FROM delivery WHERE run_id IN (SELECT value FROM json_each(:ids))

-- :name prune_gatherings
DELETE FROM gathering WHERE run_id IN (SELECT value FROM json_each(:ids))

-- :name prune_effects
-- What was recorded for the attempts of one run; what was recorded for the whole tenant stays.
DELETE FROM ledger
 WHERE tenant = :tenant AND scope IN (SELECT 'run:' || value FROM json_each(:ids)) AND state = 'completed'

-- :name prune_resources
-- Only a run itself leases `run:` and its id, and this one is gone. A lease of it that was lost keeps the row until its
-- processes are known to be gone, and a gate that is owed its fence keeps it for good.
DELETE FROM resource
 WHERE tenant = :tenant AND name IN (SELECT 'run:' || value FROM json_each(:ids))
   AND owed_gates = '[]' AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.id = resource.lease_id)
   AND NOT EXISTS (SELECT 1 FROM lease WHERE lease.tenant = :tenant AND 'run:' || lease.run_id = resource.name)
RETURNING fence

-- :name keep_first_starts
UPDATE schedule_version
   SET started_us = min(coalesce(started_us, one.value ->> 2), one.value ->> 2)
  FROM json_each(:starts) AS one
 WHERE tenant = :tenant AND name = one.value ->> 0 AND version = one.value ->> 1

-- :name raise_watermarks
INSERT INTO watermark (tenant, schedule, pruned_us, tzdata, kept_for_us, at_us)
SELECT :tenant, value ->> 0, value ->> 1, value ->> 2, :kept_for_us, wall_us() FROM json_each(:marks) WHERE true
ON CONFLICT (tenant, schedule) DO UPDATE
   SET tzdata = iif(excluded.pruned_us >= pruned_us AND excluded.tzdata <> '', excluded.tzdata, tzdata),
       pruned_us = max(pruned_us, excluded.pruned_us), kept_for_us = excluded.kept_for_us, at_us = excluded.at_us

-- :name add_tallies
INSERT INTO tally (tenant, schedule, kind, name, number)
SELECT :tenant, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:counts) WHERE true
ON CONFLICT (tenant, schedule, kind, name) DO UPDATE SET number = number + excluded.number

-- :name add_meters
INSERT INTO meter (tenant, schedule, agent, name, number)
SELECT :tenant, value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:counts) WHERE true
ON CONFLICT (tenant, schedule, agent, name) DO UPDATE SET number = number + excluded.number

-- :name prune_schedule_page
SELECT name, cursor_us, EXISTS (SELECT 1 FROM tick
                                 WHERE tick.tenant = :tenant AND tick.schedule = schedule.name
                                   AND tick.tick_us <= :horizon_us)
  FROM schedule
 WHERE tenant = :tenant AND name >= :after
 ORDER BY name
 LIMIT :limit

-- :name prune_tick_page
-- A tick goes after its run, and both after the time for which records are kept.
SELECT occurrence, tick_us, disposition, count,
       tick_until_us <= :until_us AND decided_us <= :horizon_us
       AND NOT EXISTS (SELECT 1 FROM run WHERE run.id = tick.run_id)
  FROM tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us <= :horizon_us
   AND (tick_us, occurrence) > (:after_us, :after)
 ORDER BY tick_us, occurrence
 LIMIT :limit

-- :name prune_ticks
DELETE FROM tick
 WHERE tenant = :tenant AND schedule = :schedule AND occurrence IN (SELECT value FROM json_each(:occurrences))
RETURNING disposition, count, tick_until_us, tzdata, decided_us

-- :name prune_pause_page
-- A pause goes when it is over and no tick of its time is undecided.
SELECT id
  FROM pause
 WHERE tenant = :tenant AND until_us <= :horizon_us
   AND NOT EXISTS (SELECT 1 FROM schedule
                    WHERE schedule.tenant = :tenant AND (schedule.name = pause.schedule OR pause.schedule = '')
                      AND schedule.due_us IS NOT NULL AND schedule.cursor_us < pause.until_us)
 ORDER BY id
 LIMIT :limit

-- :name prune_pauses
DELETE FROM pause WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids)) RETURNING id

-- :name watermark
SELECT pruned_us, tzdata, kept_for_us, at_us FROM watermark WHERE tenant = :tenant AND schedule = :schedule

-- :name tallies
-- All there ever were: what is kept, and what was pruned.
SELECT kind, name, sum(number), sum(pruned)
  FROM (SELECT kind, name, number, number AS pruned FROM tally
         WHERE tenant = :tenant AND schedule = :schedule
        UNION ALL
        SELECT 'tick', disposition, sum(count), 0 FROM tick
         WHERE tenant = :tenant AND schedule = :schedule GROUP BY disposition
        UNION ALL
        SELECT 'run', state, count(*), 0 FROM run
         WHERE tenant = :tenant AND schedule = :schedule AND state IN ('succeeded', 'dead', 'cancelled') GROUP BY state
        UNION ALL
        SELECT 'run', state, count(*), 0 FROM run
         WHERE tenant = :tenant AND schedule = :schedule AND state IN ('ready', 'running') GROUP BY state) AS each
 GROUP BY kind, name
 ORDER BY kind DESC, name

-- :name add_old_logs
INSERT INTO old_log (host, tenant, run_id, fence, since_us)
SELECT value ->> 0, :tenant, value ->> 1, value ->> 2, wall_us() FROM json_each(:logs) WHERE true
ON CONFLICT DO NOTHING

-- :name old_logs
SELECT tenant, run_id, fence FROM old_log WHERE host = :host ORDER BY tenant, run_id, fence LIMIT :limit

-- :name forget_old_logs
DELETE FROM old_log
 WHERE host = :host
   AND (tenant, run_id, fence) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:logs))

-- :name prune_old_logs
-- The worker that had these has not been heard of for as long as records are kept.
DELETE FROM old_log
 WHERE (host, tenant, run_id, fence) IN (SELECT host, tenant, run_id, fence FROM old_log
                                          WHERE tenant = :tenant AND since_us <= :horizon_us LIMIT :limit)
RETURNING fence
