-- :name ledger_begin
-- Only under a lease whose time is not up: others take what an overdue one began for ambiguous at once.
-- The run is named apart: the lease of a lane is for many, and names none of them.
INSERT INTO fencepost.ledger (tenant, scope, key, run_id, lease_id, fence, call, state, begun_us, asked_fence)
SELECT tenant, %(scope)s::text, %(key)s::text, %(run_id)s::text, id, fence, %(call)s::text, 'in_progress', fencepost.clock_us(), fence
  FROM (SELECT * FROM fencepost.lease_custody
         WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND tenant = %(tenant)s AND NOT lost AND remaining_ns > 0
           FOR SHARE) AS mine
ON CONFLICT DO NOTHING
RETURNING key
