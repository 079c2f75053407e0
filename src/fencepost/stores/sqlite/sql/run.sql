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
-- Which runs may go, in order. One whose resources are held, or whose schedule has no room, hides none behind it.
-- Who works in a project goes when it is its turn there, or works apart in a worktree.
SELECT id, schedule, resources, lease_max
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

-- :name definitions_of
SELECT tenant, name, definition FROM schedule
 WHERE (tenant, name) IN (SELECT tenant, schedule FROM run WHERE id IN (SELECT value FROM json_each(:ids)))

-- :name lock_schedules_of
-- The whole file is locked already.
SELECT tenant, name, definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM schedule
 WHERE (tenant, name) IN (SELECT tenant, schedule FROM run WHERE id IN (SELECT value FROM json_each(:ids)))
 ORDER BY tenant, name

-- :name try_schedules_of
SELECT tenant, name, definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM schedule
 WHERE (tenant, name) IN (SELECT tenant, schedule FROM run WHERE id IN (SELECT value FROM json_each(:ids)))
 ORDER BY tenant, name

-- :name runs_named
SELECT * FROM {run_fact} WHERE id IN (SELECT value FROM json_each(:ids))

-- :name try_runs
SELECT * FROM {run_fact} WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'ready'

-- :name agents_of
-- The runs without a schedule whose agent is still defined.
SELECT run.id
  FROM run
  JOIN agent ON agent.tenant = run.tenant AND agent.name = run.agent AND agent.retired_us IS NULL
 WHERE run.id IN (SELECT value FROM json_each(:ids)) AND run.schedule IS NULL

-- :name running_beside
-- How many runs of their schedules are under way. A lease whose time is up takes no room: its run is about to be settled.
SELECT mine.tenant, mine.schedule,
       (SELECT count(*)
          FROM run AS other INDEXED BY run_live
          JOIN lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
         WHERE other.tenant = mine.tenant AND other.schedule = mine.schedule AND other.state = 'running'
           AND other.state IN ('ready', 'running') AND lease_fact.remaining_ns > 0)
  FROM (SELECT DISTINCT tenant, schedule FROM run
         WHERE id IN (SELECT value FROM json_each(:ids)) AND schedule IS NOT NULL) AS mine

-- :name spending_beside
-- What other runs of the schedule have spent or set aside; those that wait and were counted later come after.
-- A run that goes on may cost what it has reserved once more for its next attempt; one that has ended, what it did.
SELECT counted_us,
       CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
            ELSE coalesce(cost_micro, reserved_micro) END,
       CASE WHEN :timed THEN coalesce((SELECT sum(coalesce(attempt.ended_us, wall_us()) - attempt.started_us)
                                         FROM attempt WHERE attempt.run_id = run.id),
                                      (SELECT past_attempt.ended_us - past_attempt.started_us
                                         FROM past_attempt WHERE past_attempt.run_id = run.id), 0) ELSE 0 END
  FROM run_seen AS run
 WHERE tenant = :tenant AND schedule = :schedule AND counted_us > :since_us AND id <> :id
   AND (started_us IS NOT NULL OR state = 'running' OR (state = 'ready' AND counted_us <= :counted_us))

-- :name take_runs
WITH given AS MATERIALIZED (
    SELECT :runs -> 'ids' -> key AS ids, value ->> 'lease_id' AS lease_id, value ->> 'fence' AS fence,
           value ->> 'worker' AS worker, value ->> 'started' AS started
      FROM json_each(:runs, '$.given'))
UPDATE run
   SET state = 'running', reason = NULL, lease_id = one.lease_id, fence = one.fence, worker = one.worker,
       attempt = attempt + 1, stop = NULL,
       started_us = CASE WHEN one.started THEN coalesce(started_us, wall_us()) ELSE started_us END
  FROM (SELECT each.value AS id, given.* FROM given, json_each(given.ids) AS each) AS one
 WHERE run.id = one.id AND run.state = 'ready'
RETURNING run.id

