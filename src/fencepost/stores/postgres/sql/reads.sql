-- :name look_dead
SELECT run_fact.*
  FROM fencepost.dead
  JOIN {run_fact} ON run_fact.id = dead.id
 WHERE dead.tenant = %(tenant)s AND dead.created_us >= %(since_us)s
   AND (%(schedule)s = '' OR run_fact.schedule = %(schedule)s) AND (%(agent)s = '' OR run_fact.agent = %(agent)s)
   AND (NOT %(kept)s OR dead.is_kept) AND (dead.created_us, dead.id) < (%(before_us)s, %(before_id)s)
 ORDER BY dead.created_us DESC, dead.id DESC
 LIMIT %(limit)s

-- :name look_live
-- What runs, oldest first, then what waits, in the order in which it is leased.
SELECT *
  FROM {run_fact}
 WHERE id IN (SELECT id FROM fencepost.ready WHERE tenant = %(tenant)s
              UNION ALL SELECT id FROM fencepost.running WHERE tenant = %(tenant)s)
   AND tenant = %(tenant)s AND state IN ('ready', 'running')
 ORDER BY state DESC, CASE state WHEN 'running' THEN 0 ELSE priority END DESC,
          CASE state WHEN 'running' THEN started_us ELSE ready_us END, id
 LIMIT %(limit)s

-- :name look_attempts
SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session,
       cost_micro, turns, usage
  FROM fencepost.attempt_seen
 WHERE run_id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
 ORDER BY run_id, fence

-- :name look_replays
-- Replays are younger than what they are made of, which an index knows.
SELECT origin, id, state FROM fencepost.run
 WHERE tenant = %(tenant)s AND created_us >= %(since_us)s
   AND origin IN (SELECT jsonb_array_elements_text(%(ids)s::jsonb))
 ORDER BY created_us, id
 LIMIT %(limit)s

-- :name look_ticks
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND tick_us < %(until_us)s AND tick_until_us >= %(from_us)s
   AND (%(disposition)s = '' OR disposition = %(disposition)s)
   AND (tick_us, occurrence) < (%(before_us)s, %(before)s)
 ORDER BY tick_us DESC, occurrence DESC
 LIMIT %(limit)s

-- :name look_audit
-- What was decided about many runs at once names them all: a look for one of them finds it.
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
       (SELECT min(due_us) FROM fencepost.schedule WHERE tenant = %(tenant)s AND retired_us IS NULL AND due_us IS NOT NULL)

-- :name look_named_runs
SELECT * FROM fencepost.run_seen
 WHERE tenant = %(tenant)s AND id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

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

-- :name look_commands
-- All states if none is named.
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM fencepost.guarded_command_now
 WHERE tenant = %(tenant)s AND started_us >= %(since_us)s AND (started_us, id) < (%(before_us)s, %(before_id)s)
   AND (%(states)s = '[]' OR state IN (SELECT jsonb_array_elements_text(%(states)s::jsonb)))
 ORDER BY started_us DESC, id DESC
 LIMIT %(limit)s
