-- :name meter_counts
-- How many ticks and runs there ever were, by schedule and by what became of them; pruned ones count on.
SELECT schedule, kind, name, sum(number)::bigint
  FROM (SELECT schedule, kind, name, number FROM fencepost.tally WHERE tenant = %(tenant)s
        UNION ALL
        SELECT schedule, 'tick', disposition, sum(count) FROM fencepost.tick WHERE tenant = %(tenant)s GROUP BY schedule, disposition
        UNION ALL
        SELECT coalesce(schedule, ''), 'run', state, count(*) FROM fencepost.run
         WHERE tenant = %(tenant)s AND state NOT IN ('ready', 'running') GROUP BY schedule, state) AS each
 GROUP BY schedule, kind, name
 ORDER BY schedule, kind, name

-- :name meter_live
SELECT coalesce(schedule, ''), agent, state, count(*), min(waiting_us)
  FROM fencepost.run
 WHERE id IN (SELECT id FROM fencepost.ready WHERE tenant = %(tenant)s
              UNION ALL SELECT id FROM fencepost.running WHERE tenant = %(tenant)s)
   AND tenant = %(tenant)s AND state IN ('ready', 'running')
 GROUP BY schedule, agent, state
 ORDER BY schedule, agent, state

-- :name meter_runs
-- What the runs on record came to, by agent and schedule.
SELECT coalesce(schedule, ''), agent, count(*), sum(ended_us - started_us)::bigint,
       sum(CASE WHEN ended_us - started_us <= 1000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 10000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 60000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 300000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 900000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 3600000000 THEN 1 ELSE 0 END),
       sum(CASE WHEN ended_us - started_us <= 14400000000 THEN 1 ELSE 0 END),
       coalesce(sum(cost_micro), 0)::bigint
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND started_us IS NOT NULL AND ended_us IS NOT NULL
 GROUP BY schedule, agent
 ORDER BY schedule, agent

-- :name meter_tokens
-- The llm_tokens of the runs on record, by agent, schedule and kind.
SELECT coalesce(run.schedule, ''), run.agent, told.key, sum(told.value::text::numeric)::bigint
  FROM fencepost.run JOIN fencepost.attempt ON attempt.run_id = run.id,
       LATERAL jsonb_each(attempt.usage::jsonb) AS told
 WHERE run.tenant = %(tenant)s AND run.ended_us IS NOT NULL AND attempt.usage IS NOT NULL
   AND jsonb_typeof(told.value) = 'number'
 GROUP BY run.schedule, run.agent, told.key
 ORDER BY run.schedule, run.agent, told.key

-- :name meter_sums
SELECT (SELECT coalesce(sum(requests - 1), 0)::bigint FROM fencepost.run WHERE tenant = %(tenant)s AND requests > 1),
       (SELECT count(*) FROM fencepost.attempt JOIN fencepost.run ON run.id = attempt.run_id
         WHERE run.tenant = %(tenant)s AND attempt.outcome = 'lost'),
       (SELECT count(*) FROM fencepost.attempt JOIN fencepost.run ON run.id = attempt.run_id
         WHERE run.tenant = %(tenant)s
           AND EXISTS (SELECT 1 FROM fencepost.attempt AS before
                        WHERE before.run_id = attempt.run_id AND before.fence < attempt.fence AND before.outcome = 'lost')),
       (SELECT count(*) FROM fencepost.run WHERE tenant = %(tenant)s AND reason = 'fence_refused'),
       (SELECT max(cursor_us) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL)
