-- :name ready_lines
-- Each tenant's lines by priority, the tenant first that was served longest ago. Lines are found by hopping from one
-- to the next, so that the number of runs in them does not matter.
WITH RECURSIVE line (tenant, rank) AS (
    (SELECT tenant, rank FROM fencepost.ready WHERE in_process = false ORDER BY tenant, rank LIMIT 1)
    UNION ALL
    SELECT next.tenant, next.rank
      FROM line
     CROSS JOIN LATERAL (SELECT ready.tenant, ready.rank FROM fencepost.ready
                          WHERE in_process = false AND (ready.tenant, ready.rank) > (line.tenant, line.rank)
                          ORDER BY ready.tenant, ready.rank LIMIT 1) AS next)
SELECT tenant, rank
  FROM (SELECT tenant, rank, (SELECT fence FROM fencepost.served WHERE served.tenant = line.tenant) AS served
          FROM line) AS each_line
 WHERE NOT EXISTS (SELECT 1 FROM fencepost.pause
                    WHERE pause.tenant = each_line.tenant AND schedule = ''
                      AND since_us <= fencepost.clock_us() AND until_us > fencepost.clock_us())
 ORDER BY served NULLS FIRST, tenant, rank

-- :name line_heads
-- Which runs may go, in order. One whose resources are held, or whose schedule has no room, hides none behind it.
-- Who works in a project goes when it is its turn there, or works apart in a worktree.
-- Those passed are an array, not a join: a join may lose the index's order, and then every run that waits is looked at.
SELECT ready.id, ready.schedule, run.resources, run.lease_max
  FROM fencepost.ready
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = ready.id AND state = 'ready' OFFSET 0) AS run
 WHERE ready.in_process = false AND ready.tenant = %(tenant)s AND ready.rank = %(rank)s
   AND ready.place_us <= (SELECT fencepost.clock_us()) AND ready.ready_us <= (SELECT fencepost.clock_us())
   AND ready.id <> ALL (ARRAY(SELECT jsonb_array_elements_text(%(passed)s::jsonb)))
   AND (ready.project IS NULL OR ready.id IN (SELECT jsonb_array_elements_text(%(turns)s::jsonb))
        OR (run.trigger <> 'manual' AND EXISTS (SELECT 1 FROM jsonb_array_elements(%(apart)s::jsonb) AS one
                                                 WHERE one ->> 0 = run.tenant AND one ->> 1 = run.project)))
   AND NOT EXISTS (SELECT 1 FROM fencepost.keys(run.resources) AS mine
                     JOIN fencepost.resource ON resource.tenant = mine.tenant AND resource.name = mine.name
                     JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
                    WHERE lease_fact.remaining_ns > 0)
   AND (run.resources NOT LIKE '%%"key:%%' OR fencepost.has_slots(run.resources))
   AND (ready.schedule IS NULL
        OR run.lease_max > (SELECT count(*) FROM fencepost.running AS other
                          JOIN fencepost.lease_fact ON lease_fact.id = other.lease_id AND NOT lease_fact.lost
                         WHERE other.tenant = ready.tenant AND other.schedule = ready.schedule
                           AND lease_fact.remaining_ns > 0))
 ORDER BY ready.place_us, ready.id
 LIMIT %(limit)s

-- :name taken_slots
-- What is leased of a concurrency key, in whatever form; '0' comes right after '/'.
SELECT resource.name
  FROM fencepost.resource
  JOIN fencepost.lease_fact ON lease_fact.id = resource.lease_id AND NOT lease_fact.lost
 WHERE resource.tenant = %(tenant)s AND lease_fact.remaining_ns > 0
   AND resource.name >= %(name)s AND resource.name < %(name)s || '0'
   AND (resource.name = %(name)s OR resource.name > %(name)s || '/')

-- :name definitions_of
SELECT tenant, name, definition FROM fencepost.schedule
 WHERE (tenant, name) IN (SELECT tenant, schedule FROM fencepost.run WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))))

-- :name lock_schedules_of
SELECT tenant, name, definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM fencepost.schedule
 WHERE (tenant, name) IN (SELECT tenant, schedule FROM fencepost.run WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))))
 ORDER BY tenant, name
   FOR UPDATE

-- :name try_schedules_of
SELECT tenant, name, definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM fencepost.schedule
 WHERE (tenant, name) IN (SELECT tenant, schedule FROM fencepost.run WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))))
 ORDER BY tenant, name
   FOR UPDATE SKIP LOCKED

