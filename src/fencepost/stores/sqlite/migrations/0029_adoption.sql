-- Adoption: a run outlives the worker that keeps its lease, as long as its guard does.

ALTER TABLE lease ADD COLUMN keeper TEXT;                      -- the worker that has custody; none for exec, sessions and lanes
ALTER TABLE lease ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0; -- how often it was adopted: only its newest keeper extends or ends it
ALTER TABLE lease ADD COLUMN left_us INTEGER;                  -- when its keeper left it on purpose; empty while it is attended
ALTER TABLE lease ADD COLUMN adopt_key TEXT;                   -- what a worker shows to the guard; a secret
ALTER TABLE lease ADD COLUMN keeper_socket TEXT;               -- where the guard waits for a worker

CREATE INDEX lease_kept ON lease (keeper) WHERE keeper IS NOT NULL;

-- As lease_fact, which older programs read column by column, with its custody. The secret is not for looking at.
CREATE VIEW lease_custody AS
SELECT id, tenant, resources, fence, run_id, holder, label,
       host, machine, boot, pid_namespace, pid, pid_started, guard_pid, guard_started, cgroup,
       ttl_ms, renewals, granted_us, started_us,
       wall_us() + iif(expires_boot = boot_id(), expires_ns - awake_ns(), 0) / 1000 AS expires_us,
       iif(expires_boot = boot_id(), expires_ns - awake_ns(), 0) AS remaining_ns,
       state = 'lost' AS lost,
       keeper, epoch, left_us, keeper_socket
  FROM lease;
