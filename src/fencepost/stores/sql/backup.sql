-- :name void_leases
UPDATE fencepost.lease SET state = 'lost', lost_us = fencepost.clock_us(), lost_why = :why
 WHERE state = 'held' AND :tenant IN ('', tenant)

-- :name void_resources
UPDATE fencepost.resource SET lease_id = NULL
 WHERE lease_id IS NOT NULL
   AND (:tenant = '' OR lease_id IN (SELECT id FROM fencepost.lease WHERE tenant = :tenant))

-- :name empty_queue
DELETE FROM fencepost.waiter WHERE :tenant IN ('', tenant)

-- :name held_by
-- What a tenant has leased. Who leads its schedulers may stay: it finds nothing to do.
SELECT coalesce('run ' || run_id, resources) FROM fencepost.lease WHERE tenant = :tenant AND state = 'held' AND resources NOT LIKE '%"scheduler:%'
 LIMIT 1
