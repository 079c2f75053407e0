-- :name put_past_runs
INSERT INTO past_run (id, tenant, schedule, created_us, tick_us, counted_us, fence, started, ended, ready, waited,
                      place, period_start, period_end, last_success, backfill_from, cost_micro, began, stopped, turns,
                      requests, common, occurrence, key, payload, summary, worker, last_log, session, usage)
SELECT run.id, run.tenant, run.schedule, run.created_us, run.tick_us, run.counted_us, run.fence,
       run.started_us - run.created_us, run.ended_us - run.created_us,
       nullif(run.ready_us - run.created_us, 0), nullif(run.waiting_us - run.created_us, 0),
       nullif(run.place_us - run.ready_us, 0), one.value ->> 2, one.value ->> 3,
       run.last_success_us - run.created_us, run.backfill_from_us - run.created_us, run.cost_micro,
       attempt.started_us - run.started_us, attempt.ended_us - run.ended_us, attempt.turns, nullif(run.requests, 1),
       one.value ->> 1, run.occurrence, iif(run.idempotency_key = run.id, NULL, unhex(run.idempotency_key)),
       nullif(run.payload, '{}'), run.summary, attempt.worker, attempt.last_log, attempt.session, attempt.usage
  FROM json_each(:moves) AS one
 CROSS JOIN run ON run.id = one.value ->> 0
 CROSS JOIN attempt ON attempt.run_id = run.id AND attempt.fence = run.fence
 ORDER BY run.id

-- :name past_misfits
-- The runs that would not come back as they are.
SELECT id FROM (SELECT * FROM run_plain WHERE id IN (SELECT value FROM json_each(:ids))
                EXCEPT SELECT * FROM past_plain WHERE id IN (SELECT value FROM json_each(:ids)))
UNION
SELECT run_id FROM (SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session,
                           cost_micro, turns, usage
                      FROM attempt WHERE run_id IN (SELECT value FROM json_each(:ids))
                    EXCEPT SELECT * FROM past_attempt WHERE run_id IN (SELECT value FROM json_each(:ids)))

-- :name drop_past_runs
DELETE FROM past_run WHERE id IN (SELECT value FROM json_each(:ids))

-- :name drop_moved_runs
DELETE FROM run WHERE id IN (SELECT value FROM json_each(:ids))

-- :name drop_moved_attempts
DELETE FROM attempt WHERE run_id IN (SELECT value FROM json_each(:ids))
