-- :name ensure_resources
-- In the order in which they are locked, so that two claims never wait for each other in a circle.
INSERT INTO fencepost.resource (tenant, name)
SELECT tenant, name FROM fencepost.keys(%(keys)s) ORDER BY tenant COLLATE "C", name COLLATE "C"
ON CONFLICT DO NOTHING

-- :name resources_named
SELECT tenant, name, fence, owed_gates, lease_id
  FROM fencepost.resource
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
 ORDER BY tenant, name

-- :name lock_resources
SELECT tenant, name, fence, owed_gates, lease_id
  FROM fencepost.resource
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
 ORDER BY tenant, name
   FOR UPDATE

-- :name try_resources
SELECT tenant, name, fence, owed_gates, lease_id
  FROM fencepost.resource
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))
 ORDER BY tenant, name
   FOR UPDATE SKIP LOCKED

-- :name lock_holders
-- Renewals do not lock the resource: without this, one could succeed while its lease is being given away.
SELECT * FROM fencepost.lease_custody
 WHERE NOT lost
   AND id = ANY (ARRAY(SELECT lease_id FROM fencepost.resource
                        WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))))
 ORDER BY fence, id
   FOR UPDATE

-- :name try_expired
-- Leases whose time is up, unless another transaction has locked them: they may be renewing.
SELECT * FROM fencepost.lease_custody
 WHERE NOT lost AND remaining_ns <= 0
   AND id = ANY (ARRAY(SELECT lease_id FROM fencepost.resource
                        WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))))
   FOR UPDATE SKIP LOCKED

-- :name holders
SELECT * FROM fencepost.lease_custody
 WHERE NOT lost
   AND id = ANY (ARRAY(SELECT lease_id FROM fencepost.resource
                        WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s))))
 ORDER BY fence, id

-- :name lost_on
-- Each with whether a later grant has met it already: then it was told of.
SELECT lease_custody.*,
       (SELECT max(fence) FROM fencepost.resource
         WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(lease_custody.resources))) > lease_custody.fence
  FROM fencepost.lease_custody
 WHERE lost AND fencepost.each_key(resources) && fencepost.each_key(%(keys)s)
 ORDER BY fence, id

-- :name leases_named
SELECT * FROM fencepost.lease_custody WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))

-- :name lock_leases
SELECT * FROM fencepost.lease_custody
 WHERE id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
 ORDER BY id
   FOR UPDATE

-- :name fence_facts
SELECT (SELECT value::bigint FROM fencepost.meta WHERE key = 'fence_high'), fencepost.clock_us(),
       (SELECT value FROM fencepost.meta WHERE key = 'store_id')

-- :name insert_leases
INSERT INTO fencepost.lease (id, tenant, resources, fence, run_id, holder, label,
                             host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
                             ttl_ms, granted_us, started_us, expires_us, keeper, adopt_key, keeper_socket)
SELECT id, tenant, resources, fence, run_id, holder, label,
       host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
       ttl_ms, now.us, CASE WHEN starts THEN now.us END, now.us + ttl_ms * 1000, keeper, adopt_key, keeper_socket
  FROM (SELECT fencepost.clock_us() AS us) AS now,
       jsonb_to_recordset(%(leases)s::jsonb) AS one (
       id text, tenant text, resources text, fence bigint, run_id text, holder text, label text,
       host text, machine text, boot text, pid_namespace text, pid bigint, pid_started text,
       guard_pid bigint, guard_started text, cgroup text, ttl_ms bigint, starts boolean,
       keeper text, adopt_key text, keeper_socket text)

-- :name take_resources
INSERT INTO fencepost.resource (tenant, name, fence, lease_id, owed_gates)
SELECT tenant, name, fence, id, owed_gates
  FROM jsonb_to_recordset(%(taken)s::jsonb) AS one (tenant text, name text, fence bigint, id text, owed_gates text)
 ORDER BY tenant COLLATE "C", name COLLATE "C"
ON CONFLICT (tenant, name) DO UPDATE
   SET fence = excluded.fence, lease_id = excluded.lease_id, owed_gates = excluded.owed_gates
 WHERE resource.fence < excluded.fence
RETURNING name

-- :name lift_places
UPDATE fencepost.resource SET fence = %(fence)s
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s)) AND fence < %(fence)s
RETURNING name

-- :name settle_places
-- The fence is still the one that lifted them: no holder was in them since.
UPDATE fencepost.resource SET owed_gates = '[]'
 WHERE (tenant, name) IN (SELECT * FROM fencepost.keys(%(keys)s)) AND fence = %(fence)s
RETURNING name

-- :name start_leases
UPDATE fencepost.lease SET started_us = fencepost.clock_us()
 WHERE (id, fence, epoch) IN (SELECT * FROM fencepost.kept(%(leases)s)) AND state = 'held'
