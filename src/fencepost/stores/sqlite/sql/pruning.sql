-- :name prune_runs
-- Looks again: one that was changed in the meantime stays.
DELETE FROM run
 WHERE id IN (SELECT value FROM json_each(:ids)) AND tenant = :tenant
   AND state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= :horizon_us
   AND (state <> 'dead' OR discarded_us <= :horizon_us)
RETURNING id, schedule, state, trigger, version, tick_us, started_us, ended_us, agent, cost_micro, requests, reason,
          created_us

-- :name past_to_prune
-- As `prune_runs` returns them; the narrow row has the attempt, too.
SELECT id, schedule, state, trigger, version, tick_us, started_us, ended_us, agent, cost_micro, requests, reason,
       created_us
  FROM past_plain
 WHERE id IN (SELECT value FROM json_each(:ids)) AND tenant = :tenant AND ended_us <= :horizon_us

-- :name past_attempts_to_prune
SELECT run_id, fence, worker, outcome, usage FROM past_attempt WHERE run_id IN (SELECT value FROM json_each(:ids))

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

-- :name prune_ticks
DELETE FROM tick
 WHERE tenant = :tenant AND schedule = :schedule AND occurrence IN (SELECT value FROM json_each(:occurrences))
RETURNING disposition, count, tick_until_us, tzdata, decided_us

-- :name prune_pauses
DELETE FROM pause WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids)) RETURNING id

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
         WHERE tenant = :tenant AND schedule = :schedule AND state IN ('ready', 'running') GROUP BY state
        UNION ALL
        SELECT 'run', 'succeeded', count(*), 0 FROM past_run
         WHERE tenant = :tenant AND schedule = :schedule HAVING count(*) > 0) AS each
 GROUP BY kind, name
 ORDER BY kind DESC, name

-- :name add_old_logs
INSERT INTO old_log (host, tenant, run_id, fence, since_us)
SELECT value ->> 0, :tenant, value ->> 1, value ->> 2, wall_us() FROM json_each(:logs) WHERE true
ON CONFLICT DO NOTHING

-- :name forget_old_logs
DELETE FROM old_log
 WHERE host = :host
   AND (tenant, run_id, fence) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:logs))
