-- :name import_resource
-- A gate that either side still owes stays owed: a holder that was voided may be writing there.
INSERT INTO fencepost.resource (tenant, name, fence, owed_gates)
VALUES (%(tenant)s, %(name)s, %(fence)s, %(owed_gates)s)
ON CONFLICT (tenant, name) DO UPDATE
   SET fence = greatest(resource.fence, excluded.fence),
       owed_gates = (SELECT coalesce(jsonb_agg(DISTINCT value), '[]')::text
                       FROM jsonb_array_elements(resource.owed_gates::jsonb || excluded.owed_gates::jsonb))

-- :name import_lease
-- As lost: its holder of that time holds it no more, but the holder's processes may still be there.
INSERT INTO fencepost.lease (id, tenant, resources, fence, run_id, holder, label, host, machine, boot, pid_namespace,
                             pid, pid_started, guard_pid, guard_started, cgroup, ttl_ms, renewals, granted_us,
                             started_us, lost_us, lost_why, state, expires_us)
VALUES (%(id)s, %(tenant)s, %(resources)s, %(fence)s, %(run_id)s, %(holder)s, %(label)s, %(host)s, %(machine)s,
        %(boot)s, %(pid_namespace)s, %(pid)s, %(pid_started)s, %(guard_pid)s, %(guard_started)s, %(cgroup)s,
        %(ttl_ms)s, %(renewals)s, %(granted_us)s, %(started_us)s, coalesce(%(lost_us)s, fencepost.clock_us()),
        coalesce(%(lost_why)s, 'store restored'), 'lost', 0)
ON CONFLICT DO NOTHING

-- :name end_move
UPDATE fencepost.pause SET until_us = greatest(since_us, fencepost.clock_us())
 WHERE tenant = %(tenant)s AND schedule = '' AND note = %(note)s AND until_us > fencepost.clock_us()