RETURNING id

-- :name renew_leases
-- What another transaction has locked is left out: one row must not hold up the others. No test of the time: a late
-- holder that was not replaced may go on; its own deadline is the stricter one. What was left for longer stays so.
UPDATE fencepost.lease
   SET expires_us = CASE WHEN left_us IS NULL THEN fencepost.clock_us() + ttl_ms * 1000
                         ELSE greatest(expires_us, fencepost.clock_us() + ttl_ms * 1000) END,
       renewals = renewals + 1
 WHERE id = ANY (ARRAY(SELECT id FROM fencepost.lease
                        WHERE (id, fence, epoch) IN (SELECT * FROM fencepost.kept(%(leases)s)) AND state = 'held'
                          FOR UPDATE SKIP LOCKED))
RETURNING id

-- :name leave_leases
-- Never for less time than it has: its guard may count on that.
UPDATE fencepost.lease
   SET left_us = fencepost.clock_us(), expires_us = greatest(expires_us, fencepost.clock_us() + %(leave_us)s::bigint)
 WHERE (id, fence, epoch) IN (SELECT * FROM fencepost.kept(%(leases)s)) AND state = 'held'
RETURNING id

-- :name adopt_leases
-- What another transaction has locked is left out. Never for less time than it has: until its guard hears of its new
-- keeper, it counts on what the old one told it when it left.
UPDATE fencepost.lease
   SET keeper = %(keeper)s, epoch = epoch + 1, left_us = NULL,
       expires_us = greatest(expires_us, fencepost.clock_us() + ttl_ms * 1000),
       adopt_key = coalesce(%(adopt_keys)s::jsonb ->> id, adopt_key), renewals = renewals + 1
 WHERE id = ANY (ARRAY(SELECT id FROM fencepost.lease
                        WHERE (id, fence, epoch) IN (SELECT * FROM fencepost.kept(%(leases)s)) AND state = 'held'
                          AND keeper IS NOT NULL
                          FOR UPDATE SKIP LOCKED))
RETURNING id

-- :name free_resources
-- A run's own row is leased only by its next attempt, which declares the same gates: there a known end settles all.
UPDATE fencepost.resource
   SET lease_id = NULL,
       owed_gates = CASE WHEN freed.owed_gates IS NULL THEN resource.owed_gates
                         WHEN resource.name LIKE 'run:%%' THEN '[]'
                         ELSE freed.owed_gates END
  FROM fencepost.freed(%(freed)s) AS freed
 WHERE resource.tenant = freed.tenant AND resource.name = freed.name
   AND resource.lease_id = freed.id AND resource.fence = freed.fence
RETURNING resource.name

-- :name lose_leases
UPDATE fencepost.lease SET state = 'lost', lost_us = fencepost.clock_us(), lost_why = %(why)s
 WHERE (id, fence, epoch) IN (SELECT * FROM fencepost.kept(%(leases)s)) AND state = 'held'
RETURNING id

-- :name forget_leases
DELETE FROM fencepost.lease
 WHERE (id, fence, epoch) IN (SELECT * FROM fencepost.kept(%(leases)s)) AND state = 'held'
RETURNING id, started_us

-- :name forget_lost
-- One that was left on purpose is kept until its run is settled: that it was left says how.
DELETE FROM fencepost.lease
 WHERE id = %(id)s AND fence = %(fence)s AND state = 'lost'
   AND (left_us IS NULL OR (SELECT min(running.id) FROM fencepost.running WHERE running.lease_id = lease.id) IS NULL)
RETURNING id

-- :name owe
UPDATE fencepost.resource SET owed_gates = %(owed_gates)s
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM jsonb_array_elements(%(keys)s::jsonb))

-- :name note_command
-- A guarded command leaves a row, from its grant on; each new one clears a few of the oldest away.
INSERT INTO fencepost.guarded_command (id, tenant, resource, fence, lease_id, label, host, state, started_us)
SELECT run_id, tenant, resources::jsonb -> 0 ->> 1, fence, id, label, host, 'running', granted_us
  FROM fencepost.lease WHERE id = %(id)s AND fence = %(fence)s AND state = 'held'
ON CONFLICT (id) DO NOTHING

-- :name refuse_command
UPDATE fencepost.guarded_command SET refused = refused + 1, refused_us = fencepost.clock_us()
 WHERE (id, fence) IN (SELECT value ->> 0, (value ->> 1)::bigint FROM jsonb_array_elements(%(ids)s::jsonb)) AND state = 'running'

-- :name lose_commands
UPDATE fencepost.guarded_command SET state = 'lost', ended_us = fencepost.clock_us()
 WHERE (id, fence) IN (SELECT value ->> 0, (value ->> 1)::bigint FROM jsonb_array_elements(%(ids)s::jsonb)) AND state = 'running'
RETURNING id
