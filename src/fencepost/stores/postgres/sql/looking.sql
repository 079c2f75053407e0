-- :name look_runs
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s AND created_us >= %(since_us)s
   AND (%(state)s = '' OR state = %(state)s) AND (%(schedule)s = '' OR schedule = %(schedule)s)
   AND (%(agent)s = '' OR agent = %(agent)s)
   AND (NOT %(kept)s OR discarded_us IS NULL) AND (created_us, id) < (%(before_us)s, %(before_id)s)
 ORDER BY created_us DESC, id DESC
 LIMIT %(limit)s

-- :name look_dead
SELECT run_fact.*
  FROM fencepost.dead
  JOIN fencepost.run_fact ON run_fact.id = dead.id
 WHERE dead.tenant = %(tenant)s AND dead.created_us >= %(since_us)s
   AND (%(schedule)s = '' OR run_fact.schedule = %(schedule)s) AND (%(agent)s = '' OR run_fact.agent = %(agent)s)
   AND (NOT %(kept)s OR dead.is_kept) AND (dead.created_us, dead.id) < (%(before_us)s, %(before_id)s)
 ORDER BY dead.created_us DESC, dead.id DESC
 LIMIT %(limit)s

-- :name look_prefix
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s AND id >= %(prefix)s AND id < %(beyond)s
 ORDER BY id
 LIMIT %(limit)s

-- :name look_live
-- What runs, oldest first, then what waits, in the order in which it is leased.
SELECT *
  FROM fencepost.run_fact
 WHERE id IN (SELECT id FROM fencepost.ready WHERE tenant = %(tenant)s
              UNION ALL SELECT id FROM fencepost.running WHERE tenant = %(tenant)s)
   AND tenant = %(tenant)s AND state IN ('ready', 'running')
 ORDER BY state DESC, CASE state WHEN 'running' THEN 0 ELSE priority END DESC,
          CASE state WHEN 'running' THEN started_us ELSE ready_us END, id
 LIMIT %(limit)s

-- :name look_attempts
SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session,
       cost_micro, turns, usage
  FROM fencepost.attempt
 WHERE run_id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb))
 ORDER BY run_id, fence

-- :name look_alive
-- The runs of a schedule that had not ended at an instant.
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s
   AND created_us <= %(at_us)s AND (ended_us IS NULL OR ended_us >= %(at_us)s)
 ORDER BY created_us, id
 LIMIT %(limit)s

-- :name look_replays
-- Replays are younger than what they are made of, which an index knows.
SELECT origin, id, state FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us >= %(since_us)s
   AND origin IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb))
 ORDER BY created_us, id
 LIMIT %(limit)s

-- :name look_schedules
SELECT name, version, agent, definition, cursor_us, due_us, applied_us, skip_next, failures, last_success_us,
       retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND retired_us IS NULL
 ORDER BY name
 LIMIT %(limit)s

-- :name look_schedule
SELECT name, version, agent, definition, cursor_us, due_us, applied_us, skip_next, failures, last_success_us,
       retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(name)s

-- :name look_spending
-- The sums of `spending` that a look needs: since the month and the day began, and how many runs within an hour.
SELECT coalesce(sum(micro) FILTER (WHERE counted_us >= %(day_us)s), 0)::bigint,
       coalesce(sum(micro) FILTER (WHERE counted_us >= %(month_us)s), 0)::bigint,
       count(*) FILTER (WHERE counted_us > %(hour_us)s), coalesce(sum(took_us), 0)::bigint
  FROM (SELECT counted_us,
               CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
                    ELSE coalesce(cost_micro, reserved_micro) END AS micro,
               CASE WHEN %(timed)s AND counted_us >= %(day_us)s
                    THEN (SELECT sum(coalesce(attempt.ended_us, fencepost.clock_us()) - attempt.started_us)
                            FROM fencepost.attempt WHERE attempt.run_id = run.id) END AS took_us
          FROM fencepost.run
         WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND counted_us >= %(since_us)s
           AND (state IN ('ready', 'running') OR started_us IS NOT NULL)) AS each

-- :name look_names
SELECT name, 'schedule', retired_us IS NOT NULL FROM fencepost.schedule WHERE tenant = %(tenant)s
UNION ALL
SELECT name, 'agent', retired_us IS NOT NULL FROM fencepost.agent WHERE tenant = %(tenant)s

-- :name look_versions
SELECT version, definition, applied_us, after_us, until_us
  FROM fencepost.schedule_version
 WHERE tenant = %(tenant)s AND name = %(name)s
 ORDER BY version

-- :name look_ticks
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND tick_us < %(until_us)s AND tick_until_us >= %(from_us)s
   AND (%(disposition)s = '' OR disposition = %(disposition)s)
   AND (tick_us, occurrence) < (%(before_us)s, %(before)s)
 ORDER BY tick_us DESC, occurrence DESC
 LIMIT %(limit)s

-- :name look_following_tick
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND tick_us > %(at_us)s
 ORDER BY tick_us, occurrence
 LIMIT 1

