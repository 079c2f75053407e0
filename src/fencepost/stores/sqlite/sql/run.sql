-- :name ready_lines
-- Each tenant's lines by priority, the tenant first that was served longest ago. Lines are found by hopping from one
-- to the next, so that the number of runs in them does not matter.
WITH RECURSIVE each_tenant (tenant) AS (
    SELECT min(tenant) FROM run INDEXED BY run_apart WHERE state = 'ready' AND NOT in_process
    UNION ALL
    SELECT (SELECT min(run.tenant) FROM run INDEXED BY run_apart
             WHERE run.state = 'ready' AND NOT run.in_process AND run.tenant > each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL),
line (tenant, rank) AS (
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_apart
                     WHERE run.state = 'ready' AND NOT run.in_process AND run.tenant = each_tenant.tenant)
      FROM each_tenant
     WHERE tenant IS NOT NULL
    UNION ALL
    SELECT tenant, (SELECT min(run.rank) FROM run INDEXED BY run_apart
                     WHERE run.state = 'ready' AND NOT run.in_process AND run.tenant = line.tenant AND run.rank > line.rank)
      FROM line
     WHERE rank IS NOT NULL)
SELECT tenant, rank
  FROM (SELECT tenant, rank, (SELECT max(fence) FROM run
                               WHERE run.tenant = line.tenant AND fence IS NOT NULL) AS served
          FROM line WHERE rank IS NOT NULL) AS each_line
 WHERE NOT EXISTS (SELECT 1 FROM pause
                    WHERE pause.tenant = each_line.tenant AND schedule = ''
                      AND since_us <= wall_us() AND until_us > wall_us())
 ORDER BY served NULLS FIRST, tenant, rank

-- :name line_heads
-- Who may go, in order. Those whose resources somebody holds, or whose schedule has no room, hide nobody behind them.
-- Who works in a project goes when it is its turn there, or works apart in a worktree.
SELECT id, schedule
  FROM run
 WHERE state = 'ready' AND NOT in_process AND tenant = :tenant AND rank = :rank
   AND place_us <= wall_us() AND ready_us <= wall_us()
   AND NOT EXISTS (SELECT 1 FROM json_each(:passed) AS one WHERE one.value = run.id)
   AND (project IS NULL OR id IN (SELECT value FROM json_each(:turns))
        OR (trigger <> 'manual' AND EXISTS (SELECT 1 FROM json_each(:apart) AS one
                                             WHERE one.value ->> 0 = run.tenant AND one.value ->> 1 = run.project)))
   AND NOT EXISTS (SELECT 1 FROM json_each(run.resources) AS mine
                     JOIN resource ON resource.tenant = mine.value ->> 0 AND resource.name = mine.value ->> 1
                     JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                    WHERE lease_fact.remaining_ns > 0)
   AND (run.resources NOT LIKE '%"key:%'
        OR NOT EXISTS (SELECT 1 FROM json_each(run.resources) AS pool
                        WHERE pool.value ->> 2 <= (SELECT count(*) FROM resource
                                                     JOIN lease_fact ON lease_fact.id = resource.lease_id
                                                                    AND NOT lease_fact.lost
                                                    WHERE resource.tenant = pool.value ->> 0
                                                      AND resource.name >= pool.value ->> 1
                                                      AND resource.name < (pool.value ->> 1) || '0'
                                                      AND (resource.name = pool.value ->> 1
                                                           OR resource.name > (pool.value ->> 1) || '/')
                                                      AND lease_fact.remaining_ns > 0)))
   AND (schedule IS NULL
        OR lease_max > (SELECT count(*) FROM run AS other INDEXED BY run_live
                          JOIN lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                         WHERE other.tenant = run.tenant AND other.schedule = run.schedule AND other.state = 'running'
                           AND other.state IN ('ready', 'running') AND lease_fact.remaining_ns > 0))
 ORDER BY place_us, id
 LIMIT :limit

-- :name taken_slots
-- What is leased of a concurrency key, in whatever form; '0' comes right after '/'.
SELECT resource.name
  FROM resource
  JOIN lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
 WHERE resource.tenant = :tenant AND resource.name >= :name AND resource.name < :name || '0'
   AND (resource.name = :name OR resource.name > :name || '/')
   AND lease_fact.remaining_ns > 0

