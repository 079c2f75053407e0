-- :name try_registry
-- The whole file is locked already.
SELECT 1