-- :name insert_attempts
WITH given AS MATERIALIZED (
    SELECT :runs -> 'ids' -> key AS ids, value ->> 'number' AS number, value ->> 'fence' AS fence,
           value ->> 'worker' AS worker, value ->> 'started' AS started
      FROM json_each(:runs, '$.given'))
INSERT INTO attempt (run_id, number, fence, worker, started_us)
SELECT each.value, number, fence, worker, CASE WHEN started THEN wall_us() END
  FROM given, json_each(given.ids) AS each

-- :name lock_runs
-- The whole file is locked already.
SELECT id, fence, state, stop
  FROM run
 WHERE id IN (SELECT value FROM json_each(:ids))
 ORDER BY id

-- :name start_runs
UPDATE run SET started_us = coalesce(started_us, wall_us())
  FROM (SELECT key AS id, value ->> 'fence' AS fence
          FROM json_each(:starting)) AS one
 WHERE run.id = one.id AND +run.fence = one.fence AND run.state = 'running'
RETURNING run.id

-- :name start_attempts
UPDATE attempt SET started_us = wall_us(), session = one.session
  FROM (SELECT key AS id, value ->> 'fence' AS fence, value ->> 'session' AS session
          FROM json_each(:starting)) AS one
 WHERE attempt.run_id = one.id AND attempt.fence = one.fence

-- :name settle_runs
-- Each attempt says what it cost itself; the run has cost all of them.
WITH given AS MATERIALIZED (
    SELECT :ended -> 'ids' -> key AS ids, value ->> 'fence' AS fence, value ->> 'state' AS state,
           value ->> 'reason' AS reason, value ->> 'ready_us' AS ready_us,
           value ->> 'steps_back' AS steps_back, value ->> 'refund' AS refund, value ->> 'resume' AS resume,
           value ->> 'never_began' AS never_began, value ->> 'exit_code' AS exit_code,
           value ->> 'cost_micro' AS cost_micro, value ->> 'summary' AS summary, value ->> 'log' AS log
      FROM json_each(:ended, '$.given'))
UPDATE run
   SET state = one.state, reason = one.reason, ready_us = coalesce(one.ready_us, run.ready_us),
       place_us = CASE WHEN one.steps_back THEN coalesce(one.ready_us, place_us) ELSE place_us END,
       attempt = attempt - one.refund, resume = one.resume,
       started_us = CASE WHEN one.never_began THEN NULL ELSE started_us END,
       ended_us = CASE WHEN one.state <> 'ready' THEN wall_us() END,
       exit_code = one.exit_code, cost_micro = coalesce(run.cost_micro + one.cost_micro, one.cost_micro, run.cost_micro),
       summary = coalesce(one.summary, run.summary), log = coalesce(one.log, run.log),
       lease_id = NULL, worker = NULL
  FROM (SELECT each.value AS id, given.* FROM given, json_each(given.ids) AS each) AS one
 WHERE run.id = one.id AND +run.fence = one.fence AND run.state = 'running'
RETURNING run.id, run.ended_us

-- :name settle_batch
-- As `settle_runs`, for runs of one lease that all ended for good in the same way, with nothing to report.
UPDATE run
   SET state = :state, reason = NULL, resume = false, ended_us = wall_us(), exit_code = :exit_code, lease_id = NULL,
       worker = NULL
 WHERE id IN (SELECT value FROM json_each(:ids)) AND +fence = :fence AND +lease_id = :lease_id AND state = 'running'
RETURNING id, ended_us

-- :name end_batch
-- As `end_attempts`, for the attempts of `settle_batch`.
UPDATE attempt
   SET ended_us = coalesce(ended_us, wall_us()), outcome = :outcome, exit_code = :exit_code
 WHERE run_id IN (SELECT value FROM json_each(:ids)) AND fence = :fence

