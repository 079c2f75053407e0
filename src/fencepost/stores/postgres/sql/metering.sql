-- :name fold_runs
-- All of them in one look, ended or not: between two looks one could end.
SELECT id, coalesce(schedule, ''), agent, state, started_us, ended_us, cost_micro, reason
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us > %(after_us)s AND created_us <= %(until_us)s

-- :name fold_stragglers
SELECT run.id, coalesce(run.schedule, ''), run.agent, run.state, run.started_us, run.ended_us, run.cost_micro, run.reason
  FROM fencepost.unfolded JOIN fencepost.run ON run.id = unfolded.run_id
 WHERE unfolded.tenant = %(tenant)s AND run.state IN ('succeeded', 'dead', 'cancelled')
 LIMIT %(limit)s

-- :name fold_attempts
SELECT run_id, fence, worker, outcome, usage FROM fencepost.attempt WHERE run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb))

-- :name put_unfolded
INSERT INTO fencepost.unfolded (tenant, run_id) SELECT %(tenant)s, jsonb_array_elements_text(%(ids)s::jsonb) ON CONFLICT DO NOTHING

-- :name drop_unfolded
DELETE FROM fencepost.unfolded WHERE tenant = %(tenant)s AND run_id = ANY (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) RETURNING run_id

-- :name meter_ticks
-- How many ticks were decided in a stretch of time, by schedule and by what became of them.
SELECT schedule, disposition, sum(count)::bigint
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND decided_us > %(after_us)s AND decided_us <= %(until_us)s
 GROUP BY schedule, disposition

-- :name meter_live
SELECT coalesce(run.schedule, ''), run.agent, run.state, count(*), min(run.waiting_us)
  FROM (SELECT id FROM fencepost.ready WHERE tenant = %(tenant)s
        UNION ALL
        SELECT id FROM fencepost.running WHERE tenant = %(tenant)s) AS live
  JOIN fencepost.run ON run.id = live.id
 GROUP BY run.schedule, run.agent, run.state
 ORDER BY run.schedule, run.agent, run.state

-- :name meter_runs
-- What the ended runs came to that are in no meter yet.
SELECT coalesce(schedule, ''), agent, state, count(*),
       coalesce(sum(CASE WHEN ended_us IS NOT NULL AND started_us IS NOT NULL THEN 1 ELSE 0 END), 0),
       coalesce(sum(ended_us - started_us), 0)::bigint,
       coalesce(sum(CASE WHEN ended_us - started_us <= 1000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 10000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 60000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 300000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 900000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 3600000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(CASE WHEN ended_us - started_us <= 14400000000 THEN 1 ELSE 0 END), 0),
       coalesce(sum(cost_micro), 0)::bigint,
       coalesce(sum(CASE WHEN reason = 'fence_refused' THEN 1 ELSE 0 END), 0)
  FROM (SELECT schedule, agent, state, started_us, ended_us, cost_micro, reason
          FROM fencepost.run
         WHERE tenant = %(tenant)s AND created_us > %(after_us)s
        UNION ALL
        SELECT run.schedule, run.agent, run.state, run.started_us, run.ended_us, run.cost_micro, run.reason
          FROM fencepost.unfolded JOIN fencepost.run ON run.id = unfolded.run_id
         WHERE unfolded.tenant = %(tenant)s) AS each
 WHERE state IN ('succeeded', 'dead', 'cancelled')
 GROUP BY schedule, agent, state

-- :name meter_asked_again
SELECT coalesce(schedule, ''), agent, sum(requests - 1)::bigint
  FROM (SELECT schedule, agent, requests FROM fencepost.run WHERE tenant = %(tenant)s AND requests > 1
        UNION ALL
        SELECT past_run.schedule, agent, requests
          FROM fencepost.past_run
          JOIN fencepost.past_common ON past_common.tenant = past_run.tenant AND number = common
         WHERE past_run.tenant = %(tenant)s AND requests > 1) AS each
 GROUP BY schedule, agent

-- :name meter_lost
WITH recent AS (SELECT id FROM fencepost.run WHERE tenant = %(tenant)s AND created_us > %(after_us)s
                UNION ALL
                SELECT run_id FROM fencepost.unfolded WHERE tenant = %(tenant)s),
     lost AS (SELECT attempt.run_id, attempt.fence
                FROM recent JOIN fencepost.attempt ON attempt.run_id = recent.id
               WHERE attempt.outcome = 'lost')
SELECT (SELECT count(*) FROM lost),
       (SELECT count(*)
          FROM (SELECT run_id, min(fence) AS fence FROM lost GROUP BY run_id) AS first
          JOIN fencepost.attempt AS later ON later.run_id = first.run_id AND later.fence > first.fence),
       (SELECT max(cursor_us) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL)

-- :name meter_tokens
-- The llm_tokens of ended runs that are in no meter yet, by agent, schedule and kind.
SELECT coalesce(run.schedule, ''), run.agent, told.key, sum(told.value::text::numeric)::bigint
  FROM (SELECT id FROM fencepost.run WHERE tenant = %(tenant)s AND created_us > %(after_us)s
        UNION ALL
        SELECT run_id FROM fencepost.unfolded WHERE tenant = %(tenant)s) AS recent
  JOIN fencepost.run ON run.id = recent.id
  JOIN fencepost.attempt ON attempt.run_id = run.id,
       LATERAL jsonb_each(attempt.usage::jsonb) AS told
 WHERE run.ended_us IS NOT NULL AND attempt.usage IS NOT NULL AND told.value::text ~ '^-?[0-9]+$'
 GROUP BY run.schedule, run.agent, told.key
