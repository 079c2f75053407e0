-- :name look_runs
SELECT * FROM fencepost.run_seen
 WHERE tenant = :tenant AND created_us >= :since_us
   AND (:state = '' OR state = :state) AND (:schedule = '' OR schedule = :schedule)
   AND (:agent = '' OR agent = :agent)
   AND (NOT :kept OR discarded_us IS NULL) AND (created_us, id) < (:before_us, :before_id)
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name look_prefix
SELECT * FROM fencepost.run_seen
 WHERE tenant = :tenant AND id >= :prefix AND id < :beyond
 ORDER BY id
 LIMIT :limit

-- :name look_alive
-- The runs of a schedule that had not ended at an instant.
SELECT * FROM fencepost.run_seen
 WHERE tenant = :tenant AND schedule = :schedule
   AND created_us <= :at_us AND (ended_us IS NULL OR ended_us >= :at_us)
 ORDER BY created_us, id
 LIMIT :limit

-- :name look_schedules
SELECT name, version, agent, definition, cursor_us, due_us, applied_us, skip_next, failures, last_success_us,
       retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = :tenant AND retired_us IS NULL
 ORDER BY name
 LIMIT :limit

-- :name look_schedule
SELECT name, version, agent, definition, cursor_us, due_us, applied_us, skip_next, failures, last_success_us,
       retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE tenant = :tenant AND name = :name

-- :name look_spending
-- The sums of `spending` that a look needs: since the month and the day began, and how many runs within an hour.
SELECT coalesce(sum(micro) FILTER (WHERE counted_us >= :day_us), 0)::bigint,
       coalesce(sum(micro) FILTER (WHERE counted_us >= :month_us), 0)::bigint,
       count(*) FILTER (WHERE counted_us > :hour_us), coalesce(sum(took_us), 0)::bigint
  FROM (SELECT counted_us,
               CASE WHEN state IN ('ready', 'running') THEN coalesce(cost_micro, 0) + reserved_micro
                    ELSE coalesce(cost_micro, reserved_micro) END AS micro,
               CASE WHEN :timed AND counted_us >= :day_us
                    THEN coalesce((SELECT sum(coalesce(attempt.ended_us, fencepost.clock_us()) - attempt.started_us)
                                     FROM fencepost.attempt WHERE attempt.run_id = run_seen.id),
                                  (SELECT past_attempt.ended_us - past_attempt.started_us
                                     FROM fencepost.past_attempt WHERE past_attempt.run_id = run_seen.id)) END AS took_us
          FROM fencepost.run_seen
         WHERE tenant = :tenant AND schedule = :schedule AND counted_us >= :since_us
           AND (state IN ('ready', 'running') OR started_us IS NOT NULL)) AS each

-- :name look_names
SELECT name, 'schedule', retired_us IS NOT NULL FROM fencepost.schedule WHERE tenant = :tenant
UNION ALL
SELECT name, 'agent', retired_us IS NOT NULL FROM fencepost.agent WHERE tenant = :tenant

-- :name look_versions
SELECT version, definition, applied_us, after_us, until_us
  FROM fencepost.schedule_version
 WHERE tenant = :tenant AND name = :name
 ORDER BY version

-- :name look_following_tick
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM fencepost.tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us > :at_us
 ORDER BY tick_us, occurrence
 LIMIT 1

-- :name look_pauses
SELECT schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = :tenant AND schedule IN (:schedule, '') AND since_us <= :at_us AND until_us > :at_us
 ORDER BY id

-- :name look_next
-- Whose turn comes first.
SELECT name, version, agent, definition, cursor_us, due_us, applied_us, skip_next, failures, last_success_us,
       retired_us, once_done, last_run, last_ended_us
  FROM fencepost.schedule
 WHERE due_us IS NOT NULL AND tenant = :tenant AND retired_us IS NULL
 ORDER BY due_us, name
 LIMIT :limit

-- :name look_held_back
-- Every pause in force, and the halts.
SELECT schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = :tenant AND since_us <= :at_us AND until_us > :at_us
 ORDER BY id

-- :name look_pauses_ever
SELECT schedule, since_us, until_us, note, by_whom
  FROM fencepost.pause
 WHERE tenant = :tenant AND schedule IN (:schedule, '')
 ORDER BY id DESC
 LIMIT :limit

-- :name look_skipped
-- What made no run lately and was not meant to be left out, summed up.
SELECT schedule, disposition, sum(count)::bigint, max(decided_us)
  FROM fencepost.tick
 WHERE tenant = :tenant AND disposition <> 'run' AND decided_us >= :since_us
   AND disposition IN ('missed', 'overlap', 'budget', 'dst_gap')
 GROUP BY schedule, disposition
 ORDER BY max(decided_us) DESC, schedule, disposition
 LIMIT :limit

-- :name look_skips
-- Every tick that made no run, of all schedules, the latest decision first.
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM fencepost.tick
 WHERE tenant = :tenant AND disposition <> 'run' AND (:disposition = '' OR disposition = :disposition)
   AND (decided_us, schedule, occurrence) < (:before_us, :before_schedule, :before)
 ORDER BY decided_us DESC, schedule DESC, occurrence DESC
 LIMIT :limit

-- :name look_ended
SELECT * FROM fencepost.run_seen
 WHERE tenant = :tenant AND state IN ('succeeded', 'dead', 'cancelled')
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name look_commands_under
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = :tenant AND resource = :resource AND started_us < :until_us
 ORDER BY started_us DESC, id DESC
 LIMIT :limit

-- :name look_command_after
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = :tenant AND resource = :resource AND started_us >= :at_us
 ORDER BY started_us, id
 LIMIT 1

-- :name look_commands_like
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = :tenant AND id >= :prefix AND id < :beyond
 ORDER BY id
 LIMIT :limit

-- :name look_tick_records
SELECT record FROM fencepost.guarded_tick WHERE tenant = :tenant AND resource = :resource ORDER BY job