-- :name look_pauses
SELECT schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = %(tenant)s AND schedule IN (%(schedule)s, '') AND since_us <= %(at_us)s AND until_us > %(at_us)s
 ORDER BY id

-- :name look_audit
-- What was decided about many runs at once names them all; whoever asks for one of them finds it.
SELECT seq, at_us, actor, verb, subject, detail
  FROM fencepost.audit
 WHERE tenant = %(tenant)s AND (%(verb)s = '' OR verb = %(verb)s) AND (%(subject)s = '' OR subject = %(subject)s
        OR (%(batched)s <> '' AND subject LIKE 'batch:%%' AND strpos(detail, %(batched)s) > 0))
   AND at_us <= %(until_us)s
   AND seq < %(before_seq)s
 ORDER BY seq DESC
 LIMIT %(limit)s

-- :name look_health
SELECT (SELECT count(*) FROM fencepost.running WHERE tenant = %(tenant)s),
       (SELECT count(*) FROM fencepost.ready WHERE tenant = %(tenant)s),
       (SELECT count(*) FROM fencepost.dead WHERE tenant = %(tenant)s AND is_kept),
       (SELECT count(*) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL),
       (SELECT count(*) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL AND due_us <= %(late_us)s),
       (SELECT min(due_us) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL AND due_us IS NOT NULL),
       (SELECT max(cursor_us) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL)

-- :name look_next
-- Whose turn comes first.
SELECT name, version, agent, definition, cursor_us, due_us, applied_us, skip_next, failures, last_success_us,
       retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE due_us IS NOT NULL AND tenant = %(tenant)s AND retired_us IS NULL
 ORDER BY due_us, name
 LIMIT %(limit)s

-- :name look_held_back
-- Every pause in force, and the halts.
SELECT schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = %(tenant)s AND since_us <= %(at_us)s AND until_us > %(at_us)s
 ORDER BY id

-- :name look_named_runs
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s AND id IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb))

-- :name look_pauses_ever
SELECT schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = %(tenant)s AND schedule IN (%(schedule)s, '')
 ORDER BY id DESC
 LIMIT %(limit)s

-- :name look_lingering
-- Transactions that have been open for so long, oldest first: nothing that was replaced since can be cleared away.
SELECT pid, application_name, usename, host(client_addr), state, age_us
  FROM (SELECT pid, coalesce(application_name, '') AS application_name, coalesce(usename, '') AS usename, client_addr,
               coalesce(state, '') AS state,
               (extract(epoch FROM clock_timestamp() - xact_start) * 1000000)::bigint AS age_us
          FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
         UNION ALL
        SELECT 0, gid, owner, NULL, 'prepared', (extract(epoch FROM clock_timestamp() - prepared) * 1000000)::bigint
          FROM pg_prepared_xacts
         WHERE database = current_database()) AS open
 WHERE age_us >= %(older_us)s
 ORDER BY age_us DESC
 LIMIT %(limit)s

-- :name look_skipped
-- What made no run lately and was not meant to be left out, summed up.
SELECT schedule, disposition, sum(count)::bigint, max(decided_us)
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND disposition <> 'run' AND decided_us >= %(since_us)s
   AND disposition IN ('missed', 'overlap', 'budget', 'dst_gap')
 GROUP BY schedule, disposition
 ORDER BY max(decided_us) DESC, schedule, disposition
 LIMIT %(limit)s

-- :name look_skips
-- Every tick that made no run, of all schedules, the latest decision first.
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND disposition <> 'run' AND (%(disposition)s = '' OR disposition = %(disposition)s)
   AND (decided_us, schedule, occurrence) < (%(before_us)s, %(before_schedule)s, %(before)s)
 ORDER BY decided_us DESC, schedule DESC, occurrence DESC
 LIMIT %(limit)s

-- :name look_ended
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s AND state IN ('succeeded', 'dead', 'cancelled')
 ORDER BY created_us DESC, id DESC
 LIMIT %(limit)s

-- :name look_commands
-- All states if none is named.
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = %(tenant)s AND started_us >= %(since_us)s AND (started_us, id) < (%(before_us)s, %(before_id)s)
   AND (%(states)s = '[]' OR state IN (SELECT jsonb_array_elements_text(%(states)s::jsonb)))
 ORDER BY started_us DESC, id DESC
 LIMIT %(limit)s

-- :name look_commands_under
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = %(tenant)s AND resource = %(resource)s AND started_us < %(until_us)s
 ORDER BY started_us DESC, id DESC
 LIMIT %(limit)s

-- :name look_command_after
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = %(tenant)s AND resource = %(resource)s AND started_us >= %(at_us)s
 ORDER BY started_us, id
 LIMIT 1

-- :name look_commands_like
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = %(tenant)s AND id >= %(prefix)s AND id < %(beyond)s
 ORDER BY id
 LIMIT %(limit)s

-- :name look_tick_records
SELECT record FROM fencepost.guarded_tick WHERE tenant = %(tenant)s AND resource = %(resource)s ORDER BY job
