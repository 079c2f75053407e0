-- :name run_candidates
-- What is ready and whose resources nobody holds, so that a long line behind one schedule hides nobody else's runs.
SELECT * FROM run_fact
 WHERE state = 'ready' AND ready_us <= wall_us()
   AND NOT EXISTS (SELECT 1 FROM json_each(run_fact.resources) AS mine
                     JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                     JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                    WHERE lease_fact.remaining_ns > 0)
 ORDER BY priority DESC, ready_us, id
 LIMIT :limit

-- :name running_of
SELECT count(*) FROM run WHERE tenant = :tenant AND schedule = :schedule AND state = 'running'

-- :name schedule_standing
SELECT version, definition, manifest, retired_us IS NULL, last_success_us
  FROM schedule
 WHERE tenant = :tenant AND name = :schedule

-- :name take_run
UPDATE run
   SET state = 'running', reason = NULL, lease_id = :lease_id, fence = :fence, worker = :worker,
       attempt = attempt + 1, stop = NULL
 WHERE id = :id AND state = 'ready'
RETURNING attempt

-- :name insert_attempt
INSERT INTO attempt (run_id, number, fence, worker) VALUES (:run_id, :number, :fence, :worker)

-- :name start_run
UPDATE run SET started_us = coalesce(started_us, wall_us())
 WHERE id = :id AND fence = :fence AND state = 'running'
RETURNING id

-- :name start_attempt
UPDATE attempt SET started_us = wall_us() WHERE run_id = :run_id AND fence = :fence

-- :name lock_schedule
SELECT definition, failures, last_success_us, last_run
  FROM schedule
 WHERE tenant = :tenant AND name = :schedule

-- :name settle_run
UPDATE run
   SET state = :state, reason = :reason, ready_us = coalesce(:ready_us, ready_us),
       attempt = attempt - :refund, resume = :resume,
       ended_us = iif(:state = 'ready', NULL, wall_us()),
       exit_code = :exit_code, cost_micro = coalesce(:cost_micro, cost_micro), summary = coalesce(:summary, summary),
       log = coalesce(:log, log), lease_id = NULL, worker = NULL
 WHERE id = :id AND fence = :fence AND state = 'running'
RETURNING ended_us

-- :name end_attempt
UPDATE attempt SET ended_us = wall_us(), outcome = :outcome, exit_code = :exit_code, last_log = :last_log
 WHERE run_id = :run_id AND fence = :fence

-- :name note_end
UPDATE schedule
   SET failures = :failures, last_success_us = :last_success_us,
       last_ended_us = iif(last_run = :run_id, :ended_us, last_ended_us),
       due_us = iif(last_run = :run_id, coalesce(:due_us, due_us), due_us)
 WHERE tenant = :tenant AND name = :schedule

-- :name insert_pause
INSERT INTO pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (:tenant, :schedule, :since_us, :until_us, :note, :by_whom)

-- :name end_ready
UPDATE run SET state = :state, reason = :reason, ended_us = wall_us()
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'ready'
RETURNING id, tenant, schedule

-- :name ask_to_stop
UPDATE run SET stop = :reason
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'running' AND stop IS NULL
RETURNING id

-- :name stop_asked
SELECT stop FROM run WHERE id = :id AND fence = :fence AND state = 'running'

-- :name lost_runs
SELECT run_fact.* FROM run_fact
  LEFT JOIN lease_fact ON lease_fact.id = run_fact.lease_id
 WHERE run_fact.state = 'running'
   AND (lease_fact.id IS NULL OR lease_fact.lost OR lease_fact.remaining_ns <= 0)
 ORDER BY run_fact.id
 LIMIT :limit

-- :name lease_of_run
SELECT * FROM lease_fact WHERE id = :id

-- :name run
SELECT * FROM run_fact WHERE id = :id AND tenant = :tenant

-- :name run_by_request
SELECT * FROM run_fact WHERE tenant = :tenant AND agent = :agent AND request_key = :request_key

-- :name runs
SELECT * FROM run_fact
 WHERE tenant = :tenant
   AND (:state = '' OR state = :state) AND (:schedule = '' OR schedule = :schedule) AND (:agent = '' OR agent = :agent)
   AND (NOT :live OR state IN ('ready', 'running')) AND (NOT :kept OR discarded_us IS NULL)
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name attempts
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log
  FROM attempt WHERE run_id = :run_id ORDER BY fence

-- :name discard
UPDATE run SET discarded_us = wall_us()
 WHERE id = :id AND tenant = :tenant AND state = 'dead' AND discarded_us IS NULL
RETURNING id

-- :name put_checkpoint
-- Only a run that still holds its lease may leave a checkpoint.
INSERT INTO checkpoint (run_id, fence, content, at_us)
SELECT id, fence, :content, wall_us() FROM run WHERE id = :run_id AND fence = :fence AND state = 'running'
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, content = excluded.content, at_us = excluded.at_us
RETURNING run_id

-- :name checkpoint
SELECT content FROM checkpoint WHERE run_id = :run_id

-- :name next_ready
SELECT min(ready_us) FROM run WHERE state = 'ready'

-- :name next_due
SELECT min(due_us) FROM schedule WHERE due_us IS NOT NULL AND retired_us IS NULL

-- :name agent_in_force
SELECT definition, hash FROM agent WHERE tenant = :tenant AND name = :name AND retired_us IS NULL
