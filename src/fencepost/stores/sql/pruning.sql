-- :name count_lost_leases
SELECT count(*) FROM fencepost.lease WHERE tenant = :tenant AND state = 'lost' AND lost_us <= :horizon_us

-- :name prune_lost_leases
-- The machine or container that these were held on has not been heard of for as long as records are kept.
DELETE FROM fencepost.lease
 WHERE id IN (SELECT id FROM fencepost.lease WHERE tenant = :tenant AND state = 'lost' AND lost_us <= :horizon_us
               LIMIT :limit)
   AND state = 'lost'
RETURNING id

-- :name prune_run_page
-- The oldest runs, each with whether it may go: it has ended long ago, no person has to look at it or at an effect of it,
-- no budget counts it, and the run that it was made of is gone already. That is counted: to see that none exists, PostgreSQL
-- would read all runs.
SELECT id, created_us, schedule, state,
       state IN ('succeeded', 'dead', 'cancelled') AND ended_us <= :horizon_us
       AND (state <> 'dead' OR discarded_us <= :horizon_us)
       AND (counted_us <= :spending_us OR started_us IS NULL OR coalesce(cost_micro, reserved_micro) = 0)
       AND (SELECT count(*) FROM fencepost.run AS first WHERE first.id = run_seen.origin) = 0
       AND (SELECT count(*) FROM fencepost.past_run AS first WHERE first.id = run_seen.origin) = 0
       AND NOT EXISTS (SELECT 1 FROM fencepost.ledger
                        WHERE ledger.tenant = :tenant AND ledger.state = 'in_progress' AND ledger.run_id = run_seen.id)
  FROM fencepost.run_seen
 WHERE tenant = :tenant AND created_us <= :horizon_us AND (created_us, id) > (:after_us, :after)
 ORDER BY created_us, id
 LIMIT :limit

-- :name prune_manifests
-- Let go of definitions that no run rests on: none is left that was made before they were last used, or soon after. When
-- that was is noted once a day, and a run is made a moment after its note was read: twice as long is long enough.
DELETE FROM fencepost.manifest
 WHERE tenant = :tenant AND used_us < fencepost.clock_us() - 2 * :fresh_us::bigint
   AND NOT EXISTS (SELECT 1 FROM fencepost.run WHERE run.tenant = :tenant AND run.created_us <= manifest.used_us + 2 * :fresh_us::bigint)

-- :name prune_schedule_page
SELECT name, cursor_us, EXISTS (SELECT 1 FROM fencepost.tick
                                 WHERE tick.tenant = :tenant AND tick.schedule = schedule.name
                                   AND tick.tick_us <= :horizon_us)
  FROM fencepost.schedule
 WHERE tenant = :tenant AND name >= :after
 ORDER BY name
 LIMIT :limit

-- :name prune_tick_page
-- A tick goes after its run, and both after the time for which records are kept.
SELECT occurrence, tick_us, disposition, count,
       tick_until_us <= :until_us AND decided_us <= :horizon_us
       AND (SELECT count(*) FROM fencepost.run WHERE run.id = tick.run_id) = 0
       AND (SELECT count(*) FROM fencepost.past_run WHERE past_run.id = tick.run_id) = 0
  FROM fencepost.tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us <= :horizon_us
   AND (tick_us, occurrence) > (:after_us, :after)
 ORDER BY tick_us, occurrence
 LIMIT :limit

-- :name prune_pause_page
-- A pause goes when it is over and no tick of its time is undecided.
SELECT id
  FROM fencepost.pause
 WHERE tenant = :tenant AND until_us <= :horizon_us
   AND NOT EXISTS (SELECT 1 FROM fencepost.schedule
                    WHERE schedule.tenant = :tenant AND (schedule.name = pause.schedule OR pause.schedule = '')
                      AND schedule.due_us IS NOT NULL AND schedule.cursor_us < pause.until_us)
 ORDER BY id
 LIMIT :limit

-- :name watermark
SELECT pruned_us, tzdata, kept_for_us, at_us
  FROM fencepost.watermark
 WHERE tenant = :tenant AND schedule = :schedule

-- :name old_logs
SELECT tenant, run_id, fence
  FROM fencepost.old_log
 WHERE host = :host
 ORDER BY tenant, run_id, fence
 LIMIT :limit

-- :name prune_old_logs
-- The worker that had these has not been heard of for as long as records are kept.
DELETE FROM fencepost.old_log
 WHERE (host, tenant, run_id, fence) IN (SELECT host, tenant, run_id, fence FROM fencepost.old_log
                                          WHERE tenant = :tenant AND since_us <= :horizon_us LIMIT :limit)
RETURNING fence
