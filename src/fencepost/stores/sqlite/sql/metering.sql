-- :name fold_runs
-- All of them in one look, ended or not: between two looks one could end.
SELECT id, coalesce(schedule, ''), agent, state, started_us, ended_us, cost_micro, reason
  FROM run INDEXED BY run_by_age
 WHERE tenant = :tenant AND created_us > :after_us AND created_us <= :until_us

-- :name fold_stragglers
SELECT run.id, coalesce(run.schedule, ''), run.agent, run.state, run.started_us, run.ended_us, run.cost_micro, run.reason
  FROM unfolded CROSS JOIN run ON run.id = unfolded.run_id
 WHERE unfolded.tenant = :tenant AND run.state IN ('succeeded', 'dead', 'cancelled')
 LIMIT :limit

-- :name fold_attempts
SELECT run_id, fence, worker, outcome, usage FROM attempt WHERE run_id IN (SELECT value FROM json_each(:ids))

-- :name put_unfolded
INSERT INTO unfolded (tenant, run_id) SELECT :tenant, value FROM json_each(:ids) WHERE true ON CONFLICT DO NOTHING

-- :name drop_unfolded
DELETE FROM unfolded WHERE tenant = :tenant AND run_id IN (SELECT value FROM json_each(:ids)) RETURNING run_id

-- :name meter_ticks
-- How many ticks were decided in a stretch of time, by schedule and by what became of them.
SELECT schedule, disposition, sum(count)
  FROM tick INDEXED BY tick_decided
 WHERE tenant = :tenant AND decided_us > :after_us AND decided_us <= :until_us
 GROUP BY schedule, disposition

-- :name meter_live
SELECT coalesce(schedule, ''), agent, state, count(*), min(waiting_us)
  FROM run
 WHERE tenant = :tenant AND state IN ('ready', 'running')
 GROUP BY schedule, agent, state
 ORDER BY schedule, agent, state

-- :name meter_runs
-- What the ended runs came to that are in no meter yet.
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
       coalesce(sum(cost_micro), 0),
       coalesce(sum(CASE WHEN reason = 'fence_refused' THEN 1 ELSE 0 END), 0)
  FROM (SELECT schedule, agent, state, started_us, ended_us, cost_micro, reason
          FROM run INDEXED BY run_by_age
         WHERE tenant = :tenant AND created_us > :after_us
        UNION ALL
        SELECT run.schedule, run.agent, run.state, run.started_us, run.ended_us, run.cost_micro, run.reason
          FROM unfolded CROSS JOIN run ON run.id = unfolded.run_id
         WHERE unfolded.tenant = :tenant) AS each
 WHERE state IN ('succeeded', 'dead', 'cancelled')
 GROUP BY schedule, agent, state

-- :name meter_asked_again
SELECT coalesce(schedule, ''), agent, sum(requests - 1)
  FROM (SELECT schedule, agent, requests FROM run INDEXED BY run_asked_again WHERE tenant = :tenant AND requests > 1
        UNION ALL
        SELECT past_run.schedule, agent, requests
          FROM past_run INDEXED BY past_run_asked_again
          JOIN past_common ON past_common.tenant = past_run.tenant AND number = common
         WHERE past_run.tenant = :tenant AND requests > 1)
 GROUP BY schedule, agent

-- :name meter_lost
WITH recent AS (SELECT id FROM run INDEXED BY run_by_age WHERE tenant = :tenant AND created_us > :after_us
                UNION ALL
                SELECT run_id FROM unfolded WHERE tenant = :tenant),
     lost AS (SELECT attempt.run_id, attempt.fence
                FROM recent CROSS JOIN attempt ON attempt.run_id = recent.id
               WHERE attempt.outcome = 'lost')
SELECT (SELECT count(*) FROM lost),
       (SELECT count(*)
          FROM (SELECT run_id, min(fence) AS fence FROM lost GROUP BY run_id) AS first
          JOIN attempt AS later ON later.run_id = first.run_id AND later.fence > first.fence),
       (SELECT max(cursor_us) FROM schedule WHERE tenant = :tenant AND retired_us IS NULL)

-- :name meter_tokens
-- The llm_tokens of ended runs that are in no meter yet, by agent, schedule and kind.
SELECT coalesce(run.schedule, ''), run.agent, told.key, sum(told.value)
  FROM (SELECT id FROM run INDEXED BY run_by_age WHERE tenant = :tenant AND created_us > :after_us
        UNION ALL
        SELECT run_id FROM unfolded WHERE tenant = :tenant) AS recent
 CROSS JOIN run ON run.id = recent.id
 CROSS JOIN attempt ON attempt.run_id = run.id, json_each(attempt.usage) AS told
 WHERE run.ended_us IS NOT NULL AND attempt.usage IS NOT NULL AND told.type = 'integer'
 GROUP BY run.schedule, run.agent, told.key
