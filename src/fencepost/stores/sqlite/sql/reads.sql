-- :name look_dead
SELECT * FROM {run_fact}
 WHERE tenant = :tenant AND created_us >= :since_us AND state = 'dead'
   AND (:schedule = '' OR schedule = :schedule) AND (:agent = '' OR agent = :agent)
   AND (NOT :kept OR discarded_us IS NULL) AND (created_us, id) < (:before_us, :before_id)
 ORDER BY created_us DESC, id DESC
 LIMIT :limit

-- :name look_live
-- What runs, oldest first, then what waits, in the order in which it is leased.
SELECT * FROM {run_fact}
 WHERE tenant = :tenant AND state IN ('ready', 'running')
 ORDER BY state DESC, iif(state = 'running', 0, priority) DESC, iif(state = 'running', started_us, ready_us), id
 LIMIT :limit

-- :name look_attempts
SELECT run_id, number, fence, worker, started_us, ended_us, outcome, exit_code, last_log, session,
       cost_micro, turns, usage
  FROM attempt_seen
 WHERE run_id IN (SELECT value FROM json_each(:ids))
 ORDER BY run_id, fence

-- :name look_replays
-- Replays are younger than what they are made of, which an index knows.
SELECT origin, id, state FROM run
 WHERE tenant = :tenant AND created_us >= :since_us AND origin IN (SELECT value FROM json_each(:ids))
 ORDER BY created_us, id
 LIMIT :limit

-- :name look_ticks
SELECT schedule, version, slot, slot_until, count, tick_us, tick_until_us, disposition, run_id, occurrence, into_us,
       decided_us, behind
  FROM tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us <= min(:until_us - 1, :before_us) AND tick_until_us >= :from_us
   AND (:disposition = '' OR disposition = :disposition)
   AND (+tick_us, occurrence) < (:before_us, :before)
 ORDER BY tick_us DESC, occurrence DESC
 LIMIT :limit

-- :name look_audit
-- What was decided about many runs at once names them all: a look for one of them finds it.
SELECT seq, at_us, actor, verb, subject, detail
  FROM audit
 WHERE tenant = :tenant AND (:verb = '' OR verb = :verb) AND (:subject = '' OR subject = :subject
        OR (:batched <> '' AND subject LIKE 'batch:%' AND instr(detail, :batched) > 0))
   AND at_us <= :until_us
   AND seq < :before_seq
 ORDER BY seq DESC
 LIMIT :limit

-- :name look_health
-- The plus keeps the index of all runs of a tenant out of it: what runs is few, and has an index of its own.
SELECT (SELECT count(*) FROM run WHERE +tenant = :tenant AND state = 'running'),
       (SELECT count(*) FROM run WHERE tenant = :tenant AND state = 'ready'),
       (SELECT count(*) FROM run WHERE tenant = :tenant AND state = 'dead' AND discarded_us IS NULL),
       (SELECT count(*) FROM schedule WHERE tenant = :tenant AND retired_us IS NULL),
       (SELECT count(*) FROM schedule WHERE tenant = :tenant AND retired_us IS NULL AND due_us <= :late_us),
       (SELECT min(due_us) FROM schedule WHERE tenant = :tenant AND retired_us IS NULL AND due_us IS NOT NULL)

-- :name look_named_runs
SELECT * FROM run_seen
 WHERE tenant = :tenant AND id IN (SELECT value FROM json_each(:ids))

-- :name look_lingering
-- A file does not know who has it open; its locks do, and are looked at from outside.
SELECT 0, '', '', NULL, '', 0 WHERE :older_us < 0 LIMIT :limit

-- :name look_commands
-- All states if none is named.
SELECT id, tenant, resource, fence, label, host, state, started_us, ended_us, exit_code, refused, refused_us
  FROM guarded_command_now
 WHERE tenant = :tenant AND started_us >= :since_us AND (started_us, id) < (:before_us, :before_id)
   AND (:states = '[]' OR state IN (SELECT value FROM json_each(:states)))
 ORDER BY started_us DESC, id DESC
 LIMIT :limit