-- :name end_attempts
WITH given AS MATERIALIZED (
    SELECT :ended -> 'ids' -> key AS ids, value ->> 'fence' AS fence, value ->> 'outcome' AS outcome,
           value ->> 'exit_code' AS exit_code, value ->> 'last_log' AS last_log,
           value ->> 'session' AS session, value ->> 'cost_micro' AS cost_micro, value ->> 'turns' AS turns,
           value ->> 'usage' AS usage, value ->> 'began' AS began
      FROM json_each(:ended, '$.given'))
UPDATE attempt
   SET ended_us = coalesce(ended_us, wall_us()), outcome = one.outcome, exit_code = one.exit_code,
       last_log = one.last_log, session = coalesce(one.session, attempt.session), cost_micro = one.cost_micro,
       turns = one.turns, usage = one.usage, started_us = CASE WHEN one.began THEN started_us END
  FROM (SELECT each.value AS id, given.* FROM given, json_each(given.ids) AS each) AS one
 WHERE attempt.run_id = one.id AND attempt.fence = one.fence

-- :name note_ends
-- The end of the newest tick-born run is what `every` counts from.
UPDATE schedule
   SET failures = one.failures, last_success_us = one.last_success_us,
       last_ended_us = coalesce(one.ended_us, last_ended_us),
       due_us = CASE WHEN one.ended_us IS NOT NULL AND NOT once_done AND retired_us IS NULL
                     THEN coalesce(one.due_us, schedule.due_us) ELSE schedule.due_us END
  FROM (SELECT value ->> 'tenant' AS tenant, value ->> 'name' AS name, value ->> 'failures' AS failures,
               value ->> 'last_success_us' AS last_success_us, value ->> 'ended_us' AS ended_us,
               value ->> 'due_us' AS due_us
          FROM json_each(:schedules)) AS one
 WHERE schedule.tenant = one.tenant AND schedule.name = one.name

-- :name end_ready
UPDATE run SET state = :state, reason = :reason, ended_us = wall_us()
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'ready'
RETURNING id, ended_us, tenant, schedule

-- :name ask_to_stop
UPDATE run SET stop = :reason
 WHERE id IN (SELECT value FROM json_each(:ids)) AND state = 'running' AND stop IS NULL
RETURNING id

-- :name stops_asked_of
SELECT run.id, run.stop
  FROM lease
  JOIN run ON run.lease_id = lease.id AND run.state = 'running'
 WHERE lease.keeper = :keeper AND lease.state = 'held' AND run.fence = lease.fence AND run.stop IS NOT NULL

-- :name lost_runs
SELECT run_fact.* FROM {run_fact}
  LEFT JOIN lease_fact ON lease_fact.id = run_fact.lease_id
 WHERE run_fact.state = 'running'
   AND (lease_fact.id IS NULL OR lease_fact.lost OR lease_fact.remaining_ns <= 0)
 ORDER BY run_fact.fence
 LIMIT :limit

-- :name put_checkpoint
-- Only a run that still holds its lease may leave a checkpoint: it may have been taken before another attempt has the run.
INSERT INTO checkpoint (run_id, fence, content, at_us)
SELECT run.id, run.fence, :content, wall_us()
  FROM run JOIN lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.epoch = :epoch
                               AND lease.state = 'held'
 WHERE run.id = :run_id AND run.fence = :fence AND run.state = 'running'
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, content = excluded.content, at_us = excluded.at_us
RETURNING run_id

-- :name next_ready
SELECT min(ready_us) FROM run WHERE state = 'ready' AND ready_us > wall_us()

-- :name overdue_runs
-- What has waited too long and never started.
SELECT * FROM {run_fact}
 WHERE state = 'ready' AND started_us IS NULL AND give_up_us <= wall_us()
 ORDER BY give_up_us
 LIMIT :limit

-- :name sessions_of
-- Which conversations the attempts of runs were in, the latest first, and what they told.
SELECT run_id, fence, session, cost_micro, usage
  FROM attempt
 WHERE run_id IN (SELECT value FROM json_each(:ids)) AND session IS NOT NULL
 ORDER BY fence DESC