-- :name running_of
-- A lease whose time is up takes no room: its run is about to be settled as lost.
SELECT count(*)
  FROM run INDEXED BY run_live
  JOIN lease_fact ON lease_fact.id = run.lease_id AND NOT lease_fact.lost
 WHERE run.tenant = :tenant AND run.schedule = :schedule AND run.state = 'running'
   AND run.state IN ('ready', 'running') AND lease_fact.remaining_ns > 0

-- :name lock_schedule
SELECT definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM schedule
 WHERE tenant = :tenant AND name = :schedule

-- :name try_schedule
SELECT definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM schedule
 WHERE tenant = :tenant AND name = :schedule

-- :name try_run
SELECT * FROM run_fact WHERE id = :id AND state = 'ready'

-- :name lock_run
SELECT * FROM run_fact WHERE id = :id AND tenant = :tenant

-- :name agent_in_force
SELECT definition, hash FROM agent WHERE tenant = :tenant AND name = :agent AND retired_us IS NULL

-- :name spending_beside
-- What other runs of the schedule have spent or set aside; those that wait and were counted later come after.
-- A run that goes on may cost what it has reserved once more for its next attempt; one that has ended, what it did.
SELECT counted_us,
       CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
            ELSE coalesce(cost_micro, reserved_micro) END,
       CASE WHEN :timed THEN (SELECT coalesce(sum(coalesce(attempt.ended_us, wall_us()) - attempt.started_us), 0)
                                FROM attempt WHERE attempt.run_id = run.id) ELSE 0 END
  FROM run
 WHERE tenant = :tenant AND schedule = :schedule AND counted_us > :since_us AND id <> :id
   AND (started_us IS NOT NULL OR state = 'running' OR (state = 'ready' AND counted_us <= :counted_us))

-- :name take_run
UPDATE run
   SET state = 'running', reason = NULL, lease_id = :lease_id, fence = :fence, worker = :worker,
       attempt = attempt + 1, stop = NULL
 WHERE id = :id AND state = 'ready'
RETURNING attempt

-- :name insert_attempt
INSERT INTO attempt (run_id, number, fence, worker) VALUES (:run_id, :number, :fence, :worker)

-- :name spend_once
-- Retire at the first start what shall run once: nothing is due any more.
UPDATE schedule SET once_done = true, due_us = NULL
 WHERE tenant = :tenant AND name = :schedule AND NOT once_done
RETURNING cursor_us

-- :name close_version
-- A version has decided all that it had to.
UPDATE schedule_version SET until_us = :cursor_us
 WHERE tenant = :tenant AND name = :schedule AND until_us IS NULL

-- :name start_run
UPDATE run SET started_us = coalesce(started_us, wall_us())
 WHERE id = :id AND fence = :fence AND state = 'running'
RETURNING id

-- :name start_attempt
UPDATE attempt SET started_us = wall_us(), session = :session
 WHERE run_id = :run_id AND fence = :fence

-- :name settle_run
-- Each attempt says what it cost itself; the run has cost all of them.
UPDATE run
   SET state = :state, reason = :reason, ready_us = coalesce(:ready_us, ready_us),
       place_us = CASE WHEN :steps_back THEN coalesce(:ready_us, place_us) ELSE place_us END,
       attempt = attempt - :refund, resume = :resume,
       ended_us = CASE WHEN :state <> 'ready' THEN wall_us() END,
       exit_code = :exit_code, cost_micro = coalesce(cost_micro + :cost_micro, :cost_micro, cost_micro),
       summary = coalesce(:summary, summary), log = coalesce(:log, log),
       lease_id = NULL, worker = NULL
 WHERE id = :id AND fence = :fence AND state = 'running'
RETURNING ended_us

-- :name end_attempt
UPDATE attempt
   SET ended_us = coalesce(ended_us, wall_us()), outcome = :outcome, exit_code = :exit_code,
       last_log = :last_log, session = coalesce(:session, session),
       cost_micro = :cost_micro, turns = :turns, usage = :usage
 WHERE run_id = :run_id AND fence = :fence

-- :name attempt_of
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns, usage
  FROM attempt
 WHERE run_id = :run_id AND fence = :fence

