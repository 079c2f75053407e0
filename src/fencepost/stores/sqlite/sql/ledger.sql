-- :name ledger_begin
-- Only under a lease whose time is not up: others take what an overdue one began for ambiguous at once.
-- The run is named apart: the lease of a lane is for many, and names none of them.
INSERT INTO ledger (tenant, scope, key, run_id, lease_id, fence, call, state, begun_us, asked_fence)
SELECT tenant, :scope, :key, :run_id, id, fence, :call, 'in_progress', wall_us(), fence
  FROM lease_custody
 WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND tenant = :tenant AND NOT lost AND remaining_ns > 0
ON CONFLICT DO NOTHING
RETURNING key

-- :name lock_ledger_lease
-- The whole file is locked already.
SELECT id FROM lease_custody
 WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND tenant = :tenant AND NOT lost AND remaining_ns > 0

-- :name lock_ledger
SELECT key FROM ledger WHERE tenant = :tenant AND scope = :scope AND key = :key

-- :name ledger_entry
SELECT * FROM ledger_fact WHERE tenant = :tenant AND scope = :scope AND key = :key

-- :name ledger_asked
-- Writing makes a repeated answer as durable as the first.
UPDATE ledger SET asked_fence = max(asked_fence, :fence)
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND EXISTS (SELECT 1 FROM lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_complete
UPDATE ledger SET state = 'completed', answer = :answer, completed_us = wall_us()
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND call = :call AND lease_id = :lease_id AND fence = :fence AND state = 'in_progress' AND doubt IS NULL
   AND EXISTS (SELECT 1 FROM lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_doubt
UPDATE ledger SET doubt = coalesce(doubt, :doubt)
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND call = :call AND lease_id = :lease_id AND fence = :fence AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_release
DELETE FROM ledger
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND call = :call AND lease_id = :lease_id AND fence = :fence AND state = 'in_progress' AND doubt IS NULL
   AND EXISTS (SELECT 1 FROM lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_take_over
UPDATE ledger
   SET run_id = :run_id, lease_id = :lease_id, fence = :fence, call = :call, doubt = NULL,
       begun_us = wall_us(), asked_fence = :fence
 WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM lease_custody
                WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND NOT lost AND remaining_ns > 0)
RETURNING key

-- :name ledger_settle_doubt
UPDATE ledger
   SET state = 'completed', answer = :answer, completed_us = wall_us(), resolved_by = :by, asked_fence = :fence
 WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM lease_custody
                WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND NOT lost AND remaining_ns > 0)
RETURNING key

-- :name ledger_resolve
UPDATE ledger SET state = 'completed', answer = :answer, completed_us = wall_us(), resolved_by = :by
 WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = 'in_progress'
RETURNING key

-- :name ledger_forget
DELETE FROM ledger WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = :state
RETURNING key

-- :name ledger_unreplayed
SELECT * FROM ledger_fact
 WHERE tenant = :tenant AND scope = :scope AND asked_fence < :fence
 ORDER BY begun_us, key

-- :name ledger_entries
SELECT * FROM ledger_fact
 WHERE tenant = :tenant AND (:any_scope OR scope = :scope)
   AND (:standing = ''
        OR :standing = CASE WHEN state = 'in_progress' AND (doubt IS NOT NULL OR NOT lease_live)
                            THEN 'ambiguous' ELSE state END)
   AND (begun_us < :before_us OR (begun_us = :before_us AND (key, scope) > (:after_key, :after_scope)))
 ORDER BY begun_us DESC, key, scope
 LIMIT :limit

-- :name ledger_of_run
SELECT * FROM ledger_fact
 WHERE tenant = :tenant AND run_id = :run_id AND begun_us >= :since_us AND begun_us <= :until_us
 ORDER BY begun_us DESC, key
 LIMIT :limit
