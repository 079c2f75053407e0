-- :name history_names
SELECT name FROM fencepost.schedule WHERE tenant = :tenant
UNION
SELECT name FROM fencepost.schedule_version WHERE tenant = :tenant
 ORDER BY name

-- :name history_schedule
SELECT cursor_us, due_us, once_done, retired_us IS NOT NULL, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = :tenant AND name = :schedule

-- :name history_ticks
SELECT occurrence, slot, slot_until, tick_us, tick_until_us, count, disposition, tzdata
  FROM fencepost.tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us < :until_us AND tick_until_us >= :from_us
   AND (tick_us, occurrence) > (:after_us, :after)
 ORDER BY tick_us, occurrence
 LIMIT :limit

-- :name runless_ticks
SELECT tick.occurrence, tick.tick_us
  FROM fencepost.tick
 WHERE tick.tenant = :tenant AND tick.schedule = :schedule
   AND tick.tick_us >= :from_us AND tick.tick_us < :until_us AND tick.disposition = 'run'
   AND NOT EXISTS (SELECT 1 FROM fencepost.run WHERE run.id = tick.run_id)
   AND NOT EXISTS (SELECT 1 FROM fencepost.past_run WHERE past_run.id = tick.run_id)
 ORDER BY tick.tick_us

-- :name tickless_runs
SELECT run.id, run.tick_us
  FROM fencepost.run_seen AS run
  LEFT JOIN fencepost.tick
    ON tick.tenant = run.tenant AND tick.schedule = run.schedule AND tick.occurrence = run.occurrence
   AND tick.run_id = run.id
 WHERE run.tenant = :tenant AND run.schedule = :schedule
   AND run.tick_us >= :from_us AND run.tick_us < :until_us
   AND run.trigger IN ('cron', 'every', 'at') AND tick.occurrence IS NULL
 ORDER BY run.tick_us

-- :name first_starts
SELECT version, min(started_us)
  FROM (SELECT version, started_us
          FROM fencepost.run
         WHERE tenant = :tenant AND schedule = :schedule AND started_us IS NOT NULL
           AND trigger IN ('cron', 'every', 'at')
        UNION ALL
        SELECT version, started_us
          FROM fencepost.past_plain
         WHERE tenant = :tenant AND schedule = :schedule AND started_us IS NOT NULL
           AND trigger IN ('cron', 'every', 'at')
        UNION ALL
        SELECT version, started_us
          FROM fencepost.schedule_version
         WHERE tenant = :tenant AND name = :schedule AND started_us IS NOT NULL) AS each
 GROUP BY version

-- :name every_links
SELECT run.id, run.tick_us, run.ended_us, tick.occurrence IS NOT NULL
  FROM fencepost.run_seen AS run
  LEFT JOIN fencepost.tick
    ON tick.tenant = run.tenant AND tick.schedule = run.schedule AND tick.occurrence = 'every:' || run.id
 WHERE run.tenant = :tenant AND run.schedule = :schedule
   AND run.tick_us >= :from_us AND run.tick_us < :until_us AND run.trigger = 'every'
 ORDER BY run.tick_us
