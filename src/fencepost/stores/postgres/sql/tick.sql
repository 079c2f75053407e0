-- :name due_schedules
-- Rows that another scheduler is deciding right now are left to it. The clock is read once: an index wants that.
-- No tick is decided while an apply of its tenant is being written down: half of it may be old, and half of it new.
SELECT tenant, name, version, agent, definition, manifest, hash, cursor_us, applied_us, skip_next, failures,
       last_success_us, last_run, last_ended_us, seen, due_us
  FROM fencepost.schedule
 WHERE due_us <= (SELECT fencepost.clock_us()) AND retired_us IS NULL
   AND tenant <> ALL (ARRAY(SELECT tenant FROM fencepost.applying))
 ORDER BY due_us
 LIMIT %(limit)s
   FOR UPDATE SKIP LOCKED

-- :name coming_schedules
-- For a look ahead: nothing is locked, and nothing rests on it.
SELECT tenant, name, version, agent, definition, manifest, hash, cursor_us, applied_us, skip_next, failures,
       last_success_us, last_run, last_ended_us, seen, due_us
  FROM fencepost.schedule
 WHERE due_us > (SELECT fencepost.clock_us()) AND due_us < (SELECT fencepost.clock_us()) + %(within_us)s AND retired_us IS NULL
 ORDER BY due_us
 LIMIT %(limit)s

-- :name wake_for_tzdata
-- A new tzdata may have moved what comes next to an earlier instant.
WITH waking AS (
    SELECT schedule.tenant, schedule.name
      FROM jsonb_array_elements(%(schedules)s::jsonb) AS one
     CROSS JOIN LATERAL (SELECT tenant, name FROM fencepost.schedule
                          WHERE tenant = one.value ->> 0 AND name = one.value ->> 1
                            AND due_us > (SELECT fencepost.clock_us()) AND trigger <> 'every'
                         OFFSET 0 FOR UPDATE) AS schedule)
UPDATE fencepost.schedule SET due_us = (SELECT fencepost.clock_us())
  FROM waking
 WHERE schedule.tenant = waking.tenant AND schedule.name = waking.name

-- :name live_runs
-- One look into each index for each schedule: the planner must not think of reading a whole table.
SELECT run.tenant, run.schedule, run.id, trigger, state, started_us, lines_up
  FROM jsonb_array_elements(%(schedules)s::jsonb) AS one
 CROSS JOIN LATERAL (SELECT id FROM fencepost.ready
                      WHERE tenant = one.value ->> 0 AND schedule = one.value ->> 1
                     UNION ALL
                     SELECT id FROM fencepost.running
                      WHERE tenant = one.value ->> 0 AND schedule = one.value ->> 1
                     OFFSET 0) AS live
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run WHERE id = live.id AND state IN ('ready', 'running') OFFSET 0) AS run
 ORDER BY created_us, run.id

-- :name pauses_since
SELECT tenant, schedule, since_us, until_us, note
  FROM fencepost.pause
 WHERE until_us > %(since_us)s
   AND (tenant, schedule) IN (SELECT value ->> 0, value ->> 1 FROM jsonb_array_elements(%(schedules)s::jsonb)
                              UNION SELECT value ->> 0, '' FROM jsonb_array_elements(%(schedules)s::jsonb))

-- :name spending
-- What has started costs money, also if it was cancelled then; what ended without a start does not.
-- A run that goes on may cost what it has reserved once more for its next attempt; one that has ended, what it did.
SELECT run.tenant, run.schedule, counted_us,
       CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
            ELSE coalesce(cost_micro, reserved_micro) END,
       CASE WHEN %(timed)s THEN coalesce(
            (SELECT sum(coalesce(attempt.ended_us, fencepost.clock_us()) - attempt.started_us)::bigint
               FROM fencepost.attempt WHERE attempt.run_id = run.id),
            (SELECT past_attempt.ended_us - past_attempt.started_us
               FROM fencepost.past_attempt WHERE past_attempt.run_id = run.id), 0) ELSE 0 END
  FROM jsonb_array_elements(%(schedules)s::jsonb) AS one
 CROSS JOIN LATERAL (SELECT * FROM fencepost.run_seen
                      WHERE tenant = one.value ->> 0 AND schedule = one.value ->> 1 AND counted_us > %(since_us)s
                        AND (state IN ('ready', 'running') OR started_us IS NOT NULL) OFFSET 0) AS run

