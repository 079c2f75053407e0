-- :name ensure_resources
INSERT INTO resource (tenant, name)
SELECT value ->> 0, value ->> 1 FROM json_each(:keys) WHERE true
ON CONFLICT DO NOTHING

-- :name lock_resources
SELECT tenant, name, fence, owed_gates
  FROM resource
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))
 ORDER BY tenant, name

-- :name lock_holders
-- The whole file is locked already.
SELECT * FROM lease_fact
 WHERE NOT lost
   AND id IN (SELECT lease_id FROM resource
               WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)))
 ORDER BY fence, id

-- :name holders
SELECT * FROM lease_fact
 WHERE NOT lost
   AND id IN (SELECT lease_id FROM resource
               WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)))
 ORDER BY fence, id

-- :name lost_on
SELECT * FROM lease_fact
 WHERE lost AND EXISTS (SELECT 1 FROM json_each(lease_fact.resources) AS mine, json_each(:keys) AS theirs
                         WHERE mine.value = theirs.value)
 ORDER BY fence, id

-- :name all_leases
SELECT * FROM lease_fact ORDER BY fence, id

-- :name fence_facts
SELECT (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fence_high'), wall_us(),
       (SELECT value FROM meta WHERE key = 'store_id')

-- :name insert_lease
INSERT INTO lease (id, tenant, resources, fence, run_id, holder, label,
                   host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
                   ttl_ms, granted_us, started_us, expires_boot, expires_ns)
VALUES (:id, :tenant, :resources, :fence, :run_id, :holder, :label,
        :host, :machine, :boot, :pid_namespace, :pid, :pid_started, :guard_pid, :guard_started, :cgroup,
        :ttl_ms, wall_us(), iif(:starts, wall_us(), NULL), boot_id(), awake_ns() + :ttl_ms * 1000000)

-- :name take_resources
UPDATE resource
   SET fence = :fence, lease_id = :id, owed_gates = :owed_gates
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)) AND fence < :fence
RETURNING name

-- :name places_beside
-- A project's places after the first are called like itself, with # and a number.
SELECT name FROM resource
 WHERE tenant = '*' AND name > :project || '#' AND name < :project || '$'

-- :name lift_places
UPDATE resource SET fence = :fence
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)) AND fence < :fence
RETURNING name

-- :name settle_places
-- The fence is still the one that lifted them: nobody was in them since.
UPDATE resource SET owed_gates = '[]'
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)) AND fence = :fence
RETURNING name

-- :name start
UPDATE lease SET started_us = wall_us()
 WHERE id = :id AND fence = :fence AND state = 'held'
RETURNING id

-- :name renew
-- No test of the time: a late holder that nobody replaced may go on; its own deadline is the stricter one.
UPDATE lease
   SET expires_boot = boot_id(), expires_ns = awake_ns() + ttl_ms * 1000000, renewals = renewals + 1
 WHERE id = :id AND fence = :fence AND state = 'held'
RETURNING id

-- :name free_resources
-- A run's own row is leased by nobody but its next attempt, which declares the same gates: there a known end settles all.
UPDATE resource
   SET lease_id = NULL,
       owed_gates = CASE WHEN :owed_gates IS NULL THEN owed_gates WHEN name LIKE 'run:%' THEN '[]' ELSE :owed_gates END
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))
   AND lease_id = :id AND fence = :fence
RETURNING name

-- :name lose
UPDATE lease SET state = 'lost', lost_us = wall_us(), lost_why = :why
 WHERE id = :id AND fence = :fence AND state = 'held'
RETURNING id

-- :name forget_held
DELETE FROM lease WHERE id = :id AND fence = :fence AND state = 'held' RETURNING id, started_us

-- :name forget_lost
DELETE FROM lease WHERE id = :id AND fence = :fence AND state = 'lost' RETURNING id

-- :name owe
UPDATE resource SET owed_gates = :owed_gates
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))
