-- :name schedule_to_run
SELECT agent, manifest, manifest_hash, name, version, definition, cursor_us, last_success_us
  FROM fencepost.schedule
 WHERE tenant = %(tenant)s AND name = %(name)s AND retired_us IS NULL
   FOR UPDATE

-- :name agent_to_run
SELECT definition, hash
  FROM fencepost.agent
 WHERE tenant = %(tenant)s AND name = %(name)s AND retired_us IS NULL
   FOR NO KEY UPDATE

-- :name names_to_run
SELECT name, 'schedule', retired_us IS NOT NULL FROM fencepost.schedule WHERE tenant = %(tenant)s
UNION ALL
SELECT name, 'agent', retired_us IS NOT NULL FROM fencepost.agent WHERE tenant = %(tenant)s

-- :name live_of_agent
SELECT id, trigger, state, started_us, lines_up
  FROM fencepost.run
 WHERE state IN ('ready', 'running') AND tenant = %(tenant)s AND schedule IS NULL AND agent = %(agent)s
 ORDER BY created_us, id

-- :name asked_again
UPDATE fencepost.run SET requests = requests + 1
 WHERE tenant = %(tenant)s AND coalesce(schedule, agent) = %(target)s AND request_key = %(request_key)s
RETURNING id

-- :name touch_run
UPDATE fencepost.run SET requests = requests + 1 WHERE id = %(id)s

-- :name versions_to_run
SELECT version, definition, manifest, manifest_hash, after_us, until_us
  FROM fencepost.schedule_version
 WHERE tenant = %(tenant)s AND name = %(name)s
 ORDER BY version

-- :name tick_to_run
SELECT occurrence, version, tick_us, disposition, run_id
  FROM fencepost.tick
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND tick_us <= %(tick_us)s AND tick_until_us >= %(tick_us)s
   AND disposition <> 'dst_gap'
 ORDER BY tick_us DESC
 LIMIT 1

-- :name runs_of_tick
SELECT * FROM fencepost.run_fact
 WHERE tenant = %(tenant)s AND schedule = %(schedule)s AND tick_us = %(tick_us)s
 ORDER BY created_us, id

-- :name runs_of_origin
SELECT * FROM fencepost.run_fact WHERE origin = %(origin)s ORDER BY created_us, id
