-- :name lock_ledger_lease
-- It cannot be given away until this has been committed.
SELECT id FROM fencepost.lease_custody
 WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND tenant = :tenant AND NOT lost AND remaining_ns > 0
   FOR SHARE

-- :name lock_ledger
SELECT key FROM fencepost.ledger WHERE tenant = :tenant AND scope = :scope AND key = :key FOR UPDATE

-- :name ledger_entry
SELECT * FROM fencepost.ledger_fact WHERE tenant = :tenant AND scope = :scope AND key = :key

-- :name ledger_complete
UPDATE fencepost.ledger SET state = 'completed', answer = :answer, completed_us = fencepost.clock_us()
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND call = :call AND lease_id = :lease_id AND fence = :fence AND state = 'in_progress' AND doubt IS NULL
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_doubt
UPDATE fencepost.ledger SET doubt = coalesce(doubt, :doubt)
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND call = :call AND lease_id = :lease_id AND fence = :fence AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_release
DELETE FROM fencepost.ledger
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND call = :call AND lease_id = :lease_id AND fence = :fence AND state = 'in_progress' AND doubt IS NULL
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key

-- :name ledger_take_over
UPDATE fencepost.ledger
   SET run_id = :run_id, lease_id = :lease_id, fence = :fence, call = :call, doubt = NULL,
       begun_us = fencepost.clock_us(), asked_fence = :fence
 WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM fencepost.lease_custody
                WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND NOT lost AND remaining_ns > 0)
RETURNING key

-- :name ledger_settle_doubt
UPDATE fencepost.ledger
   SET state = 'completed', answer = :answer, completed_us = fencepost.clock_us(), resolved_by = :by, asked_fence = :fence
 WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = 'in_progress'
   AND EXISTS (SELECT 1 FROM fencepost.lease_custody
                WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND NOT lost AND remaining_ns > 0)
RETURNING key

-- :name ledger_resolve
UPDATE fencepost.ledger SET state = 'completed', answer = :answer, completed_us = fencepost.clock_us(), resolved_by = :by
 WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = 'in_progress'
RETURNING key

-- :name ledger_forget
DELETE FROM fencepost.ledger WHERE tenant = :tenant AND scope = :scope AND key = :key AND call = :seen AND state = :state
RETURNING key

-- :name ledger_unreplayed
SELECT * FROM fencepost.ledger_fact
 WHERE tenant = :tenant AND scope = :scope AND asked_fence < :fence
 ORDER BY begun_us, key

-- :name ledger_entries
SELECT * FROM fencepost.ledger_fact
 WHERE tenant = :tenant AND (:any_scope::boolean OR scope = :scope)
   AND (:standing::text = ''
        OR :standing::text = CASE WHEN state = 'in_progress' AND (doubt IS NOT NULL OR NOT lease_live)
                            THEN 'ambiguous' ELSE state END)
   AND (begun_us < :before_us OR (begun_us = :before_us AND (key, scope) > (:after_key, :after_scope)))
 ORDER BY begun_us DESC, key, scope
 LIMIT :limit

-- :name ledger_of_run
SELECT * FROM fencepost.ledger_fact
 WHERE tenant = :tenant AND run_id = :run_id AND begun_us >= :since_us AND begun_us <= :until_us
 ORDER BY begun_us DESC, key
 LIMIT :limit

-- :name ledger_asked
-- Writing makes a repeated answer as durable as the first.
UPDATE fencepost.ledger SET asked_fence = greatest(asked_fence, :fence)
 WHERE tenant = :tenant AND scope = :scope AND key = :key
   AND EXISTS (SELECT 1 FROM fencepost.lease WHERE id = :lease_id AND fence = :fence AND epoch = :epoch AND state = 'held')
RETURNING key