-- :name runs_named
SELECT * FROM {run_fact} WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name try_runs
SELECT * FROM {run_fact}
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND state = 'ready'
   FOR UPDATE SKIP LOCKED

-- :name agents_of
-- The runs without a schedule whose agent is still defined.
SELECT run.id
  FROM fencepost.run
  JOIN fencepost.agent ON agent.tenant = run.tenant AND agent.name = run.agent AND agent.retired_us IS NULL
 WHERE run.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND run.schedule IS NULL

-- :name running_beside
-- How many runs of their schedules are under way. A lease whose time is up takes no room: its run is about to be settled.
SELECT mine.tenant, mine.schedule,
       (SELECT count(*)
          FROM fencepost.running
          JOIN fencepost.lease_fact ON lease_fact.id = running.lease_id AND NOT lease_fact.lost
         WHERE running.tenant = mine.tenant AND running.schedule = mine.schedule AND lease_fact.remaining_ns > 0)
  FROM (SELECT DISTINCT tenant, schedule FROM fencepost.run
         WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND schedule IS NOT NULL) AS mine

-- :name spending_beside
-- What other runs of the schedule have spent or set aside; those that wait and were counted later come after.
-- A run that goes on may cost what it has reserved once more for its next attempt; one that has ended, what it did.
SELECT counted_us,
       CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
            ELSE coalesce(cost_micro, reserved_micro) END,
       CASE WHEN %(timed)s THEN coalesce(
            (SELECT sum(coalesce(attempt.ended_us, fencepost.clock_us()) - attempt.started_us)::bigint
               FROM fencepost.attempt WHERE attempt.run_id = run.id),
            (SELECT past_attempt.ended_us - past_attempt.started_us
               FROM fencepost.past_attempt WHERE past_attempt.run_id = run.id), 0) ELSE 0 END
  FROM fencepost.run_seen AS run
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND counted_us > %(since_us)s AND id <> %(id)s
   AND (started_us IS NOT NULL OR state = 'running' OR (state = 'ready' AND counted_us <= %(counted_us)s))

-- :name take_runs
-- Keeps the queue's own tables itself, instead of the triggers: a worker that leases is in a hurry.
WITH given AS MATERIALIZED (
    SELECT %(runs)s::jsonb -> 'given' AS groups, fencepost.group_of(%(runs)s::jsonb -> 'ids') AS place),
taken AS (
    UPDATE fencepost.run
       SET state = 'running', reason = NULL, attempt = attempt + 1, stop = NULL, kept = coalesce(kept, 0) + 1,
           (lease_id, fence, worker, started_us) = (
               SELECT one.lease_id, one.fence, one.worker,
                      CASE WHEN one.started THEN coalesce(run.started_us, fencepost.clock_us()) ELSE run.started_us END
                 FROM jsonb_to_record(given.groups -> (given.place ->> run.id)::int) AS one (
                      lease_id text, fence bigint, worker text, started boolean))
      FROM given
     WHERE run.id = ANY (fencepost.ids_of(%(runs)s::jsonb -> 'ids')) AND run.state = 'ready'
    RETURNING run.id, run.lease_id, run.fence, run.in_process, run.tenant, run.rank, run.place_us, run.schedule),
gone AS (
    DELETE FROM fencepost.ready USING taken
     WHERE ready.in_process = taken.in_process AND ready.tenant = taken.tenant AND ready.rank = taken.rank
       AND ready.place_us = taken.place_us AND ready.id = taken.id),
now AS (
    INSERT INTO fencepost.running (lease_id, id, tenant, schedule) SELECT lease_id, id, tenant, schedule FROM taken),
served AS (
    SELECT fencepost.note_served(tenant, max(fence)) FROM taken GROUP BY tenant)
SELECT id, (SELECT count(*) FROM served) FROM taken

-- :name insert_attempts
INSERT INTO fencepost.attempt (run_id, number, fence, worker, started_us)
SELECT id, one.number, one.fence, one.worker, CASE WHEN one.started THEN (SELECT fencepost.clock_us()) END
  FROM jsonb_array_elements(%(runs)s::jsonb -> 'given') WITH ORDINALITY AS given (each, number)
 CROSS JOIN jsonb_to_record(given.each) AS one (number bigint, fence bigint, worker text, started boolean)
 CROSS JOIN jsonb_array_elements_text(%(runs)s::jsonb -> 'ids' -> (given.number - 1)::int) AS id

-- :name lock_runs
SELECT id, fence, state, stop
  FROM fencepost.run
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
 ORDER BY id
   FOR UPDATE

-- :name start_runs
WITH given AS MATERIALIZED (
    SELECT %(starting)s::jsonb AS each)
