-- :name names_to_run
SELECT name, 'schedule', retired_us IS NOT NULL FROM fencepost.schedule WHERE tenant = :tenant
UNION ALL
SELECT name, 'agent', retired_us IS NOT NULL FROM fencepost.agent WHERE tenant = :tenant

-- :name asked_again
UPDATE fencepost.run SET requests = requests + 1
 WHERE tenant = :tenant AND coalesce(schedule, agent) = :target AND request_key = :request_key
RETURNING id

-- :name touch_run
UPDATE fencepost.run SET requests = requests + 1 WHERE id = :id

-- :name versions_to_run
SELECT version, definition, manifest, manifest_hash, after_us, until_us
  FROM fencepost.schedule_version
 WHERE tenant = :tenant AND name = :name
 ORDER BY version

-- :name tick_to_run
SELECT occurrence, version, tick_us, disposition, run_id
  FROM fencepost.tick
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us <= :tick_us AND tick_until_us >= :tick_us
   AND disposition <> 'dst_gap'
 ORDER BY tick_us DESC
 LIMIT 1

-- :name runs_of_tick
SELECT * FROM fencepost.run_seen
 WHERE tenant = :tenant AND schedule = :schedule AND tick_us = :tick_us
 ORDER BY created_us, id

-- :name runs_of_origin
SELECT * FROM {run_fact} WHERE origin = :origin ORDER BY created_us, id
