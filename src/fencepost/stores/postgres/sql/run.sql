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
-- Who may go, in order. Those whose resources somebody holds, or whose schedule has no room, hide nobody behind them.
-- Who works in a project goes when it is its turn there, or works apart in a worktree.
-- Those passed are an array, not a join: a join may lose the index's order, and then everybody who waits is looked at.
SELECT ready.id, ready.schedule
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

-- :name running_of
-- A lease whose time is up takes no room: its run is about to be settled as lost.
SELECT count(*)
  FROM fencepost.running
  JOIN fencepost.lease_fact ON lease_fact.id = running.lease_id AND NOT lease_fact.lost
 WHERE running.tenant = %(tenant)s AND running.schedule = %(schedule)s AND lease_fact.remaining_ns > 0

-- :name lock_schedule
SELECT definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(schedule)s
   FOR UPDATE

-- :name try_schedule
SELECT definition, retired_us IS NULL, once_done, failures, last_success_us, last_run
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(schedule)s
   FOR UPDATE SKIP LOCKED

-- :name try_run
SELECT * FROM fencepost.run_fact WHERE id = %(id)s AND state = 'ready' FOR UPDATE SKIP LOCKED

-- :name lock_run
SELECT * FROM fencepost.run_fact WHERE id = %(id)s AND tenant = %(tenant)s FOR UPDATE

-- :name agent_in_force
SELECT definition, hash FROM fencepost.agent WHERE tenant = %(tenant)s AND name = %(agent)s AND retired_us IS NULL

-- :name spending_beside
-- What other runs of the schedule have spent or set aside; those that wait and were counted later come after.
-- A run that goes on may cost what it has reserved once more for its next attempt; one that has ended, what it did.
SELECT counted_us,
       CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
            ELSE coalesce(cost_micro, reserved_micro) END,
       CASE WHEN %(timed)s THEN (
            SELECT coalesce(sum(coalesce(attempt.ended_us, fencepost.clock_us()) - attempt.started_us), 0)::bigint
              FROM fencepost.attempt WHERE attempt.run_id = run.id) ELSE 0 END
  FROM fencepost.run
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND counted_us > %(since_us)s AND id <> %(id)s
   AND (started_us IS NOT NULL OR state = 'running' OR (state = 'ready' AND counted_us <= %(counted_us)s))

-- :name take_run
UPDATE fencepost.run
   SET state = 'running', reason = NULL, lease_id = %(lease_id)s, fence = %(fence)s, worker = %(worker)s,
       attempt = attempt + 1, stop = NULL
 WHERE id = %(id)s AND state = 'ready'
RETURNING attempt

-- :name insert_attempt
INSERT INTO fencepost.attempt (run_id, number, fence, worker) VALUES (%(run_id)s, %(number)s, %(fence)s, %(worker)s)

-- :name spend_once
-- Retire at the first start what shall run once: nothing is due any more.
UPDATE fencepost.schedule SET once_done = true, due_us = NULL
 WHERE tenant = %(tenant)s AND name = %(schedule)s AND NOT once_done
RETURNING cursor_us

-- :name close_version
-- A version has decided all that it had to.
UPDATE fencepost.schedule_version SET until_us = %(cursor_us)s
 WHERE tenant = %(tenant)s AND name = %(schedule)s AND until_us IS NULL

-- :name start_run
UPDATE fencepost.run SET started_us = coalesce(started_us, fencepost.clock_us())
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'
RETURNING id

-- :name start_attempt
UPDATE fencepost.attempt SET started_us = fencepost.clock_us(), session = %(session)s
 WHERE run_id = %(run_id)s AND fence = %(fence)s

-- :name settle_run
-- Each attempt says what it cost itself; the run has cost all of them.
UPDATE fencepost.run
   SET state = %(state)s, reason = %(reason)s, ready_us = coalesce(%(ready_us)s::bigint, ready_us),
       place_us = CASE WHEN %(steps_back)s THEN coalesce(%(ready_us)s::bigint, place_us) ELSE place_us END,
       attempt = attempt - %(refund)s, resume = %(resume)s,
       ended_us = CASE WHEN %(state)s <> 'ready' THEN fencepost.clock_us() END,
       exit_code = %(exit_code)s, cost_micro = coalesce(cost_micro + %(cost_micro)s::bigint, %(cost_micro)s::bigint, cost_micro),
       summary = coalesce(%(summary)s::text, summary), log = coalesce(%(log)s::text, log),
       lease_id = NULL, worker = NULL
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'
RETURNING ended_us

-- :name end_attempt
UPDATE fencepost.attempt
   SET ended_us = coalesce(ended_us, fencepost.clock_us()), outcome = %(outcome)s, exit_code = %(exit_code)s,
       last_log = %(last_log)s, session = coalesce(%(session)s::text, session),
       cost_micro = %(cost_micro)s, turns = %(turns)s, usage = %(usage)s
 WHERE run_id = %(run_id)s AND fence = %(fence)s

-- :name attempt_of
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns, usage
  FROM fencepost.attempt
 WHERE run_id = %(run_id)s AND fence = %(fence)s

-- :name note_end
UPDATE fencepost.schedule
   SET failures = %(failures)s, last_success_us = %(last_success_us)s,
       last_ended_us = CASE WHEN last_run = %(run_id)s THEN %(ended_us)s::bigint ELSE last_ended_us END,
       due_us = CASE WHEN last_run = %(run_id)s AND NOT once_done AND retired_us IS NULL
                     THEN coalesce(%(due_us)s::bigint, due_us) ELSE due_us END
 WHERE tenant = %(tenant)s AND name = %(schedule)s

