-- :name meter_ticks
-- How many ticks there ever were, by schedule and by what became of them; pruned ones count on.
SELECT schedule, name, sum(number)
  FROM (SELECT schedule, name, number FROM tally WHERE tenant = :tenant AND kind = 'tick'
        UNION ALL
        SELECT schedule, disposition, sum(count) FROM tick WHERE tenant = :tenant GROUP BY schedule, disposition) AS each
 GROUP BY schedule, name
 ORDER BY schedule, name

-- :name meter_live
SELECT coalesce(schedule, ''), agent, state, count(*), min(waiting_us), sum(requests - 1)
  FROM run
 WHERE tenant = :tenant AND state IN ('ready', 'running')
 GROUP BY schedule, agent, state
 ORDER BY schedule, agent, state

-- :name meter_runs
-- What the ended runs on record came to, read from one index alone.
SELECT coalesce(schedule, ''), agent, state, count(*),
       coalesce(sum(CASE WHEN ended_us IS NOT NULL AND started_us IS NOT NULL THEN 1 ELSE 0 END), 0),
       coalesce(sum(ended_us - started_us), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 1000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 10000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 60000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 300000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 900000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 3600000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 14400000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(cost_micro), 0), sum(requests - 1),
       coalesce(sum(CASE WHEN reason = 'fence_refused' THEN 1 ELSE 0 END), 0)
  FROM run INDEXED BY run_figures
 WHERE tenant = :tenant AND state IN ('succeeded', 'dead', 'cancelled')
 GROUP BY schedule, agent, state
 ORDER BY schedule, agent, state

-- :name meter_pruned
SELECT schedule, agent, name, number FROM meter WHERE tenant = :tenant ORDER BY schedule, agent, name

-- :name meter_tallies
SELECT schedule, name, number FROM tally WHERE tenant = :tenant AND kind = 'run' ORDER BY schedule, name

-- :name meter_lost
SELECT (SELECT count(*) FROM attempt JOIN run ON run.id = attempt.run_id
         WHERE run.tenant = :tenant AND attempt.outcome = 'lost'),
       (SELECT count(*)
          FROM (SELECT run_id, min(fence) AS fence FROM attempt WHERE outcome = 'lost' GROUP BY run_id) AS lost
          JOIN run ON run.id = lost.run_id
          JOIN attempt AS later ON later.run_id = lost.run_id AND later.fence > lost.fence
         WHERE run.tenant = :tenant),
       (SELECT max(cursor_us) FROM schedule WHERE tenant = :tenant AND retired_us IS NULL)

-- :name meter_tokens
-- The llm_tokens of the runs on record, by agent, schedule and kind.
SELECT coalesce(run.schedule, ''), run.agent, told.key, sum(told.value)
  FROM run JOIN attempt ON attempt.run_id = run.id, json_each(attempt.usage) AS told
 WHERE run.tenant = :tenant AND run.ended_us IS NOT NULL AND attempt.usage IS NOT NULL AND told.type = 'integer'
 GROUP BY run.schedule, run.agent, told.key
 ORDER BY run.schedule, run.agent, told.key
