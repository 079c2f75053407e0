-- :name try_registry
-- As lock_registry, without waiting for another apply.
SELECT pg_try_advisory_xact_lock(hashtextextended('fencepost registry ' || %(tenant)s, 0))