-- :name move_cursors
-- Compare and set: the scheduler that decided the same stretch of time first has moved the cursor.
UPDATE fencepost.schedule
   SET cursor_us = next.cursor_us, due_us = next.due_us, skip_next = next.skip_next, seen = next.seen,
       last_run = coalesce(next.last_run, schedule.last_run),
       last_ended_us = CASE WHEN next.last_run IS NULL THEN schedule.last_ended_us END
  FROM jsonb_to_recordset(%(moves)s::jsonb) AS next (
       tenant text, name text, version bigint, cursor_was_us bigint, last_was text, cursor_us bigint, due_us bigint,
       skip_next text, seen text, last_run text)
 WHERE schedule.tenant = next.tenant AND schedule.name = next.name
   AND schedule.version = next.version AND schedule.cursor_us = next.cursor_was_us
   AND schedule.last_run IS NOT DISTINCT FROM next.last_was
   AND schedule.retired_us IS NULL AND schedule.due_us IS NOT NULL
RETURNING schedule.tenant, schedule.name

-- :name insert_ticks
-- An occurrence that was decided before is not recorded again; what comes back is new.
INSERT INTO fencepost.tick (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count,
                            disposition, run_id, into_us, tzdata, behind, decided_us)
SELECT tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count,
       disposition, run_id, into_us, tzdata, behind, (SELECT fencepost.clock_us())
  FROM jsonb_to_recordset(%(ticks)s::jsonb) AS one (
       tenant text, schedule text, occurrence text, version bigint, slot text, slot_until text,
       tick_us bigint, tick_until_us bigint, count bigint, disposition text, run_id text, into_us bigint, tzdata text,
       behind text)
ON CONFLICT (tenant, schedule, occurrence) DO NOTHING
RETURNING tenant, schedule, occurrence

-- :name insert_runs
-- A run whose key is known already is not made again; what comes back was made.
WITH made AS (
    INSERT INTO fencepost.run ({new_run}, project, rank,
                               state, created_us, waiting_us, place_us, give_up_us, kept)
    SELECT {new_run}, project, -priority,
           'ready', now_us, greatest(now_us, ready_us), ready_us, greatest(now_us, ready_us) + queue_for_us, 0
      FROM jsonb_to_recordset(%(runs)s::jsonb) AS one ({new_run_types}, queue_for_us bigint, project text),
           (SELECT fencepost.clock_us() AS now_us) AS clock
    ON CONFLICT (tenant, coalesce(schedule, agent), request_key) WHERE request_key IS NOT NULL DO NOTHING
    RETURNING id, in_process, tenant, rank, place_us, ready_us, created_us, give_up_us, agent, schedule, project),
queued AS (
    INSERT INTO fencepost.ready (in_process, tenant, rank, place_us, id, ready_us, is_later, is_fresh, give_up_us,
                                 agent, schedule, project)
    SELECT in_process, tenant, rank, place_us, id, ready_us, ready_us > created_us, true, give_up_us,
           agent, schedule, project
      FROM made)
SELECT id FROM made

-- :name announce
-- A hint for workers that listen; a worker that misses it looks by itself a moment later.
SELECT pg_notify('fencepost', %(what)s)

-- :name write_audit
INSERT INTO fencepost.audit (tenant, at_us, actor, verb, subject, detail)
SELECT tenant, (SELECT fencepost.clock_us()), actor, verb, subject, detail
  FROM jsonb_to_recordset(%(entries)s::jsonb) AS one (tenant text, actor text, verb text, subject text, detail text)

-- :name note_displaced
-- A run that made room has ended: if `every` waited for its end, the ticker must look.
UPDATE fencepost.schedule
   SET last_ended_us = (one.value ->> 1)::bigint,
       due_us = CASE WHEN trigger = 'every' AND NOT once_done AND retired_us IS NULL
                     THEN (one.value ->> 1)::bigint ELSE due_us END
  FROM jsonb_array_elements(%(ended)s::jsonb) AS one
 WHERE tenant = one.value ->> 2 AND name = one.value ->> 3 AND last_run = one.value ->> 0