-- :name insert_pause
INSERT INTO fencepost.pause (tenant, schedule, since_us, until_us, note, by_whom)
VALUES (%(tenant)s, %(schedule)s, %(since_us)s, %(until_us)s, %(note)s, %(by_whom)s)

-- :name end_ready
UPDATE fencepost.run SET state = %(state)s, reason = %(reason)s, ended_us = fencepost.clock_us()
 WHERE id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'ready'
RETURNING id, ended_us, tenant, schedule

-- :name ask_to_stop
UPDATE fencepost.run SET stop = %(reason)s
 WHERE id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb)) AND state = 'running' AND stop IS NULL
RETURNING id

-- :name stop_asked
SELECT stop FROM fencepost.run WHERE id = %(id)s AND fence = %(fence)s AND state = 'running'

-- :name lost_runs
SELECT run_fact.*
  FROM fencepost.running
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run_fact WHERE id = running.id AND state = 'running' OFFSET 0) AS run_fact
  LEFT JOIN fencepost.lease_fact ON lease_fact.id = run_fact.lease_id
 WHERE lease_fact.id IS NULL OR lease_fact.lost OR lease_fact.remaining_ns <= 0
 ORDER BY run_fact.fence
 LIMIT %(limit)s

-- :name lease_of
SELECT * FROM fencepost.lease_fact WHERE id = %(id)s

-- :name lock_lease
SELECT * FROM fencepost.lease_fact WHERE id = %(id)s FOR UPDATE

-- :name run
SELECT * FROM fencepost.run_fact WHERE id = %(id)s AND tenant = %(tenant)s

-- :name runs
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s
   AND (%(state)s = '' OR state = %(state)s) AND (%(schedule)s = '' OR schedule = %(schedule)s)
   AND (%(agent)s = '' OR agent = %(agent)s)
   AND (NOT %(live)s OR state IN ('ready', 'running')) AND (NOT %(kept)s OR discarded_us IS NULL)
 ORDER BY created_us DESC, id DESC
 LIMIT %(limit)s

-- :name attempts
SELECT number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session, cost_micro, turns, usage
  FROM fencepost.attempt WHERE run_id = %(run_id)s ORDER BY fence

-- :name discard
UPDATE fencepost.run SET discarded_us = fencepost.clock_us()
 WHERE id = %(id)s AND tenant = %(tenant)s AND state = 'dead' AND discarded_us IS NULL
RETURNING id

-- :name put_checkpoint
-- Only a run that still holds its lease may leave a checkpoint: it may have been taken before anybody has the run.
-- The locks keep it so until this has been committed.
INSERT INTO fencepost.checkpoint (run_id, fence, content, at_us)
SELECT id, fence, %(content)s::text, fencepost.clock_us()
  FROM (SELECT run.id, run.fence
          FROM fencepost.run
          JOIN fencepost.lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.state = 'held'
         WHERE run.id = %(run_id)s AND run.fence = %(fence)s AND run.state = 'running'
           FOR SHARE) AS mine
ON CONFLICT (run_id) DO UPDATE SET fence = excluded.fence, content = excluded.content, at_us = excluded.at_us
RETURNING run_id

-- :name checkpoint
SELECT content FROM fencepost.checkpoint WHERE run_id = %(run_id)s

-- :name next_ready
SELECT min(ready_us) FROM fencepost.ready WHERE is_later AND ready_us > (SELECT fencepost.clock_us())

-- :name overdue_runs
-- What has waited too long and never started.
SELECT run_fact.*
  FROM fencepost.ready
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run_fact WHERE id = ready.id AND state = 'ready' OFFSET 0) AS run_fact
 WHERE ready.is_fresh AND ready.give_up_us IS NOT NULL AND ready.give_up_us <= (SELECT fencepost.clock_us())
   AND run_fact.started_us IS NULL
 ORDER BY ready.give_up_us
 LIMIT %(limit)s

-- :name definition_of
SELECT definition FROM fencepost.schedule WHERE tenant = %(tenant)s AND name = %(schedule)s

-- :name note_session
-- Only a run that still holds its lease may name its session.
UPDATE fencepost.attempt SET session = %(session)s
 WHERE run_id = %(run_id)s AND fence = %(fence)s
   AND EXISTS (SELECT 1
                 FROM fencepost.run
                 JOIN fencepost.lease ON lease.id = run.lease_id AND lease.fence = run.fence AND lease.state = 'held'
                WHERE run.id = %(run_id)s AND run.fence = %(fence)s AND run.state = 'running')
RETURNING run_id

-- :name sessions_of
-- Which conversations the attempts of a run were in, the latest first, and what they told.
SELECT session, cost_micro, usage FROM fencepost.attempt WHERE run_id = %(run_id)s AND session IS NOT NULL ORDER BY fence DESC

-- :name put_completion
-- Whoever carries a run out elsewhere proves its fence; what was said last stands, until it is the end.
INSERT INTO fencepost.completion (run_id, fence, state, content, beats, at_us)
SELECT id, fence, %(state)s, %(content)s, 1, fencepost.clock_us()
  FROM fencepost.run WHERE id = %(run_id)s AND tenant = %(tenant)s AND fence = %(fence)s AND state = 'running' FOR UPDATE
ON CONFLICT (run_id, fence) DO UPDATE
   SET beats = completion.beats + 1, at_us = fencepost.clock_us(),
       state = CASE WHEN completion.state = 'running' THEN excluded.state ELSE completion.state END,
       content = CASE WHEN completion.state = 'running' THEN excluded.content ELSE completion.content END
RETURNING state

-- :name completion
-- The newest word about a run; an end that came before its worker was lost still counts.
SELECT fence, state, content, beats FROM fencepost.completion
 WHERE run_id = %(run_id)s
 ORDER BY state = 'running', fence DESC
 LIMIT 1
