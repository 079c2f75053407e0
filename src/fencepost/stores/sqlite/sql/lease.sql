-- :name ensure_resources
INSERT INTO resource (tenant, name)
SELECT value ->> 0, value ->> 1 FROM json_each(:keys) WHERE true
ON CONFLICT DO NOTHING

-- :name resources_named
SELECT tenant, name, fence, owed_gates, lease_id
  FROM resource
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))
 ORDER BY tenant, name

-- :name lock_resources
SELECT tenant, name, fence, owed_gates, lease_id
  FROM resource
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))
 ORDER BY tenant, name

-- :name try_resources
SELECT tenant, name, fence, owed_gates, lease_id
  FROM resource
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))
 ORDER BY tenant, name

-- :name lock_holders
-- The whole file is locked already.
SELECT * FROM lease_custody
 WHERE NOT lost
   AND id IN (SELECT lease_id FROM resource
               WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)))
 ORDER BY fence, id

-- :name try_expired
SELECT * FROM lease_custody
 WHERE NOT lost AND remaining_ns <= 0
   AND id IN (SELECT lease_id FROM resource
               WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)))

-- :name holders
SELECT * FROM lease_custody
 WHERE NOT lost
   AND id IN (SELECT lease_id FROM resource
               WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)))
 ORDER BY fence, id

-- :name lost_on
-- Each with whether a later grant has met it already: then it was told of.
SELECT lease_custody.*,
       EXISTS (SELECT 1 FROM json_each(lease_custody.resources) AS one
                 JOIN resource ON resource.tenant = one.value ->> 0 AND resource.name = one.value ->> 1
                WHERE resource.fence > lease_custody.fence)
  FROM lease_custody
 WHERE lost AND EXISTS (SELECT 1 FROM json_each(lease_custody.resources) AS mine, json_each(:keys) AS theirs
                         WHERE mine.value = theirs.value)
 ORDER BY fence, id

-- :name leases_named
SELECT * FROM lease_custody WHERE id IN (SELECT value FROM json_each(:ids))

-- :name lock_leases
-- The whole file is locked already.
SELECT * FROM lease_custody WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id

-- :name fence_facts
SELECT (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fence_high'), wall_us(),
       (SELECT value FROM meta WHERE key = 'store_id')

-- :name insert_leases
INSERT INTO lease (id, tenant, resources, fence, run_id, holder, label,
                   host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
                   ttl_ms, granted_us, started_us, expires_boot, expires_ns, keeper, adopt_key, keeper_socket)
SELECT value ->> 'id', value ->> 'tenant', value ->> 'resources', value ->> 'fence', value ->> 'run_id',
       value ->> 'holder', value ->> 'label', value ->> 'host', value ->> 'machine', value ->> 'boot',
       value ->> 'pid_namespace', value ->> 'pid', value ->> 'pid_started', value ->> 'guard_pid',
       value ->> 'guard_started', value ->> 'cgroup', value ->> 'ttl_ms', wall_us(),
       iif(value ->> 'starts', wall_us(), NULL), boot_id(), awake_ns() + (value ->> 'ttl_ms') * 1000000,
       value ->> 'keeper', value ->> 'adopt_key', value ->> 'keeper_socket'
  FROM json_each(:leases)

-- :name take_resources
INSERT INTO resource (tenant, name, fence, lease_id, owed_gates)
SELECT value ->> 'tenant', value ->> 'name', value ->> 'fence', value ->> 'id', value ->> 'owed_gates'
  FROM json_each(:taken) WHERE true
ON CONFLICT (tenant, name) DO UPDATE
   SET fence = excluded.fence, lease_id = excluded.lease_id, owed_gates = excluded.owed_gates
 WHERE resource.fence < excluded.fence
RETURNING name

-- :name lift_places
UPDATE resource SET fence = :fence
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)) AND fence < :fence
RETURNING name

-- :name settle_places
-- The fence is still the one that lifted them: no holder was in them since.
UPDATE resource SET owed_gates = '[]'
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys)) AND fence = :fence
RETURNING name

-- :name start_leases
UPDATE lease SET started_us = wall_us()
 WHERE (id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases)) AND state = 'held'
