-- :name schedule_to_run
SELECT agent, manifest, manifest_hash, name, version, definition, cursor_us, last_success_us
  FROM schedule
 WHERE tenant = :tenant AND name = :name AND retired_us IS NULL

-- :name agent_to_run
SELECT definition, hash
  FROM agent
 WHERE tenant = :tenant AND name = :name AND retired_us IS NULL

-- :name names_to_run
SELECT name, 'schedule', retired_us IS NOT NULL FROM schedule WHERE tenant = :tenant
UNION ALL
SELECT name, 'agent', retired_us IS NOT NULL FROM agent WHERE tenant = :tenant

-- :name live_of_agent
SELECT id, trigger, state, started_us, lines_up
  FROM run INDEXED BY run_live
 WHERE state IN ('ready', 'running') AND tenant = :tenant AND schedule IS NULL AND agent = :agent
 ORDER BY created_us, id

-- :name asked_again
UPDATE run SET requests = requests + 1
 WHERE tenant = :tenant AND coalesce(schedule, agent) = :target AND request_key = :request_key
RETURNING id

-- :name touch_run
UPDATE run SET requests = requests + 1 WHERE id = :id

-- :name versions_to_run
SELECT version, definition, manifest, manifest_hash, after_us, until_us
  FROM schedule_version
 WHERE tenant = :tenant AND name = :name
 ORDER BY version

-- :name tick_to_run
SELECT occurrence, version, tick_us, disposition, run_id
  FROM tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us <= :tick_us AND tick_until_us >= :tick_us
   AND disposition <> 'dst_gap'
 ORDER BY tick_us DESC
 LIMIT 1

-- :name runs_of_tick
SELECT * FROM run_fact
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us = :tick_us
 ORDER BY created_us, id

-- :name runs_of_origin
SELECT * FROM run_fact WHERE origin = :origin ORDER BY created_us, id
