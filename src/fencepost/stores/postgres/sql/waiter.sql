-- :name enqueue
-- A clock that was set back must not let the newest pass those who wait.
INSERT INTO fencepost.waiter (id, tenant, resources, run_id, label,
                              host, machine, boot, pid_namespace, pid, pid_started,
                              ttl_ms, since_us, stale_us)
VALUES (%(id)s, %(tenant)s, %(resources)s, %(run_id)s, %(label)s,
        %(host)s, %(machine)s, %(boot)s, %(pid_namespace)s, %(pid)s, %(pid_started)s,
        %(ttl_ms)s, greatest(fencepost.clock_us(), (SELECT max(since_us) + 1 FROM fencepost.waiter)),
        fencepost.clock_us() + %(ttl_ms)s::bigint * 1000)
ON CONFLICT (id) DO UPDATE SET stale_us = excluded.stale_us

-- :name sweep_waiters
-- Takes the ticket that was served along. A transaction that is busy with another waiter sweeps it too, or has just
-- refreshed it: never wait for that.
DELETE FROM fencepost.waiter
 WHERE seq IN (SELECT seq FROM fencepost.waiter
                WHERE id = %(ticket)s
                   OR stale_us <= fencepost.clock_us()
                   OR id IN (SELECT jsonb_array_elements_text(%(dead)s::jsonb))
                  FOR UPDATE SKIP LOCKED)

-- :name waiters_on
SELECT * FROM fencepost.waiter_fact
 WHERE fencepost.each_key(resources) && fencepost.each_key(%(keys)s)
 ORDER BY since_us, id
