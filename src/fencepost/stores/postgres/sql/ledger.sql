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

-- :name lock_ledger_lease
-- It cannot be given away until this has been committed.
SELECT id FROM fencepost.lease_custody
 WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND tenant = %(tenant)s AND NOT lost AND remaining_ns > 0
   FOR SHARE

-- :name lock_ledger
SELECT key FROM fencepost.ledger WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s FOR UPDATE

-- :name ledger_entry
SELECT * FROM fencepost.ledger_fact WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s

-- :name ledger_asked
-- Writing makes a repeated answer as durable as the first.
UPDATE fencepost.ledger SET asked_fence = greatest(asked_fence, %(fence)s)
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND state = 'held')
RETURNING key

-- :name ledger_complete
UPDATE fencepost.ledger SET state = 'completed', answer = %(answer)s, completed_us = fencepost.clock_us()
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s
   AND call = %(call)s AND lease_id = %(lease_id)s AND fence = %(fence)s AND state = 'in_progress' AND doubt IS NULL
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND state = 'held')
RETURNING key

-- :name ledger_doubt
UPDATE fencepost.ledger SET doubt = coalesce(doubt, %(doubt)s)
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s
   AND call = %(call)s AND lease_id = %(lease_id)s AND fence = %(fence)s AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND state = 'held')
RETURNING key

-- :name ledger_release
DELETE FROM fencepost.ledger
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s
   AND call = %(call)s AND lease_id = %(lease_id)s AND fence = %(fence)s AND state = 'in_progress' AND doubt IS NULL
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND state = 'held')
RETURNING key

-- :name ledger_take_over
UPDATE fencepost.ledger
   SET run_id = %(run_id)s, lease_id = %(lease_id)s, fence = %(fence)s, call = %(call)s, doubt = NULL,
       begun_us = fencepost.clock_us(), asked_fence = %(fence)s
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s AND call = %(seen)s AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM fencepost.lease_custody
                WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND NOT lost AND remaining_ns > 0)
RETURNING key

-- :name ledger_settle_doubt
UPDATE fencepost.ledger
   SET state = 'completed', answer = %(answer)s, completed_us = fencepost.clock_us(), resolved_by = %(by)s, asked_fence = %(fence)s
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s AND call = %(seen)s AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM fencepost.lease_custody
                WHERE id = %(lease_id)s AND fence = %(fence)s AND epoch = %(epoch)s AND NOT lost AND remaining_ns > 0)
RETURNING key

-- :name ledger_resolve
UPDATE fencepost.ledger SET state = 'completed', answer = %(answer)s, completed_us = fencepost.clock_us(), resolved_by = %(by)s
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s AND call = %(seen)s AND state = 'in_progress'
RETURNING key

-- :name ledger_forget
DELETE FROM fencepost.ledger WHERE tenant = %(tenant)s AND scope = %(scope)s AND key = %(key)s AND call = %(seen)s AND state = %(state)s
RETURNING key

-- :name ledger_unreplayed
SELECT * FROM fencepost.ledger_fact
 WHERE tenant = %(tenant)s AND scope = %(scope)s AND asked_fence < %(fence)s
 ORDER BY begun_us, key

-- :name ledger_entries
SELECT * FROM fencepost.ledger_fact
 WHERE tenant = %(tenant)s AND (%(any_scope)s::boolean OR scope = %(scope)s)
   AND (%(standing)s::text = ''
        OR %(standing)s::text = CASE WHEN state = 'in_progress' AND (doubt IS NOT NULL OR NOT lease_live)
                            THEN 'ambiguous' ELSE state END)
   AND (begun_us < %(before_us)s OR (begun_us = %(before_us)s AND (key, scope) > (%(after_key)s, %(after_scope)s)))
 ORDER BY begun_us DESC, key, scope
 LIMIT %(limit)s

-- :name ledger_of_run
SELECT * FROM fencepost.ledger_fact
 WHERE tenant = %(tenant)s AND run_id = %(run_id)s AND begun_us >= %(since_us)s AND begun_us <= %(until_us)s
 ORDER BY begun_us DESC, key
 LIMIT %(limit)s
