-- :name enqueue
-- A clock that was set back must not let the newest pass those who wait.
INSERT INTO waiter (id, tenant, resources, run_id, label,
                    host, machine, boot, pid_namespace, pid, pid_started,
                    ttl_ms, since_us, stale_boot, stale_ns)
VALUES (:id, :tenant, :resources, :run_id, :label,
        :host, :machine, :boot, :pid_namespace, :pid, :pid_started,
        :ttl_ms, max(wall_us(), coalesce((SELECT max(since_us) + 1 FROM waiter), 0)), boot_id(), awake_ns() + :ttl_ms * 1000000)
ON CONFLICT (id) DO UPDATE SET stale_boot = excluded.stale_boot, stale_ns = excluded.stale_ns

-- :name sweep_waiters
-- Takes the ticket that was served along.
DELETE FROM waiter
 WHERE id = :ticket
    OR id IN (SELECT id FROM waiter_fact WHERE stale UNION ALL SELECT value FROM json_each(:dead))

-- :name waiters_on
SELECT * FROM waiter_fact
 WHERE EXISTS (SELECT 1 FROM json_each(waiter_fact.resources) AS mine, json_each(:keys) AS theirs
                WHERE mine.value = theirs.value)
 ORDER BY since_us, id