-- :name note_end
UPDATE schedule
   SET failures = :failures, last_success_us = :last_success_us,
       last_ended_us = CASE WHEN last_run = :run_id THEN :ended_us ELSE last_ended_us END,
       due_us = CASE WHEN last_run = :run_id AND NOT once_done AND retired_us IS NULL
                     THEN coalesce(:due_us, due_us) ELSE due_us END
 WHERE tenant = :tenant AND name = :schedule

-- :name insert_pause
INSERT INTO pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (:tenant, :schedule, :since_us, :until_us, :note, :by_whom)

-- :name end_ready
UPDATE run SET state = :state, reason = :reason, ended_us = wall_us()
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'ready'
RETURNING id, ended_us, tenant, schedule

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
 ORDER BY run_fact.fence
 LIMIT :limit

-- :name lease_of
SELECT * FROM lease_fact WHERE id = :id

-- :name lock_lease
SELECT * FROM lease_fact WHERE id = :id

-- :name run
SELECT * FROM run_fact WHERE id = :id AND tenant = :tenant

-- :name runs
SELECT * FROM run_fact
 WHERE tenant = :tenant
   AND (:state = '' OR state = :state) AND (:schedule = '' OR schedule = :schedule)
   AND (:agent = '' OR agent = :agent)
   AND (NOT :live OR state IN ('ready', 'running')) AND (NOT :kept OR discarded_us IS NULL)
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name attempts
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns, usage
  FROM attempt WHERE run_id = :run_id ORDER BY fence

-- :name discard
UPDATE run SET discarded_us = wall_us()
 WHERE id = :id AND tenant = :tenant AND state = 'dead' AND discarded_us IS NULL
RETURNING id

-- :name put_checkpoint
-- Only a run that still holds its lease may leave a checkpoint: it may have been taken before anybody has the run.
INSERT INTO checkpoint (run_id, fence, content, at_us)
SELECT run.id, run.fence, :content, wall_us()
  FROM run JOIN lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.state = 'held'
 WHERE run.id = :run_id AND run.fence = :fence AND run.state = 'running'
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, content = excluded.content, at_us = excluded.at_us
RETURNING run_id

-- :name checkpoint
SELECT content FROM checkpoint WHERE run_id = :run_id

-- :name next_ready
SELECT min(ready_us) FROM run WHERE state = 'ready' AND ready_us > wall_us()

-- :name overdue_runs
-- What has waited too long and never started.
SELECT * FROM run_fact
 WHERE state = 'ready' AND started_us IS NULL AND give_up_us <= wall_us()
 ORDER BY give_up_us
 LIMIT :limit

-- :name definition_of
SELECT definition FROM schedule WHERE tenant = :tenant AND name = :schedule

-- :name note_session
-- Only a run that still holds its lease may name its session.
UPDATE attempt SET session = :session
 WHERE run_id = :run_id AND fence = :fence
   AND EXISTS (SELECT 1
                 FROM run
                 JOIN lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.state = 'held'
                WHERE run.id = :run_id AND run.fence = :fence AND run.state = 'running')
RETURNING run_id

-- :name sessions_of
-- Which conversations the attempts of a run were in, the latest first, and what they told.
SELECT session, cost_micro, usage FROM attempt WHERE run_id = :run_id AND session IS NOT NULL ORDER BY fence DESC

-- :name put_completion
-- Whoever carries a run out elsewhere proves its fence; what was said last stands, until it is the end.
INSERT INTO completion (run_id, fence, state, content, beats, at_us)
SELECT id, fence, :state, :content, 1, wall_us()
  FROM run WHERE id = :run_id AND tenant = :tenant AND fence = :fence AND state = 'running'
ON CONFLICT (run_id, fence) DO UPDATE
   SET beats = completion.beats + 1, at_us = wall_us(),
       state = CASE WHEN completion.state = 'running' THEN excluded.state ELSE completion.state END,
       content = CASE WHEN completion.state = 'running' THEN excluded.content ELSE completion.content END
RETURNING state

-- :name completion
-- The newest word about a run; an end that came before its worker was lost still counts.
SELECT fence, state, content, beats FROM completion
 WHERE run_id = :run_id
 ORDER BY state = 'running', fence DESC
 LIMIT 1
