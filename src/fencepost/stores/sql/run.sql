-- :name lock_run
SELECT * FROM {run_fact} WHERE id = :id AND tenant = :tenant FOR UPDATE

-- :name agent_in_force
SELECT definition, hash FROM fencepost.agent WHERE tenant = :tenant AND name = :agent AND retired_us IS NULL

-- :name spend_once
-- Retire at the first start what shall run once: nothing is due any more.
UPDATE fencepost.schedule SET once_done = true, due_us = NULL
 WHERE tenant = :tenant AND name = :schedule AND NOT once_done
RETURNING cursor_us

-- :name close_version
-- A version has decided all that it had to.
UPDATE fencepost.schedule_version SET until_us = :cursor_us
 WHERE tenant = :tenant AND name = :schedule AND until_us IS NULL

-- :name attempt_of
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns, usage
  FROM fencepost.attempt
 WHERE run_id = :run_id AND fence = :fence

-- :name insert_pause
INSERT INTO fencepost.pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (:tenant, :schedule, :since_us, :until_us, :note, :by_whom)

-- :name run
SELECT * FROM {run_fact} WHERE id = :id AND tenant = :tenant

-- :name runs
SELECT * FROM fencepost.run_seen
 WHERE tenant = :tenant
   AND (:state = '' OR state = :state) AND (:schedule = '' OR schedule = :schedule)
   AND (:agent = '' OR agent = :agent)
   AND (NOT :live OR state IN ('ready', 'running')) AND (NOT :kept OR discarded_us IS NULL)
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name attempts
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns, usage
  FROM fencepost.attempt_seen WHERE run_id = :run_id ORDER BY fence

-- :name discard
UPDATE fencepost.run SET discarded_us = fencepost.clock_us()
 WHERE id = :id AND tenant = :tenant AND state = 'dead' AND discarded_us IS NULL
RETURNING id

-- :name checkpoint
SELECT content FROM fencepost.checkpoint WHERE run_id = :run_id

-- :name note_session
-- Only a run that still holds its lease may name its session.
UPDATE fencepost.attempt SET session = :session
 WHERE run_id = :run_id AND fence = :fence
   AND EXISTS (SELECT 1
                 FROM fencepost.run
                 JOIN fencepost.lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.epoch = :epoch
                               AND lease.state = 'held'
                WHERE run.id = :run_id AND run.fence = :fence AND run.state = 'running')
RETURNING run_id

-- :name put_completion
-- A service that carries a run out elsewhere proves its fence; its last word stands, until it is the end.
INSERT INTO fencepost.completion (run_id, fence, state, content, beats, at_us)
SELECT id, fence, :state, :content, 1, fencepost.clock_us()
  FROM fencepost.run WHERE id = :run_id AND tenant = :tenant AND fence = :fence AND state = 'running' FOR UPDATE
ON CONFLICT (run_id, fence) DO UPDATE
   SET beats = completion.beats + 1, at_us = fencepost.clock_us(),
       state = CASE WHEN completion.state = 'running' THEN excluded.state ELSE completion.state END,
       content = CASE WHEN completion.state = 'running' THEN excluded.content ELSE completion.content END
RETURNING state

-- :name completion
-- The newest word about a run; an end that came before its worker was lost still counts.
SELECT fence, state, content, beats FROM fencepost.completion
 WHERE run_id = :run_id
 ORDER BY state = 'running', fence DESC
 LIMIT 1
