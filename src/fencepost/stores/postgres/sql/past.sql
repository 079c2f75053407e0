-- :name put_past_runs
INSERT INTO fencepost.past_run
       (id, tenant, schedule, created_us, tick_us, counted_us, fence, started, ended, ready, waited,
        place, period_start, period_end, last_success, backfill_from, cost_micro, began, stopped, turns,
        requests, common, occurrence, key, payload, summary, worker, last_log, session, usage)
SELECT run.id, run.tenant, run.schedule, run.created_us, run.tick_us, run.counted_us, run.fence,
       run.started_us - run.created_us, run.ended_us - run.created_us,
       nullif(run.ready_us - run.created_us, 0), nullif(run.waiting_us - run.created_us, 0),
       nullif(run.place_us - run.ready_us, 0), (one.value ->> 2)::bigint, (one.value ->> 3)::bigint,
       run.last_success_us - run.created_us, run.backfill_from_us - run.created_us, run.cost_micro,
       attempt.started_us - run.started_us, attempt.ended_us - run.ended_us, attempt.turns, nullif(run.requests, 1),
       (one.value ->> 1)::integer, run.occurrence,
       CASE WHEN run.idempotency_key <> run.id THEN decode(run.idempotency_key, 'hex') END,
       nullif(run.payload, '{}'), run.summary, attempt.worker, attempt.last_log, attempt.session, attempt.usage
  FROM jsonb_array_elements(%(moves)s::jsonb) AS one
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = one.value ->> 0 OFFSET 0) AS run
 CROSS JOIN LATERAL (SELECT * FROM fencepost.attempt WHERE run_id = run.id AND fence = run.fence OFFSET 0) AS attempt
 ORDER BY run.id

-- :name past_misfits
-- The runs that would not come back as they are.
SELECT id FROM (SELECT * FROM fencepost.run_plain WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
                EXCEPT
                SELECT * FROM fencepost.past_plain WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))) AS lost
UNION
SELECT run_id FROM (SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session,
                           cost_micro, turns, usage
                      FROM fencepost.attempt WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
                    EXCEPT
                    SELECT * FROM fencepost.past_attempt
                     WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))) AS tries

-- :name drop_past_runs
DELETE FROM fencepost.past_run WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name drop_moved_runs
DELETE FROM fencepost.run WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name drop_moved_attempts
DELETE FROM fencepost.attempt WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
