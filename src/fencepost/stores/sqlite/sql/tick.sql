-- :name clock
SELECT wall_us()

-- :name due_schedules
SELECT tenant, name, version, agent, definition, manifest, hash, cursor_us, applied_us, skip_next, failures,
       last_success_us, last_run, last_ended_us
  FROM schedule
 WHERE due_us <= wall_us() AND retired_us IS NULL
 ORDER BY due_us
 LIMIT :limit

-- :name live_runs
SELECT tenant, schedule, id, trigger, state, attempt, lines_up
  FROM run
 WHERE state IN ('ready', 'running')
   AND (tenant, schedule) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:schedules))
 ORDER BY created_us, id

-- :name pauses_since
SELECT tenant, schedule, since_us, until_us, note
  FROM pause
 WHERE until_us > :since_us
   AND (tenant, schedule) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:schedules)
                              UNION SELECT value ->> 0, '' FROM json_each(:schedules))

-- :name spending
SELECT tenant, schedule, counted_us, coalesce(cost_micro, reserved_micro)
  FROM run
 WHERE counted_us > :since_us AND state <> 'cancelled'
   AND (tenant, schedule) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:schedules))

-- :name move_cursors
-- Compare and set: whoever decided the same stretch of time first has moved the cursor.
UPDATE schedule
   SET cursor_us = next.value ->> 'cursor_us', due_us = next.value ->> 'due_us', skip_next = next.value ->> 'skip_next',
       last_run = coalesce(next.value ->> 'last_run', last_run),
       last_ended_us = iif(next.value ->> 'last_run' IS NULL, last_ended_us, NULL)
  FROM json_each(:moves) AS next
 WHERE schedule.tenant = next.value ->> 'tenant' AND schedule.name = next.value ->> 'name'
   AND schedule.version = next.value ->> 'version' AND schedule.cursor_us = next.value ->> 'cursor_was_us'
RETURNING schedule.tenant, schedule.name

-- :name insert_ticks
INSERT INTO tick (tenant, schedule, occurrence, version, slot, slot_until, tick_us, tick_until_us, count,
                  disposition, run_id, into_us, tzdata, decided_us)
SELECT value ->> 'tenant', value ->> 'schedule', value ->> 'occurrence', value ->> 'version',
       value ->> 'slot', value ->> 'slot_until', value ->> 'tick_us', value ->> 'tick_until_us', value ->> 'count',
       value ->> 'disposition', value ->> 'run_id', value ->> 'into_us', value ->> 'tzdata', wall_us()
  FROM json_each(:ticks)

-- :name insert_runs
INSERT INTO run (id, tenant, agent, schedule, version, trigger, occurrence, tick_us,
                 period_start_us, period_end_us, backfill_from_us, last_success_us, idempotency_key, request_key, origin,
                 manifest, manifest_hash, payload, resources, lease_max, lines_up, priority,
                 state, created_us, waiting_us, ready_us, reserved_micro, counted_us)
SELECT value ->> 'id', value ->> 'tenant', value ->> 'agent', value ->> 'schedule', value ->> 'version',
       value ->> 'trigger', value ->> 'occurrence', value ->> 'tick_us',
       value ->> 'period_start_us', value ->> 'period_end_us', value ->> 'backfill_from_us',
       value ->> 'last_success_us', value ->> 'idempotency_key', value ->> 'request_key', value ->> 'origin',
       value ->> 'manifest', value ->> 'manifest_hash', value ->> 'payload', value ->> 'resources',
       value ->> 'lease_max', value ->> 'lines_up', value ->> 'priority',
       'ready', wall_us(), max(wall_us(), value ->> 'ready_us'), value ->> 'ready_us',
       value ->> 'reserved_micro', value ->> 'counted_us'
  FROM json_each(:runs)

-- :name ticks_of
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us, decided_us
  FROM tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_until_us >= :from_us AND tick_us < :until_us
 ORDER BY tick_us DESC
 LIMIT :limit

-- :name write_audit
INSERT INTO audit (tenant, at_us, actor, verb, subject, detail)
SELECT value ->> 'tenant', wall_us(), value ->> 'actor', value ->> 'verb', value ->> 'subject', value ->> 'detail'
  FROM json_each(:entries)

-- :name known_ticks
SELECT tenant, schedule, occurrence FROM tick
 WHERE (tenant, schedule, occurrence) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:occurrences))
