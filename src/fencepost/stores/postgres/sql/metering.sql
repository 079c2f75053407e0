-- :name meter_ticks
-- How many ticks there ever were, by schedule and by what became of them; pruned ones count on.
SELECT schedule, name, sum(number)::bigint
  FROM (SELECT schedule, name, number FROM fencepost.tally WHERE tenant = %(tenant)s AND kind = 'tick'
        UNION ALL
        SELECT schedule, disposition, sum(count) FROM fencepost.tick WHERE tenant = %(tenant)s GROUP BY schedule, disposition) AS each
 GROUP BY schedule, name
 ORDER BY schedule, name

-- :name meter_live
SELECT coalesce(run.schedule, ''), run.agent, run.state, count(*), min(run.waiting_us), sum(run.requests - 1)::bigint
  FROM (SELECT id FROM fencepost.ready WHERE tenant = %(tenant)s
        UNION ALL
        SELECT id FROM fencepost.running WHERE tenant = %(tenant)s) AS live
  JOIN fencepost.run ON run.id = live.id
 GROUP BY run.schedule, run.agent, run.state
 ORDER BY run.schedule, run.agent, run.state

-- :name meter_runs
-- What the ended runs on record came to, all in one look.
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
       coalesce(sum(cost_micro), 0)::bigint, sum(requests - 1)::bigint,
       coalesce(sum(CASE WHEN reason = 'fence_refused' THEN 1 ELSE 0 END), 0)
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND state IN ('succeeded', 'dead', 'cancelled')
 GROUP BY schedule, agent, state
 ORDER BY schedule, agent, state

-- :name meter_pruned
SELECT schedule, agent, name, number FROM fencepost.meter WHERE tenant = %(tenant)s ORDER BY schedule, agent, name

-- :name meter_tallies
SELECT schedule, name, number FROM fencepost.tally WHERE tenant = %(tenant)s AND kind = 'run' ORDER BY schedule, name

-- :name meter_lost
SELECT (SELECT count(*) FROM fencepost.attempt JOIN fencepost.run ON run.id = attempt.run_id
         WHERE run.tenant = %(tenant)s AND attempt.outcome = 'lost'),
       (SELECT count(*)
          FROM (SELECT run_id, min(fence) AS fence FROM fencepost.attempt WHERE outcome = 'lost' GROUP BY run_id) AS lost
          JOIN fencepost.run ON run.id = lost.run_id
          JOIN fencepost.attempt AS later ON later.run_id = lost.run_id AND later.fence > lost.fence
         WHERE run.tenant = %(tenant)s),
       (SELECT max(cursor_us) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL)

-- :name meter_tokens
-- The llm_tokens of the runs on record, by agent, schedule and kind.
SELECT coalesce(run.schedule, ''), run.agent, told.key, sum(told.value::text::numeric)::bigint
  FROM fencepost.run JOIN fencepost.attempt ON attempt.run_id = run.id,
       LATERAL jsonb_each(attempt.usage::jsonb) AS told
 WHERE run.tenant = %(tenant)s AND run.ended_us IS NOT NULL AND attempt.usage IS NOT NULL
   AND jsonb_typeof(told.value) = 'number'
 GROUP BY run.schedule, run.agent, told.key
 ORDER BY run.schedule, run.agent, told.key
