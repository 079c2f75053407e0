-- :name ledger_begin
-- Only under a lease whose time is not up: others take what an overdue one began for ambiguous at once.
-- The run is named apart: the lease of a lane is for many, and names none of them.
INSERT INTO ledger (tenant, scope, key, run_id, lease_id, fence, call, state, begun_us, asked_fence)
SELECT tenant, :scope, :key, :run_id, id, fence, :call, 'in_progress', wall_us(), fence
  FROM lease_custody
 WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND tenant = :tenant AND NOT lost AND remaining_ns > 0
ON CONFLICT DO NOTHING
RETURNING key
