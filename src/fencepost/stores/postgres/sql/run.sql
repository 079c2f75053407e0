-- :name run_candidates
-- What is ready and whose resources nobody holds, so that a long line behind one schedule hides nobody else's runs.
SELECT * FROM fencepost.run_fact
 WHERE state = 'ready' AND ready_us <= fencepost.clock_us()
   AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(run_fact.resources::jsonb) AS mine
                     JOIN fencepost.resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                     JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                    WHERE lease_fact.remaining_ns > 0)
 ORDER BY priority DESC, ready_us, id
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED

-- :name running_of
SELECT count(*) FROM fencepost.run WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND state = 'running'

-- :name schedule_standing
SELECT version, definition, manifest, retired_us IS NULL, last_success_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(schedule)s

-- :name take_run
UPDATE fencepost.run
   SET state = 'running', reason = NULL, lease_id = %(lease_id)s, fence = %(fence)s, worker = %(worker)s,
       attempt = attempt + 1, stop = NULL
 WHERE id = %(id)s AND state = 'ready'
RETURNING attempt

-- :name insert_attempt
INSERT INTO fencepost.attempt (run_id, number, fence, worker) VALUES (%(run_id)s, %(number)s, %(fence)s, %(worker)s)

-- :name start_run
UPDATE fencepost.run SET started_us = coalesce(started_us, fencepost.clock_us())
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'
RETURNING id

-- :name start_attempt
UPDATE fencepost.attempt SET started_us = fencepost.clock_us() WHERE run_id = %(run_id)s AND fence = %(fence)s

-- :name lock_schedule
SELECT definition, failures, last_success_us, last_run
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(schedule)s
   FOR UPDATE

-- :name settle_run
UPDATE fencepost.run
   SET state = %(state)s, reason = %(reason)s, ready_us = coalesce(%(ready_us)s::bigint, ready_us),
       attempt = attempt - %(refund)s, resume = %(resume)s,
       ended_us = CASE WHEN %(state)s <> 'ready' THEN fencepost.clock_us() END,
       exit_code = %(exit_code)s, cost_micro = coalesce(%(cost_micro)s::bigint, cost_micro), summary = coalesce(%(summary)s::text, summary),
       log = coalesce(%(log)s::text, log), lease_id = NULL, worker = NULL
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'
RETURNING ended_us

-- :name end_attempt
UPDATE fencepost.attempt SET ended_us = fencepost.clock_us(), outcome = %(outcome)s, exit_code = %(exit_code)s, last_log = %(last_log)s
 WHERE run_id = %(run_id)s AND fence = %(fence)s

-- :name note_end
UPDATE fencepost.schedule
   SET failures = %(failures)s, last_success_us = %(last_success_us)s,
       last_ended_us = CASE WHEN last_run = %(run_id)s THEN %(ended_us)s::bigint ELSE last_ended_us END,
       due_us = CASE WHEN last_run = %(run_id)s THEN coalesce(%(due_us)s::bigint, due_us) ELSE due_us END
 WHERE tenant = %(tenant)s AND name = %(schedule)s

-- :name insert_pause
INSERT INTO fencepost.pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (%(tenant)s, %(schedule)s, %(since_us)s, %(until_us)s, %(note)s, %(by_whom)s)

-- :name end_ready
UPDATE fencepost.run SET state = %(state)s, reason = %(reason)s, ended_us = fencepost.clock_us()
 WHERE id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'ready'
RETURNING id, tenant, schedule

-- :name ask_to_stop
UPDATE fencepost.run SET stop = %(reason)s
 WHERE id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'running' AND stop IS NULL
RETURNING id

-- :name stop_asked
SELECT stop FROM fencepost.run WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- :name lost_runs
SELECT run_fact.* FROM fencepost.run_fact
  LEFT JOIN fencepost.lease_fact ON lease_fact.id = run_fact.lease_id
 WHERE run_fact.state = 'running'
   AND (lease_fact.id IS NULL OR lease_fact.lost OR lease_fact.remaining_ns <= 0)
 ORDER BY run_fact.id
 LIMIT %(limit)s

-- :name lease_of_run
SELECT * FROM fencepost.lease_fact WHERE id = %(id)s

-- :name run
SELECT * FROM fencepost.run_fact WHERE id = %(id)s AND tenant = %(tenant)s

-- :name run_by_request
SELECT * FROM fencepost.run_fact WHERE tenant = %(tenant)s AND agent = %(agent)s AND request_key = %(request_key)s

-- :name runs
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s
   AND (%(state)s = '' OR state = %(state)s) AND (%(schedule)s = '' OR schedule = %(schedule)s) AND (%(agent)s = '' OR agent = %(agent)s)
   AND (NOT %(live)s OR state IN ('ready', 'running')) AND (NOT %(kept)s OR discarded_us IS NULL)
 ORDER BY created_us DESC, id DESC
 LIMIT %(limit)s

-- :name attempts
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log
  FROM fencepost.attempt WHERE run_id = %(run_id)s ORDER BY fence

-- :name discard
UPDATE fencepost.run SET discarded_us = fencepost.clock_us()
 WHERE id = %(id)s AND tenant = %(tenant)s AND state = 'dead' AND discarded_us IS NULL
RETURNING id

-- :name put_checkpoint
-- Only a run that still holds its lease may leave a checkpoint.
INSERT INTO fencepost.checkpoint (run_id, fence, content, at_us)
SELECT id, fence, %(content)s::text, fencepost.clock_us() FROM fencepost.run WHERE id = %(run_id)s AND fence = %(fence)s AND state = 'running'
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, content = excluded.content, at_us = excluded.at_us
RETURNING run_id

-- :name checkpoint
SELECT content FROM fencepost.checkpoint WHERE run_id = %(run_id)s

-- :name next_ready
SELECT min(ready_us) FROM fencepost.run WHERE state = 'ready'

-- :name next_due
SELECT min(due_us) FROM fencepost.schedule WHERE due_us IS NOT NULL AND retired_us IS NULL

-- :name agent_in_force
SELECT definition, hash FROM fencepost.agent WHERE tenant = %(tenant)s AND name = :name AND retired_us IS NULL