UPDATE fencepost.run SET started_us = coalesce(started_us, fencepost.clock_us())
  FROM given
 WHERE run.id = ANY (ARRAY(SELECT jsonb_object_keys(%(starting)s::jsonb)))
   AND run.fence = (given.each -> run.id ->> 'fence')::bigint AND run.state = 'running'
RETURNING run.id

-- :name start_attempts
WITH given AS MATERIALIZED (
    SELECT %(starting)s::jsonb AS each)
UPDATE fencepost.attempt SET started_us = fencepost.clock_us(), session = given.each -> run_id ->> 'session'
  FROM given
 WHERE attempt.run_id = ANY (ARRAY(SELECT jsonb_object_keys(%(starting)s::jsonb)))
   AND attempt.fence = (given.each -> attempt.run_id ->> 'fence')::bigint

-- :name settle_runs
-- Each attempt says what it cost itself; the run has cost all of them. Those that end for good are taken out of
-- `running` here; for those that come back, the triggers see to it.
WITH given AS MATERIALIZED (
    SELECT %(ended)s::jsonb -> 'given' AS groups,
           fencepost.group_of(%(ended)s::jsonb -> 'ids') AS place,
           fencepost.clock_us() AS now_us),
settled AS (
    UPDATE fencepost.run
       SET lease_id = NULL, worker = NULL,
           (state, reason, ready_us, place_us, attempt, resume, started_us, ended_us, exit_code, cost_micro, summary,
            log, kept) = (
               SELECT one.state, one.reason, coalesce(one.ready_us, run.ready_us),
                      CASE WHEN one.steps_back THEN coalesce(one.ready_us, run.place_us) ELSE run.place_us END,
                      run.attempt - one.refund, one.resume, CASE WHEN NOT one.never_began THEN run.started_us END,
                      CASE WHEN one.state <> 'ready' THEN given.now_us END, one.exit_code,
                      coalesce(run.cost_micro + one.cost_micro, one.cost_micro, run.cost_micro),
                      coalesce(one.summary, run.summary), coalesce(one.log, run.log),
                      CASE WHEN one.state <> 'ready' THEN coalesce(run.kept, 0) + 1 ELSE run.kept END
                 FROM jsonb_to_record(given.groups -> (given.place ->> run.id)::int) AS one (
                      state text, reason text, ready_us bigint, steps_back boolean, refund bigint, resume boolean,
                      never_began boolean, exit_code bigint, cost_micro bigint, summary text, log text))
      FROM given
     WHERE run.id = ANY (fencepost.ids_of(%(ended)s::jsonb -> 'ids'))
       AND run.fence = (given.groups -> (given.place ->> run.id)::int ->> 'fence')::bigint AND run.state = 'running'
    RETURNING run.id, run.ended_us, given.groups -> (given.place ->> run.id)::int ->> 'lease_id' AS lease_id),
gone AS (
    DELETE FROM fencepost.running USING settled
     WHERE running.lease_id = settled.lease_id AND running.id = settled.id AND settled.ended_us IS NOT NULL)
SELECT id, ended_us FROM settled

-- :name settle_batch
-- As `settle_runs`, for runs of one lease that all ended for good in the same way, with nothing to report.
WITH settled AS (
    UPDATE fencepost.run
       SET lease_id = NULL, worker = NULL, state = %(state)s, reason = NULL, resume = false, ended_us = now.us,
           exit_code = %(exit_code)s, kept = coalesce(run.kept, 0) + 1
      FROM (SELECT fencepost.clock_us() AS us OFFSET 0) AS now
     WHERE run.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND run.fence = %(fence)s
       AND run.state = 'running'
    RETURNING run.id, run.ended_us),
gone AS (
    DELETE FROM fencepost.running
     WHERE running.lease_id = %(lease_id)s AND running.id = ANY (ARRAY(SELECT id FROM settled)))
SELECT id, ended_us FROM settled

-- :name end_batch
-- As `end_attempts`, for the attempts of `settle_batch`.
UPDATE fencepost.attempt
   SET ended_us = coalesce(ended_us, now.us), outcome = %(outcome)s, exit_code = %(exit_code)s
  FROM (SELECT fencepost.clock_us() AS us OFFSET 0) AS now
 WHERE attempt.run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND attempt.fence = %(fence)s

-- :name end_attempts
WITH given AS MATERIALIZED (
    SELECT %(ended)s::jsonb -> 'given' AS groups,
           fencepost.group_of(%(ended)s::jsonb -> 'ids') AS place,
           fencepost.clock_us() AS now_us)
