-- :name meter_counts
-- How many ticks and runs there ever were, by schedule and by what became of them; pruned ones count on.
SELECT schedule, kind, name, sum(number)
  FROM (SELECT schedule, kind, name, number FROM tally WHERE tenant = :tenant
        UNION ALL
        SELECT schedule, 'tick', disposition, sum(count) FROM tick WHERE tenant = :tenant GROUP BY schedule, disposition
        UNION ALL
        SELECT coalesce(schedule, ''), 'run', state, count(*) FROM run
         WHERE tenant = :tenant AND state NOT IN ('ready', 'running') GROUP BY schedule, state) AS each
 GROUP BY schedule, kind, name
 ORDER BY schedule, kind, name

-- :name meter_live
SELECT coalesce(schedule, ''), agent, state, count(*), min(waiting_us)
  FROM run
 WHERE tenant = :tenant AND state IN ('ready', 'running')
 GROUP BY schedule, agent, state
 ORDER BY schedule, agent, state

-- :name meter_runs
-- What the runs on record came to, by agent and schedule.
SELECT coalesce(schedule, ''), agent, count(*), sum(ended_us - started_us),
       sum(CASE WHEN ended_us - started_us <= 1000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 10000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 60000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 300000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 900000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 3600000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 14400000000 THEN 1 ELSE 0 END),
       coalesce(sum(cost_micro), 0)
  FROM run
 WHERE tenant = :tenant AND started_us IS NOT NULL AND ended_us IS NOT NULL
 GROUP BY schedule, agent
 ORDER BY schedule, agent

-- :name meter_tokens
-- The llm_tokens of the runs on record, by agent, schedule and kind.
SELECT coalesce(run.schedule, ''), run.agent, told.key, sum(told.value)
  FROM run JOIN attempt ON attempt.run_id = run.id, json_each(attempt.usage) AS told
 WHERE run.tenant = :tenant AND run.ended_us IS NOT NULL AND attempt.usage IS NOT NULL AND told.type = 'integer'
 GROUP BY run.schedule, run.agent, told.key
 ORDER BY run.schedule, run.agent, told.key

-- :name meter_sums
SELECT (SELECT coalesce(sum(requests - 1), 0) FROM run WHERE tenant = :tenant AND requests > 1),
       (SELECT count(*) FROM attempt JOIN run ON run.id = attempt.run_id
         WHERE run.tenant = :tenant AND attempt.outcome = 'lost'),
       (SELECT count(*) FROM attempt JOIN run ON run.id = attempt.run_id
         WHERE run.tenant = :tenant
           AND EXISTS (SELECT 1 FROM attempt AS before
                        WHERE before.run_id = attempt.run_id AND before.fence < attempt.fence AND before.outcome = 'lost')),
       (SELECT count(*) FROM run WHERE tenant = :tenant AND reason = 'fence_refused'),
       (SELECT max(cursor_us) FROM schedule WHERE tenant = :tenant AND retired_us IS NULL)
