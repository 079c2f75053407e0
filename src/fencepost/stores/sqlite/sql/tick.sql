-- :name due_schedules
-- No tick is decided while an apply of its tenant is being written down: half of it may be old, and half of it new.
SELECT tenant, name, version, agent, definition, manifest, hash, cursor_us, applied_us, skip_next, failures,
       last_success_us, last_run, last_ended_us, seen, due_us
  FROM schedule
 WHERE due_us <= wall_us() AND retired_us IS NULL AND tenant NOT IN (SELECT tenant FROM applying)
 ORDER BY due_us
 LIMIT :limit

-- :name coming_schedules
-- For a look ahead: nothing is locked, and nothing rests on it.
SELECT tenant, name, version, agent, definition, manifest, hash, cursor_us, applied_us, skip_next, failures,
       last_success_us, last_run, last_ended_us, seen, due_us
  FROM schedule
 WHERE due_us > wall_us() AND due_us < wall_us() + :within_us AND retired_us IS NULL
 ORDER BY due_us
 LIMIT :limit

-- :name wake_for_tzdata
-- A new tzdata may have moved what comes next to an earlier instant.
UPDATE schedule SET due_us = wall_us()
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:schedules))
   AND due_us > wall_us() AND trigger <> 'every'

-- :name live_runs
-- One look into the index for each schedule: CROSS JOIN keeps the order, and a long history must not matter.
SELECT run.tenant, run.schedule, run.id, run.trigger, run.state, run.started_us, run.lines_up
  FROM json_each(:schedules) AS one
 CROSS JOIN run INDEXED BY run_live ON run.tenant = one.value ->> 0 AND run.schedule = one.value ->> 1
 WHERE run.state IN ('ready', 'running')
 ORDER BY run.created_us, run.id

-- :name pauses_since
SELECT tenant, schedule, since_us, until_us, note
  FROM pause
 WHERE until_us > :since_us
   AND (tenant, schedule) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:schedules)
                              UNION SELECT value ->> 0, '' FROM json_each(:schedules))

-- :name spending
-- What has started costs money, also if it was cancelled then; what ended without a start does not.
-- A run that goes on may cost what it has reserved once more for its next attempt; one that has ended, what it did.
SELECT run.tenant, run.schedule, run.counted_us,
       CASE WHEN run.state IN ('ready', 'running') THEN coalesce(run.cost_micro, 0) + run.reserved_micro
            ELSE coalesce(run.cost_micro, run.reserved_micro) END,
       CASE WHEN :timed THEN coalesce((SELECT sum(coalesce(attempt.ended_us, wall_us()) - attempt.started_us)
                                         FROM attempt WHERE attempt.run_id = run.id),
                                      (SELECT past_attempt.ended_us - past_attempt.started_us
                                         FROM past_attempt WHERE past_attempt.run_id = run.id), 0) ELSE 0 END
  FROM json_each(:schedules) AS one
 CROSS JOIN run_seen AS run ON run.tenant = one.value ->> 0 AND run.schedule = one.value ->> 1
 WHERE run.counted_us > :since_us AND (run.state IN ('ready', 'running') OR run.started_us IS NOT NULL)

-- :name move_cursors
-- Compare and set: the scheduler that decided the same stretch of time first has moved the cursor.
UPDATE schedule
   SET cursor_us = next.value ->> 'cursor_us', due_us = next.value ->> 'due_us', skip_next = next.value ->> 'skip_next',
       seen = next.value ->> 'seen',
       last_run = coalesce(next.value ->> 'last_run', last_run),
       last_ended_us = iif(next.value ->> 'last_run' IS NULL, last_ended_us, NULL)
  FROM json_each(:moves) AS next
 WHERE schedule.tenant = next.value ->> 'tenant' AND schedule.name = next.value ->> 'name'
   AND schedule.version = next.value ->> 'version' AND schedule.cursor_us = next.value ->> 'cursor_was_us'
   AND schedule.last_run IS next.value ->> 'last_was'
   AND schedule.retired_us IS NULL AND schedule.due_us IS NOT NULL
RETURNING schedule.tenant, schedule.name

-- :name insert_ticks
-- An occurrence that was decided before is not recorded again; what comes back is new.
INSERT INTO tick (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count,
                  disposition, run_id, into_us, tzdata, behind, decided_us)
SELECT value ->> 'tenant', value ->> 'schedule', value ->> 'occurrence', value ->> 'version',
       value ->> 'slot', value ->> 'slot_until', value ->> 'tick_us', value ->> 'tick_until_us', value ->> 'count',
       value ->> 'disposition', value ->> 'run_id', value ->> 'into_us', value ->> 'tzdata',
       value ->> 'behind', wall_us()
  FROM json_each(:ticks)
 WHERE true
ON CONFLICT (tenant, schedule, occurrence) DO NOTHING
RETURNING tenant, schedule, occurrence

-- :name insert_runs
-- A run whose key is known already is not made again; what comes back was made.
INSERT INTO run ({new_run}, project, rank,
                 state, created_us, waiting_us, place_us, give_up_us)
SELECT {new_run_values}, value ->> 'project', -(value ->> 'priority'),
       'ready', wall_us(), max(wall_us(), value ->> 'ready_us'), value ->> 'ready_us',
       max(wall_us(), value ->> 'ready_us') + (value ->> 'queue_for_us')
  FROM json_each(:runs)
 WHERE true
ON CONFLICT (tenant, coalesce(schedule, agent), request_key) WHERE request_key IS NOT NULL DO NOTHING
RETURNING id

-- :name announce
-- A file cannot be listened to; workers look by themselves.
SELECT :what

-- :name write_audit
INSERT INTO audit (tenant, at_us, actor, verb, subject, detail)
SELECT value ->> 'tenant', wall_us(), value ->> 'actor', value ->> 'verb', value ->> 'subject', value ->> 'detail'
  FROM json_each(:entries)

-- :name note_displaced
-- A run that made room has ended: if `every` waited for its end, the ticker must look.
UPDATE schedule
   SET last_ended_us = one.value ->> 1,
       due_us = CASE WHEN trigger = 'every' AND NOT once_done AND retired_us IS NULL
                     THEN one.value ->> 1 ELSE due_us END
  FROM json_each(:ended) AS one
 WHERE tenant = one.value ->> 2 AND name = one.value ->> 3 AND last_run = one.value ->> 0