UPDATE fencepost.attempt
   SET ended_us = coalesce(ended_us, given.now_us),
       (outcome, exit_code, last_log, session, cost_micro, turns, usage, started_us) = (
           SELECT one.outcome, one.exit_code, one.last_log, coalesce(one.session, attempt.session), one.cost_micro,
                  one.turns, one.usage, CASE WHEN one.began THEN attempt.started_us END
             FROM jsonb_to_record(given.groups -> (given.place ->> attempt.run_id)::int) AS one (
                  outcome text, exit_code bigint, last_log text, session text, cost_micro bigint, turns bigint,
                  usage text, began boolean))
  FROM given
 WHERE attempt.run_id = ANY (fencepost.ids_of(%(ended)s::jsonb -> 'ids'))
   AND attempt.fence = (given.groups -> (given.place ->> attempt.run_id)::int ->> 'fence')::bigint

-- :name note_ends
-- The end of the newest tick-born run is what `every` counts from.
UPDATE fencepost.schedule
   SET failures = one.failures, last_success_us = one.last_success_us,
       last_ended_us = coalesce(one.ended_us, last_ended_us),
       due_us = CASE WHEN one.ended_us IS NOT NULL AND NOT once_done AND retired_us IS NULL
                     THEN coalesce(one.due_us, schedule.due_us) ELSE schedule.due_us END
  FROM jsonb_to_recordset(%(schedules)s::jsonb) AS one (
       tenant text, name text, failures bigint, last_success_us bigint, ended_us bigint, due_us bigint)
 WHERE schedule.tenant = one.tenant AND schedule.name = one.name

-- :name end_ready
UPDATE fencepost.run SET state = %(state)s, reason = %(reason)s, ended_us = fencepost.clock_us()
 WHERE id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'ready'
RETURNING id, ended_us, tenant, schedule

-- :name ask_to_stop
UPDATE fencepost.run SET stop = %(reason)s
 WHERE id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'running' AND stop IS NULL
RETURNING id

-- :name stops_asked_of
SELECT run.id, run.stop
  FROM fencepost.lease
  JOIN fencepost.running ON running.lease_id = lease.id
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = running.id OFFSET 0) AS run
 WHERE lease.keeper = %(keeper)s AND lease.state = 'held' AND run.fence = lease.fence AND run.state = 'running'
   AND run.stop IS NOT NULL

-- :name lost_runs
SELECT run_fact.*
  FROM fencepost.running
 CROSS JOIN LATERAL (SELECT * FROM {run_fact} WHERE id = running.id AND state = 'running' OFFSET 0) AS run_fact
  LEFT JOIN fencepost.lease_fact ON lease_fact.id = run_fact.lease_id
 WHERE lease_fact.id IS NULL OR lease_fact.lost OR lease_fact.remaining_ns <= 0
 ORDER BY run_fact.fence
 LIMIT %(limit)s

-- :name put_checkpoint
-- Only a run that still holds its lease may leave a checkpoint: it may have been taken before another attempt has the run.
-- The locks keep it so until this has been committed.
INSERT INTO fencepost.checkpoint (run_id, fence, content, at_us)
SELECT id, fence, %(content)s::text, fencepost.clock_us()
  FROM (SELECT run.id, run.fence
          FROM fencepost.run
          JOIN fencepost.lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.epoch = %(epoch)s
                               AND lease.state = 'held'
         WHERE run.id = %(run_id)s AND run.fence = %(fence)s AND run.state = 'running'
           FOR SHARE) AS mine
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, content = excluded.content, at_us = excluded.at_us
RETURNING run_id

-- :name next_ready
SELECT min(ready_us) FROM fencepost.ready WHERE is_later AND ready_us > (SELECT fencepost.clock_us())

-- :name overdue_runs
-- What has waited too long and never started.
SELECT run_fact.*
  FROM fencepost.ready
 CROSS JOIN LATERAL (SELECT * FROM {run_fact} WHERE id = ready.id AND state = 'ready' OFFSET 0) AS run_fact
 WHERE ready.is_fresh AND ready.give_up_us IS NOT NULL AND ready.give_up_us <= (SELECT fencepost.clock_us())
   AND run_fact.started_us IS NULL
 ORDER BY ready.give_up_us
 LIMIT %(limit)s

-- :name sessions_of
-- Which conversations the attempts of runs were in, the latest first, and what they told.
SELECT run_id, fence, session, cost_micro, usage
  FROM fencepost.attempt
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND session IS NOT NULL
 ORDER BY fence DESC
