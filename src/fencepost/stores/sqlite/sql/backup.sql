-- :name import_resource
-- A gate that either side still owes stays owed: a holder that was voided may be writing there.
INSERT INTO resource (tenant, name, fence, owed_gates) VALUES (:tenant, :name, :fence, :owed_gates)
ON CONFLICT (tenant, name) DO UPDATE
   SET fence = max(fence, excluded.fence),
       owed_gates = (SELECT json_group_array(value)
                       FROM (SELECT value FROM json_each(resource.owed_gates)
                             UNION SELECT value FROM json_each(excluded.owed_gates)))

-- :name import_lease
-- As lost: its holder of that time holds it no more, but the holder's processes may still be there.
INSERT INTO lease (id, tenant, resources, fence, run_id, holder, label, host, machine, boot, pid_namespace, pid,
                   pid_started, guard_pid, guard_started, cgroup, ttl_ms, renewals, granted_us, started_us, lost_us,
                   lost_why, state, expires_boot, expires_ns)
VALUES (:id, :tenant, :resources, :fence, :run_id, :holder, :label, :host, :machine, :boot, :pid_namespace, :pid,
        :pid_started, :guard_pid, :guard_started, :cgroup, :ttl_ms, :renewals, :granted_us, :started_us,
        coalesce(:lost_us, wall_us()), coalesce(:lost_why, 'store restored'), 'lost', '', 0)
ON CONFLICT DO NOTHING

-- :name end_move
UPDATE pause SET until_us = max(since_us, wall_us())
 WHERE tenant = :tenant AND schedule = '' AND note = :note AND until_us > wall_us()