RETURNING id

-- :name renew_leases
-- No test of the time: a late holder that was not replaced may go on; its own deadline is the stricter one. What was
-- left for longer stays so.
UPDATE lease
   SET expires_boot = boot_id(), renewals = renewals + 1,
       expires_ns = max(awake_ns() + ttl_ms * 1000000,
                        iif(left_us IS NOT NULL AND expires_boot = boot_id(), expires_ns, 0))
 WHERE (id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases)) AND state = 'held'
RETURNING id

-- :name leave_leases
-- Never for less time than it has: its guard may count on that.
UPDATE lease
   SET left_us = wall_us(), expires_boot = boot_id(),
       expires_ns = max(awake_ns() + :leave_us * 1000, iif(expires_boot = boot_id(), expires_ns, 0))
 WHERE (id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases)) AND state = 'held'
RETURNING id

-- :name adopt_leases
-- Never for less time than it has: until its guard hears of its new keeper, it counts on what the old one told it when
-- it left.
UPDATE lease
   SET keeper = :keeper, epoch = epoch + 1, left_us = NULL, expires_boot = boot_id(),
       expires_ns = max(awake_ns() + ttl_ms * 1000000, iif(expires_boot = boot_id(), expires_ns, 0)),
       adopt_key = coalesce((SELECT value FROM json_each(:adopt_keys) WHERE key = lease.id), adopt_key),
       renewals = renewals + 1
 WHERE (id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases)) AND state = 'held'
   AND keeper IS NOT NULL
RETURNING id

-- :name free_resources
-- A run's own row is leased only by its next attempt, which declares the same gates: there a known end settles all.
UPDATE resource
   SET lease_id = NULL,
       owed_gates = CASE WHEN freed.owed_gates IS NULL THEN resource.owed_gates
                         WHEN resource.name LIKE 'run:%' THEN '[]'
                         ELSE freed.owed_gates END
  FROM (SELECT value ->> 'tenant' AS tenant, value ->> 'name' AS name, value ->> 'id' AS id,
               value ->> 'fence' AS fence, value ->> 'owed_gates' AS owed_gates FROM json_each(:freed)) AS freed
 WHERE resource.tenant = freed.tenant AND resource.name = freed.name
   AND resource.lease_id = freed.id AND resource.fence = freed.fence
RETURNING resource.name

-- :name lose_leases
UPDATE lease SET state = 'lost', lost_us = wall_us(), lost_why = :why
 WHERE (id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases)) AND state = 'held'
RETURNING id

-- :name forget_leases
DELETE FROM lease
 WHERE (id, fence, epoch) IN (SELECT value ->> 0, value ->> 1, value ->> 2 FROM json_each(:leases)) AND state = 'held'
RETURNING id, started_us

-- :name forget_lost
-- One that was left on purpose is kept until its run is settled: that it was left says how.
DELETE FROM lease
 WHERE id = :id AND fence = :fence AND state = 'lost'
   AND (left_us IS NULL OR NOT EXISTS (SELECT 1 FROM run WHERE run.lease_id = lease.id AND run.state = 'running'))
RETURNING id

-- :name owe
UPDATE resource SET owed_gates = :owed_gates
 WHERE (tenant, name) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:keys))

-- :name note_command
-- A guarded command leaves a row, from its grant on; each new one clears a few of the oldest away.
INSERT INTO guarded_command (id, tenant, resource, fence, lease_id, label, host, state, started_us)
SELECT run_id, tenant, resources ->> 0 ->> 1, fence, id, label, host, 'running', granted_us
  FROM lease WHERE id = :id AND fence = :fence AND state = 'held'
ON CONFLICT (id) DO NOTHING

-- :name refuse_command
UPDATE guarded_command SET refused = refused + 1, refused_us = wall_us()
 WHERE (id, fence) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:ids)) AND state = 'running'

-- :name lose_commands
UPDATE guarded_command SET state = 'lost', ended_us = wall_us()
 WHERE (id, fence) IN (SELECT value ->> 0, value ->> 1 FROM json_each(:ids)) AND state = 'running'
RETURNING id
