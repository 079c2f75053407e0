-- :name ensure_resources
-- In the order in which they are locked, so that two claims never wait for each other in a circle.
INSERT INTO fencepost.resource (tenant, name)
SELECT tenant, name FROM fencepost.keys(%(keys)s) ORDER BY tenant COLLATE "C", name COLLATE "C"
ON CONFLICT DO NOTHING

-- :name lock_resources
SELECT tenant, name, fence, owed_gates
  FROM fencepost.resource
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
 ORDER BY tenant, name
   FOR UPDATE

-- :name lock_holders
-- Renewals do not lock the resource: without this, one could succeed while its lease is being given away.
SELECT * FROM fencepost.lease_fact
 WHERE NOT lost
   AND id = ANY (ARRAY(SELECT lease_id FROM fencepost.resource
                        WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))))
 ORDER BY fence, id
   FOR UPDATE

-- :name holders
SELECT * FROM fencepost.lease_fact
 WHERE NOT lost
   AND id = ANY (ARRAY(SELECT lease_id FROM fencepost.resource
                        WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))))
 ORDER BY fence, id

-- :name lost_on
SELECT * FROM fencepost.lease_fact
 WHERE lost AND fencepost.each_key(resources) && fencepost.each_key(%(keys)s)
 ORDER BY fence, id

-- :name all_leases
SELECT * FROM fencepost.lease_fact ORDER BY fence, id

-- :name fence_facts
SELECT (SELECT value::bigint FROM fencepost.meta WHERE key = 'fence_high'), fencepost.clock_us(),
       (SELECT value FROM fencepost.meta WHERE key = 'store_id')

-- :name insert_lease
INSERT INTO fencepost.lease (id, tenant, resources, fence, run_id, holder, label,
                             host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
                             ttl_ms, granted_us, started_us, expires_us)
VALUES (%(id)s, %(tenant)s, %(resources)s, %(fence)s, %(run_id)s, %(holder)s, %(label)s,
        %(host)s, %(machine)s, %(boot)s, %(pid_namespace)s, %(pid)s, %(pid_started)s,
        %(guard_pid)s, %(guard_started)s, %(cgroup)s,
        %(ttl_ms)s, fencepost.clock_us(), CASE WHEN %(starts)s THEN fencepost.clock_us() END,
        fencepost.clock_us() + %(ttl_ms)s::bigint * 1000)

-- :name take_resources
UPDATE fencepost.resource
   SET fence = %(fence)s, lease_id = %(id)s, owed_gates = %(owed_gates)s
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
   AND fence < %(fence)s
RETURNING name

-- :name places_beside
-- A project's places after the first are called like itself, with # and a number.
SELECT name FROM fencepost.resource
 WHERE tenant = '*' AND name > %(project)s || '#' AND name < %(project)s || '$'

-- :name lift_places
UPDATE fencepost.resource SET fence = %(fence)s
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s)) AND fence < %(fence)s
RETURNING name

-- :name settle_places
-- The fence is still the one that lifted them: nobody was in them since.
UPDATE fencepost.resource SET owed_gates = '[]'
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s)) AND fence = %(fence)s
RETURNING name

-- :name start
UPDATE fencepost.lease SET started_us = fencepost.clock_us()
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'held'
RETURNING id

-- :name renew
-- No test of the time: a late holder that nobody replaced may go on; its own deadline is the stricter one.
UPDATE fencepost.lease
   SET expires_us = fencepost.clock_us() + ttl_ms * 1000, renewals = renewals + 1
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'held'
RETURNING id

-- :name free_resources
-- A run's own row is leased by nobody but its next attempt, which declares the same gates: there a known end settles all.
UPDATE fencepost.resource
   SET lease_id = NULL,
       owed_gates = CASE WHEN %(owed_gates)s::text IS NULL THEN owed_gates
                         WHEN name LIKE 'run:%%' THEN '[]'
                         ELSE %(owed_gates)s END
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
   AND lease_id = %(id)s AND fence = %(fence)s
RETURNING name

-- :name lose
UPDATE fencepost.lease SET state = 'lost', lost_us = fencepost.clock_us(), lost_why = %(why)s
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'held'
RETURNING id

-- :name forget_held
DELETE FROM fencepost.lease WHERE id = %(id)s AND fence = %(fence)s AND state = 'held' RETURNING id, started_us

-- :name forget_lost
DELETE FROM fencepost.lease WHERE id = %(id)s AND fence = %(fence)s AND state = 'lost' RETURNING id

-- :name owe
UPDATE fencepost.resource SET owed_gates = %(owed_gates)s
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM jsonb_array_elements(%(keys)s::jsonb))
