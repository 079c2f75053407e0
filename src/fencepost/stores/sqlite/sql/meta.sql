-- :name lift_floor
-- Text in, number compared: the floor may be lifted and never lowered.
INSERT INTO meta (key, value) VALUES ('fence_high', :fence)
ON CONFLICT (key) DO UPDATE SET value = excluded.value
 WHERE CAST(meta.value AS INTEGER) < CAST(excluded.value AS INTEGER)

-- :name stand_still
-- The whole file is locked already.
SELECT 1

-- :name highest_fence
SELECT max(coalesce((SELECT max(fence) FROM resource), 0),
           coalesce((SELECT max(fence) FROM lease), 0),
           (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'fence_high'))
